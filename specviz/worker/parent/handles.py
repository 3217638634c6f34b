"""Handles of the dashboard's requests to the worker: runs in progress and pending results.

Any thread may read a handle at any time. Only the worker's client changes handles; it sets a run's
state last, so a finished run is complete.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from queue import SimpleQueue
from threading import Event
from typing import Generic, Literal, TypeVar

from specviz.errors import SpecvizError
from specviz.figures.throughput import Outlook
from specviz.record.body_costs import BodyRoom
from specviz.record.pairs import PairCheck, PairSpec
from specviz.record.token_text import added_texts, emitted_tokens
from specviz.record.trace import Prompt, Round, RunConfig, Trace
from specviz.worker.messages import (
    OutlookMade,
    RunEvent,
    RunRecord,
    RunRound,
    RunStarted,
    RunTimed,
)

T = TypeVar("T")
RunState = Literal["loading", "queued", "running", "stopped", "done", "failed"]
FINISHED: tuple[RunState, ...] = ("stopped", "done", "failed")


class Run:
    """One run as the dashboard sees it. ``rounds`` is a live list that only grows."""

    def __init__(
        self,
        *,
        session: str,
        spec: PairSpec,
        config: RunConfig,
        on_stop: Callable[[Run], None],
    ) -> None:
        self.id = uuid.uuid4().hex
        self.session = session
        self.spec = spec
        self.config = config
        self.kept = True  # False for warm-up runs and for games, which are not stored
        self.person = ""  # the key under which the library stores the run; "" for the owner
        # Whether a later run or the closing of the tab stopped the run; None if nothing stopped it.
        self.superseded: bool | None = None
        self.timed = False  # the timing of the target alone is over
        self.memory_bytes: int | None = None  # memory used, set when the run ends
        self.detail = ""
        self.place = 0
        self.outlook: Outlook | None = None
        self.trace: Trace | None = None
        self.error: SpecvizError | None = None
        self._rounds: list[Round] = []
        self._record: Trace | None = None
        self._concluded = False
        self._state: RunState = "queued"
        self._on_stop = on_stop
        self._over = Event()
        self._moved = Event()  # the run has a round, or is over

    @property
    def state(self) -> RunState:
        return self._state

    @property
    def finished(self) -> bool:
        return self._state in FINISHED

    @property
    def decoded(self) -> bool:
        """Return whether the last round has arrived; the target alone may not be timed yet."""
        return self.finished or (bool(self._rounds) and bool(self.detail))

    @property
    def rounds(self) -> Sequence[Round]:
        return self._rounds

    @property
    def prompt(self) -> Prompt | None:
        return self._record.prompt if self._record else None

    def so_far(self) -> Trace | None:
        """Return the trace with the rounds so far, or None before the first round."""
        if self.finished:
            return self.trace
        record, rounds = self._record, tuple(self._rounds)
        return replace(record, rounds=rounds) if record and rounds else None

    def stop(self) -> None:
        """Stop after the current round; finished rounds are kept."""
        self._on_stop(self)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the run's end; return whether the run has ended.

        Never call this while drawing a page.
        """
        return self._over.wait(seconds)

    def wait_for_round(self, seconds: float) -> bool:
        """Wait for the run's first round or its end; return False if neither comes in time."""
        return self._moved.wait(seconds)

    # Called by the client

    def take_place(self, place: int) -> None:
        self.place = place
        if self._state in ("queued", "loading"):
            self._state = "queued" if place else "loading"

    def take(self, event: RunEvent) -> None:
        """Add an event of the run; after the run's end, only predictions are still added."""
        match event:
            case OutlookMade():
                self.outlook = event.outlook
            case _ if self.finished:
                pass
            case RunStarted():
                self.begin(event.record, event.outlook)
            case RunRound():
                self.add(event.entry)
            case RunTimed():
                self.take_timing(event)
            case RunRecord():
                self.conclude(event.record, event.memory_bytes)

    def begin(self, record: Trace, outlook: Outlook | None) -> None:
        self._record = record
        self.config = record.config  # it may use a chat template that was not known before
        self.outlook = outlook
        self._state = "running"

    def take_timing(self, timing: RunTimed) -> None:
        """Store the times of the target alone (the baseline) measured so far.

        The worker times the target alone along parts of the text (slices), and sends the times
        after each slice until ``over`` is true.
        """
        assert self._record is not None
        self._record = replace(
            self._record, baseline=timing.baseline, text=timing.text, finish=timing.finish
        )
        self.timed = timing.over

    def add(self, entry: Round) -> None:
        self._rounds.append(entry)
        self._moved.set()

    def conclude(self, record: Trace, memory_bytes: int | None = None) -> None:
        self._record = record
        self.memory_bytes = memory_bytes
        self._concluded = True

    def end(
        self, state: Literal["stopped", "done", "failed"], error: SpecvizError | None = None
    ) -> None:
        self.trace = self._assembled(state)
        self.error = error
        self.detail = ""
        self.place = 0
        self._state = state
        self._moved.set()
        self._over.set()

    def _assembled(self, state: RunState) -> Trace | None:
        if self._record is None or not (self._rounds or state == "done"):
            return None
        if self._concluded:
            return replace(self._record, rounds=tuple(self._rounds))
        return replace(
            self._record,
            rounds=tuple(self._rounds),
            text=_text_of(self._rounds, self._record.pieces),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )


class PendingResult(Generic[T]):
    """A result that the worker sends later; ``end`` sets ``result`` and ``error``."""

    def __init__(self) -> None:
        self.result: T | None = None
        self.error: SpecvizError | None = None
        self._over = Event()

    @property
    def done(self) -> bool:
        return self._over.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the result; return whether it has arrived."""
        return self._over.wait(seconds)

    def end(self, result: T | None, error: SpecvizError | None) -> None:
        self.result = result
        self.error = error
        self._over.set()


class Check(PendingResult[PairCheck]):
    """The result of checking a pair, as a pending result."""


class Room(PendingResult[BodyRoom]):
    """What limits a pair's simulated sizes (memory, for example), as a pending result."""


class StudyHandle(PendingResult[bool]):
    """A study on a pair and its values so far; ``result`` is True unless the study was stopped."""

    def __init__(
        self,
        request_id: str,
        on_stop: Callable[[StudyHandle], object] = lambda _study: None,
    ) -> None:
        super().__init__()
        self.id = request_id
        self.found: SimpleQueue[object] = SimpleQueue()  # values, then the handle as end marker
        self._on_stop = on_stop

    def stop(self) -> None:
        """End the study; the values received so far are kept."""
        self._on_stop(self)

    def end(self, result: bool | None, error: SpecvizError | None) -> None:
        super().end(result, error)
        self.found.put(self)

    def values(self) -> Iterator[object]:
        """Yield each value once, as it arrives, until the study ends; call this in one thread."""
        while (value := self.found.get()) is not self:
            yield value


def _text_of(rounds: Sequence[Round], pieces: Mapping[str, str]) -> str:
    """Return the text of the emitted tokens, in case the process died before it sent the text."""
    tokens = [token for _, token in emitted_tokens(rounds)]
    ids = [each.token_id for each in tokens]
    return "".join(added_texts(ids, [each.text for each in tokens], pieces))
