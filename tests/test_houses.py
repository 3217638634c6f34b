"""What may be imported without models and without a page, in fresh processes."""

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
    "specviz.cli",
    "specviz.kernels.ahead",
    "specviz.worker.parent.client",
)


def loaded_by(modules: str) -> set[str]:
    """The packages that a process holds after importing the modules, and nothing else."""
    code = f"import sys, {modules}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_no_models_and_no_page() -> None:
    """Where all of them together load none, none does by itself."""
    assert not loaded_by(", ".join(LIGHT)) & (MODELS | PAGE)


def test_the_page_loads_no_models() -> None:
    loaded = loaded_by(
        "specviz.ui.watch.run_player, specviz.ui.widgets.run_controls, "
        "specviz.ui.servers.draft_section, specviz.ui.servers.answer_player, "
        "specviz.ui.widgets.pair_panel"
    )
    assert not loaded & MODELS
    assert loaded >= PAGE


def test_the_engine_is_what_loads_them() -> None:
    assert loaded_by("specviz.engine") >= {"torch", "transformers"}


def test_kernels_are_compiled_without_them() -> None:
    loaded = loaded_by("specviz.kernels.readiness")
    assert not loaded & {"torch", "transformers", *PAGE}
    assert "numba" in loaded


def test_a_worker_has_kernels_compiled_before_it_imports_anything_large() -> None:
    assert not loaded_by("specviz.kernels.ahead, specviz.worker.__main__") & {*MODELS, "numpy"}


# Pages are no package, so the import contracts cannot see them.
ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "app.py", *sorted((ROOT / "pages").glob("*.py"))]
ROOMS_OF_PAGES = {"ui", "figures", "record", "theory", "errors"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_stays_in_its_rooms(page: Path) -> None:
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
    assert ours <= ROOMS_OF_PAGES
    assert not MODELS & {name.split(".")[0] for name in modules}
