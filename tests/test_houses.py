"""Import contracts in fresh processes: no model libraries, no Streamlit."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

MODELS = {"torch", "transformers", "accelerate", "safetensors", "numba", "llvmlite"}
PAGE = {"streamlit"}
LIGHT = (
    "specviz",
    "specviz.record.trace",
    "specviz.record.pairs",
    "specviz.theory.speed",
    "specviz.store",
    "specviz.figures.metrics",
    "specviz.figures.theorem_checks",
    "specviz.comparison",
    "specviz.comparison.plan_runner",
    "specviz.measure",
    "specviz.bench.bench",
    "specviz.measure.measured_run",
    "specviz.training.drafts.training_job",
    "specviz.cli",
    "specviz.kernels.ahead",
    "specviz.worker.parent.client",
)


def loaded_by(modules: str) -> set[str]:
    """Return the packages loaded in a process that imports only these modules."""
    code = f"import sys, {modules}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_light_modules_load_no_models_and_no_streamlit() -> None:
    """Importing all of them at once covers each of them."""
    assert not loaded_by(", ".join(LIGHT)) & (MODELS | PAGE)


def test_the_engine_loads_torch() -> None:
    loaded = loaded_by("specviz.engine")
    assert "torch" in loaded
    assert "transformers" not in loaded  # its modelling code takes seconds to import


def test_kernels_compile_without_torch() -> None:
    loaded = loaded_by("specviz.kernels.readiness")
    assert not loaded & {"torch", "transformers", *PAGE}
    assert "numba" in loaded


def test_a_worker_starts_compiling_kernels_before_large_imports() -> None:
    assert not loaded_by("specviz.kernels.ahead, specviz.worker.__main__") & {*MODELS, "numpy"}


# Pages are not a package, so import-linter cannot check them.
ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "app.py", *sorted((ROOT / "pages").glob("*.py"))]
ALLOWED_IN_PAGES = {"ui", "figures", "record", "theory", "errors"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_imports_only_allowed_packages(page: Path) -> None:
    modules = [
        name
        for node in ast.walk(ast.parse(page.read_text(encoding="utf-8")))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    ]
    ours = {name.split(".")[1] for name in modules if name.startswith("specviz.")}
    assert ours
    assert ours <= ALLOWED_IN_PAGES
    assert not MODELS & {name.split(".")[0] for name in modules}
