"""Several ordinary runs one after the other, for one browser session.

A fragment's tick drives it: ``advance`` looks, keeps what is finished and submits the next;
it never waits. One run at a time is in the worker's queue, so others get their turn between
two. The series ends at its first failure; the finished runs are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specviz.errors import SpecvizError
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig, Trace
from specviz.worker.parent.client import Run, Worker

SeriesState = Literal["running", "done", "failed", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One run of a series, and what the page calls it."""

    label: str
    spec: PairSpec
    prompt: str
    config: RunConfig
    baseline: bool = False  # hold it against the target alone
    kind: str | None = None  # of the prompt, to be kept with the run
    warm_up: bool = False  # not to be kept


class Series:
    """``session_id`` is its own in the worker's queue: a tab's ordinary runs go on beside it."""

    def __init__(self, worker: Worker, session_id: str, planned: Sequence[Planned]) -> None:
        self.planned = tuple(planned)
        self.error: SpecvizError | None = None
        self._worker = worker
        self._session_id = session_id
        self._traces: list[Trace] = []
        self._finished: list[Run] = []
        self._run: Run | None = None
        self._state: SeriesState = "running" if self.planned else "done"

    @property
    def state(self) -> SeriesState:
        return self._state

    @property
    def progress(self) -> tuple[int, int]:
        """Runs finished, and runs planned."""
        return len(self._traces), len(self.planned)

    @property
    def traces(self) -> tuple[Trace, ...]:
        """Of the finished runs, in the order of ``planned``."""
        return tuple(self._traces)

    @property
    def finished(self) -> tuple[Run, ...]:
        """The finished runs, as ``traces``."""
        return tuple(self._finished)

    @property
    def current(self) -> Run | None:
        """The run that waits or is under way."""
        return self._run

    def advance(self) -> None:
        """Take what has finished and submit what is next; call it again at the next tick."""
        if self._state != "running":
            return
        if self._run is not None:
            if not self._run.finished:
                return
            self._conclude(self._run)
        if self._state == "running":
            self._submit_next()

    def stop(self) -> None:
        """End after the present round. The run that is under way is not kept."""
        if self._state != "running":
            return
        self._state = "stopped"
        if self._run is not None:
            self._run.stop()
            self._run = None

    def _conclude(self, run: Run) -> None:
        self._run = None
        if run.state != "done":
            self._state = "failed" if run.state == "failed" else "stopped"
            self.error = run.error
            return
        assert run.trace is not None
        self._traces.append(run.trace)
        self._finished.append(run)
        if len(self._traces) == len(self.planned):
            self._state = "done"

    def _submit_next(self) -> None:
        plan = self.planned[len(self._traces)]
        self._run = self._worker.submit(
            self._session_id,
            plan.spec,
            plan.prompt,
            plan.config,
            baseline=plan.baseline,
            warm_up=plan.warm_up,
            kind=plan.kind,
        )
