"""Wait for another process, and report what did not happen."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from specviz.record.trace import Round, RoundTimes
from specviz.worker.parent.client import Run

_NO_TIMES = RoundTimes(draft=0.0, verify=0.0, other=0.0)


def wait_until(holds: Callable[[], object], seconds: float = 60.0) -> float:
    """Return the seconds it took."""
    began = time.monotonic()
    while not holds():
        waited = time.monotonic() - began
        assert waited < seconds, f"nothing after {waited:.1f} s"
        time.sleep(0.002)
    return time.monotonic() - began


def wait_for_rounds(run: Run, count: int) -> None:
    wait_until(lambda: len(run.rounds) >= count or run.finished)
    assert not run.finished, (run.state, run.error)


def finish(run: Run) -> Run:
    wait_until(lambda: run.finished)
    return run


def untimed(entry: Round) -> Round:
    return replace(entry, times=_NO_TIMES)
