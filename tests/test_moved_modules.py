"""Modules are still found by the names they had before they moved."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from specviz.moved_modules import MOVED


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_gives_the_module_itself(old: str) -> None:
    assert import_module(f"specviz.{old}") is import_module(f"specviz.{MOVED[old]}")


def test_an_old_name_works_in_a_fresh_process_and_loads_no_models() -> None:
    code = (
        "import sys; from specviz.record import timing; "
        "from specviz.record.metrics import metrics; "
        "print(metrics.__module__, timing.__name__, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["specviz.figures.metrics", "specviz.figures.timing", "False"]
