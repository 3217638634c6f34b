"""What may be imported without models and without a page: each module in a fresh process."""

from __future__ import annotations

import subprocess
import sys

import pytest

MODELS = {"torch", "transformers", "accelerate", "safetensors"}
PAGE = {"streamlit"}
LIGHT = (
    "specviz",
    "specviz.trace",
    "specviz.theory.speed",
    "specviz.store",
    "specviz.analysis",
    "specviz.lab",
    "specviz.lab.bench",
    "specviz.lab.measured",
    "specviz.cli",
)


def loaded_by(modules: str) -> set[str]:
    """The packages that a process holds after importing the modules, and nothing else."""
    code = f"import sys, {modules}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("module", LIGHT)
def test_no_models_and_no_page(module: str) -> None:
    assert not loaded_by(module) & (MODELS | PAGE)


def test_the_page_loads_no_models() -> None:
    loaded = loaded_by("specviz.ui.shell, specviz.ui.runs, specviz.ui.figures_row")
    assert not loaded & MODELS
    assert loaded >= PAGE


def test_the_engine_is_what_loads_them() -> None:
    assert loaded_by("specviz.engine") >= {"torch", "transformers"}
