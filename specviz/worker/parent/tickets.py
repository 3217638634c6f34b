"""A request in the queue, and what its caller holds of it."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.errors import SpecvizError
from specviz.worker.messages import Request, RequestEnded
from specviz.worker.parent.handles import Check, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    request: Request
    run: Run | None = None
    check: Check | None = None

    def lose(self, error: SpecvizError) -> None:
        """The process died over it."""
        if self.run is not None and not self.run.finished:
            self.run.end("failed", error)
        if self.check is not None:
            self.check.end(None, error)


def end_run(run: Run, event: RequestEnded) -> None:
    if event.error is not None:
        run.end("failed", event.error)
    else:
        run.end("stopped" if event.broken_off else "done")
