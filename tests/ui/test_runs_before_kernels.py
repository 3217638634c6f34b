"""Runs that were made through torch, before the kernels were compiled, are kept apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from specviz.record.trace import KERNEL_COMPILER, Trace
from specviz.store import Library
from specviz.ui.session import measured_steps
from specviz.ui.session.history import HISTORY, History
from specviz.ui.watch.first_body import FirstBody
from specviz.ui.watch.run_without_body import ensure_run_without_body
from tests.machines import LAPTOP
from tests.traces import BODY, full_trace, with_bodies
from tests.ui.test_kept_runs import finished_run


class FakeWorker:
    """A worker that only records requests."""

    def __init__(self) -> None:
        self.submitted: list[dict[str, Any]] = []

    def submit(self, *_arguments: object, **options: Any) -> Any:
        self.submitted.append(options)
        return finished_run(full_trace())

    def prepare(self, _spec: object) -> None:
        pass


def without_kernels(trace: Trace) -> Trace:
    versions = {k: v for k, v in trace.environment.versions.items() if k != KERNEL_COMPILER}
    return replace(trace, environment=replace(trace.environment, versions=versions))


GROWN = with_bodies(full_trace(), target=BODY)
RUNS = pytest.mark.parametrize(
    ("trace", "counts"), [(GROWN, True), (without_kernels(GROWN), False)], ids=["kernels", "torch"]
)


@RUNS
def test_only_a_run_with_kernels_is_repeated_at_the_real_size(
    trace: Trace, counts: bool, tmp_path: Path
) -> None:
    worker, history = FakeWorker(), History()
    history.add(finished_run(trace))
    ensure_run_without_body(cast("Any", worker), Library(tmp_path / "runs.db"), "tab", history)
    assert worker.submitted == ([{}] if counts else [])


@RUNS
def test_only_a_run_with_kernels_measures_a_step(
    trace: Trace, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History()
    history.add(finished_run(trace))
    page = SimpleNamespace(session_state={HISTORY: history})
    monkeypatch.setattr(measured_steps, "st", page)
    monkeypatch.setattr(measured_steps, "is_of", lambda *_: True)
    assert bool(measured_steps.measured_steps(LAPTOP)) == counts


def test_a_first_run_does_not_wait_for_the_kernels() -> None:
    worker = FakeWorker()
    choices: Any = type("Choices", (), {"config": full_trace().config, "detects_chat": True})
    FirstBody().submit(cast("Any", worker), "tab", cast("Any", None), "prompt", choices)
    assert worker.submitted == [{"detects_chat": True, "before_kernels": True}]
