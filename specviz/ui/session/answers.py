"""What serving engines answer to a tab: one answer at a time, the last few kept.

An answer lands in a thread of its own, so it goes on when the page is left. It ends with its tab.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from threading import Event, Thread

from specviz.errors import SpecvizError
from specviz.record.server_run import ServerBlock, ServerTrace
from specviz.servers.asking import Answer
from specviz.store.saving import save_run
from specviz.ui.session.run_saving import the_library
from specviz.ui.session.sent_rounds import SentRounds

_KEPT = 12
_AT_ONCE = 0.35  # seconds in which the first piece of an answer may come


class AnswerRun:
    """One answer, so far or to its end; saved in the library when it is over."""

    def __init__(self, answer: Answer, *, allow_remote: bool) -> None:
        self.id = uuid.uuid4().hex
        self.allow_remote = allow_remote  # what was granted when it was asked for
        self.error: SpecvizError | None = None
        self.not_saved: SpecvizError | None = None
        self.kept_as: str | None = None  # its id in the library
        self._answer = answer
        self._trace: ServerTrace | None = None
        self._over = Event()
        self._first = Event()
        Thread(target=self._follow, name="answer of a page", daemon=True).start()

    @property
    def finished(self) -> bool:
        return self._over.is_set()

    @property
    def trace(self) -> ServerTrace:
        return self._trace or self._answer.trace()

    def stop(self) -> None:
        if not self.finished:
            self._answer.stop()

    def wait_for_piece(self, seconds: float) -> None:
        self._first.wait(seconds)

    def wait(self, seconds: float) -> bool:
        return self._over.wait(seconds)

    def take_blocks(self, blocks: tuple[ServerBlock, ...], address: str) -> None:
        """It was timed against the target alone: kept with that, instead of without."""
        trace = replace(self.trace, baseline=blocks, baseline_address=address)
        if trace == self._trace:
            return
        self._trace, before = trace, self.kept_as
        self._save(trace, uuid.uuid4().hex)
        if before is not None and self.not_saved is None:
            the_library().delete([before])

    def _follow(self) -> None:
        try:
            for _ in self._answer:
                self._first.set()
        except SpecvizError as error:
            self.error = error
        finally:
            self._trace = self._answer.trace()
            self._save(self._trace, self.id)
            self._over.set()
            self._first.set()

    def _save(self, trace: ServerTrace, run_id: str) -> None:
        if not trace.rounds:
            return
        try:
            self.kept_as, self.not_saved = save_run(the_library(), trace, run_id=run_id), None
        except SpecvizError as error:
            self.not_saved = error


@dataclass(slots=True)
class Answers:
    """Of one tab, the newest last."""

    runs: list[AnswerRun] = field(default_factory=list)
    sent_rounds: SentRounds = field(default_factory=SentRounds)

    @property
    def current(self) -> AnswerRun | None:
        return self.runs[-1] if self.runs else None

    def begin(self, run: AnswerRun) -> None:
        """Add one that has just been asked for; the one before ends."""
        self.stop()
        self.runs = [*self.runs[-_KEPT + 1 :], run]
        run.wait_for_piece(_AT_ONCE)

    def stop(self) -> None:
        for each in self.runs:
            each.stop()

    def shown(self) -> AnswerRun | None:
        """The newest that has anything to show."""
        return next((each for each in reversed(self.runs) if each.trace.rounds), None)
