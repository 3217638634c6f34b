"""The status of the pair in the worker process, and how the events of the process change it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from specviz.errors import SpecvizError
from specviz.record.pairs import LoadPart, PairSpec, Progress
from specviz.values import Value
from specviz.worker.messages import (
    Calibrating,
    Doing,
    MemoryUsed,
    PairGone,
    PairLoading,
    PairReady,
)

PairState = Literal["none", "loading", "ready", "failed"]
PairEvent = PairLoading | PairReady | PairGone | Doing | MemoryUsed | Calibrating


class PairStatus(Value):
    """The pair as the dashboard sees it: ``spec`` is loaded, being loaded, or failed to load.

    ``preparing`` is set while a pair is being loaded or unloaded, or soon will be. ``progress``
    is the current activity, in any state. ``calibrating`` is set while step costs are measured
    again at a user's request. ``parts`` are the steps of the last loading, with durations;
    ``notices`` report what loading changed, such as quantised weights.
    """

    state: PairState = "none"
    spec: PairSpec | None = None
    preparing: bool = False
    progress: Progress | None = None
    error: SpecvizError | None = None
    memory_bytes: int | None = None
    has_chat: bool = False
    parts: tuple[LoadPart, ...] = ()
    notices: tuple[str, ...] = ()
    calibrating: bool = False

    def after(self, event: PairEvent) -> PairStatus:
        match event:
            case PairLoading():
                return self._with_pair(state="loading", spec=event.spec)
            case PairReady():
                return self._with_pair(
                    state="ready",
                    spec=event.spec,
                    has_chat=event.has_chat,
                    parts=event.parts,
                    notices=event.notices,
                )
            case PairGone():
                return self._with_pair()
            case Doing():
                return replace(self, progress=event.progress)
            case MemoryUsed():
                return replace(self, memory_bytes=event.memory_bytes)
            case Calibrating():
                return replace(self, calibrating=event.going)

    def after_request(self, error: SpecvizError | None) -> PairStatus:
        """Return the status after a request ended.

        If the worker loaded a pair for this request, the loading has ended, too.
        """
        if self.state != "loading":
            return self
        if error is None:
            return self._with_pair()
        return self._with_pair(state="failed", spec=self.spec, error=error)

    def _with_pair(self, **changes: Any) -> PairStatus:
        return PairStatus(memory_bytes=self.memory_bytes, calibrating=self.calibrating, **changes)
