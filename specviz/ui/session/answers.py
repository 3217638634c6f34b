"""Answers that a tab requests from serving engines.

A tab receives one answer at a time and keeps the last dozen answers. A thread receives the answer,
so the answer continues when the user leaves the page. The thread stops when the tab closes.
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
_FIRST_PIECE_SECONDS = 0.35  # longest wait for the first piece of an answer


class AnswerRun:
    """One answer of a serving engine, in progress or finished; saved in the library at its end."""

    def __init__(self, answer: Answer, *, allow_remote: bool) -> None:
        self.id = uuid.uuid4().hex
        self.allow_remote = allow_remote  # whether the user allowed a remote server
        self.error: SpecvizError | None = None
        self.save_error: SpecvizError | None = None
        self.saved_id: str | None = None  # the answer's id in the library
        self._answer = answer
        self._library = the_library()  # of the person who asked, also in the thread below
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

    def add_baseline(self, blocks: tuple[ServerBlock, ...], address: str) -> None:
        """Add the measured times of the target alone to the answer, and save the answer again."""
        trace = replace(self.trace, baseline=blocks, baseline_address=address)
        if trace == self._trace:
            return
        self._trace, previous_id = trace, self.saved_id
        self._save(trace, uuid.uuid4().hex)
        if previous_id is not None and self.save_error is None:
            self._library.delete([previous_id])

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
            self.saved_id, self.save_error = save_run(self._library, trace, run_id=run_id), None
        except SpecvizError as error:
            self.save_error = error


@dataclass(slots=True)
class Answers:
    """The answers of one tab, the newest last."""

    runs: list[AnswerRun] = field(default_factory=list)
    sent_rounds: SentRounds = field(default_factory=SentRounds)

    @property
    def current(self) -> AnswerRun | None:
        return self.runs[-1] if self.runs else None

    def begin(self, run: AnswerRun) -> None:
        """Add an answer that was just requested, and stop the previous answer."""
        self.stop()
        self.runs = [*self.runs[-_KEPT + 1 :], run]
        run.wait_for_piece(_FIRST_PIECE_SECONDS)

    def stop(self) -> None:
        for each in self.runs:
            each.stop()

    def shown(self) -> AnswerRun | None:
        """Return the newest answer with at least one round, or None."""
        return next((each for each in reversed(self.runs) if each.trace.rounds), None)
