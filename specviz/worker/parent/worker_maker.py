"""Make the runs of background jobs in the worker process (see ``measure.run_makers``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from specviz.measure.run_makers import MadeRun, RunOrder, Study
from specviz.measure.slice_timing import compared_seconds
from specviz.measure.stoppable import StoppableWork, StoppedError
from specviz.record.conversations import TypedPrompt
from specviz.record.pairs import PairCheck, PairSpec
from specviz.worker.parent.client import Worker
from specviz.worker.parent.handles import Run, StudyHandle


class WorkerMaker(StoppableWork):
    """A maker of the runs and studies of one background job.

    Args:
        session: A session name that no browser tab uses: a new run stops all runs of its session.
        on_submit: Called with every submitted run except warm-ups.
        person: The person to whom the runs belong.
    """

    def __init__(
        self,
        worker: Worker,
        session: str,
        on_submit: Callable[[Run], object] | None = None,
        person: str = "",
    ) -> None:
        super().__init__()
        self._worker, self._session, self._on_submit = worker, session, on_submit
        self._person = person

    @property
    def doing(self) -> str:
        match self._parts[-1:]:
            case [Run() as run]:
                return run.detail
            case [StudyHandle()]:
                progress = self._worker.status().progress
                return progress.text if progress else ""
            case _:
                return ""

    def check(self, spec: PairSpec, prompts: Sequence[TypedPrompt], *, chat: bool) -> PairCheck:
        check = self._worker.check(spec, prompts, chat=chat)
        check.wait()
        if check.error is not None:
            raise check.error
        assert check.result is not None
        return check.result

    def make(self, order: RunOrder) -> MadeRun:
        run = self._submitted(order)
        run.wait()
        self._parts.remove(run)
        if run.state == "failed" and run.error is not None:
            raise run.error
        if run.state != "done":
            raise StoppedError
        assert run.trace is not None
        return MadeRun(trace=run.trace, memory_bytes=run.memory_bytes, run_id=run.id)

    def find(self, spec: PairSpec, study: Study) -> Iterator[object]:
        self._check_stop()
        studying = self._begin(self._worker.study(spec, study))
        try:
            yield from studying.values()
        finally:
            self._parts.remove(studying)
            studying.stop()  # in case the caller left before the study's end
        if studying.error is not None:
            raise studying.error
        if not studying.result:
            raise StoppedError

    def _submitted(self, order: RunOrder) -> Run:
        self._check_stop()
        run = self._worker.submit(
            self._session,
            order.spec,
            order.prompt,
            order.config,
            baseline=order.baseline,
            budget=compared_seconds(),
            kept=not order.warm_up,
            kind=order.kind,
            person=self._person,
        )
        self._begin(run)
        if self._on_submit is not None and not order.warm_up:
            self._on_submit(run)
        return run
