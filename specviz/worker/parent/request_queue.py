"""The requests to the worker process that have not ended: one is active, the others wait.

Persons take turns: the next turn goes to a person who had no turn yet, or else to the person whose
last turn was the longest time ago. Requests of one person keep their order. Requests without a
person count as requests of one person.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from specviz.errors import SpecvizError
from specviz.values import Value
from specviz.worker.messages import PrepareRequest, Request, RequestEnded, UnloadRequest
from specviz.worker.parent.handles import Check, PendingResult, Room, Run, StudyHandle

Handle = Run | Check | Room | StudyHandle


class QueuedRequest(Value):
    """A request that has not ended, and the handle through which its caller gets results."""

    request: Request
    handle: Handle | None = None
    person: str = ""

    @property
    def run(self) -> Run | None:
        """Return the request's run; None if there is no run or the run has finished."""
        run = self.handle
        return run if isinstance(run, Run) and not run.finished else None

    def end(self, event: RequestEnded) -> None:
        match self.handle:
            case Check() as check:
                check.end(event.check, event.error)
            case Room() as room:
                room.end(event.room, event.error)
            case StudyHandle() as study:
                study.end(None if event.broken_off else True, event.error)
            case _ if self.run is not None:
                done = "stopped" if event.broken_off else "done"
                self.run.end("failed" if event.error else done, event.error)

    def fail(self, error: SpecvizError) -> None:
        """End the caller's pending result with an error; do nothing if the handle is a run."""
        if isinstance(self.handle, PendingResult):
            self.handle.end(None, error)

    def lose(self, error: SpecvizError) -> None:
        """End the run or pending result with an error, because the process died."""
        if self.run is not None:
            self.run.end("failed", error)
        self.fail(error)


class RequestQueue:
    """The request in progress (``active``) and the waiting requests.

    ``wanted`` is a pair to load and measure as soon as no request waits.

    The queue is not thread-safe: the worker's client holds a lock when it uses the queue.
    """

    def __init__(self) -> None:
        self.active: QueuedRequest | None = None
        self.wanted: PrepareRequest | None = None
        self._waiting: deque[QueuedRequest] = deque()  # in order of arrival
        self._served: dict[str, None] = {}  # persons, the one served last at the end

    def __iter__(self) -> Iterator[QueuedRequest]:
        """Yield the active request and then the others, in the order in which they are due."""
        if self.active is not None:
            yield self.active
        yield from self._by_turns()

    @property
    def waits(self) -> bool:
        """Return whether a request, or a pair to load and measure, is waiting."""
        return bool(self._waiting) or self.wanted is not None

    @property
    def changes_pair(self) -> bool:
        """Return whether a pair is being loaded or unloaded, or soon will be."""
        active = self.active.request if self.active else None
        running = isinstance(active, PrepareRequest | UnloadRequest)
        waits = any(isinstance(each.request, UnloadRequest) for each in self._waiting)
        return self.wanted is not None or running or waits

    @property
    def unfinished_runs(self) -> list[Run]:
        return [run for each in self if (run := each.run) is not None]

    def add(self, request: Request, handle: Handle | None = None, person: str = "") -> None:
        self._waiting.append(QueuedRequest(request=request, handle=handle, person=person))

    def activate_next(self) -> QueuedRequest | None:
        """Make the next request the active one and return it."""
        if self._waiting:
            due = self.active = next(self._by_turns())
            self._waiting = deque(each for each in self._waiting if each is not due)
            self._served.pop(due.person, None)
            self._served[due.person] = None
        elif self.wanted is not None:
            self.active, self.wanted = QueuedRequest(request=self.wanted), None
        return self.active

    def _by_turns(self) -> Iterator[QueuedRequest]:
        """Yield the waiting requests: one from each person, then another from each, and so on."""
        waiting: dict[str, deque[QueuedRequest]] = {}
        for each in self._waiting:
            waiting.setdefault(each.person, deque()).append(each)
        turns = {person: turn for turn, person in enumerate(self._served)}
        persons = deque(sorted(waiting, key=lambda person: turns.get(person, -1)))
        while persons:
            person = persons.popleft()
            yield waiting[person].popleft()
            if waiting[person]:
                persons.append(person)

    def take_active(self) -> QueuedRequest | None:
        """Remove the active request and return it."""
        active, self.active = self.active, None
        return active

    def take_all(self) -> list[QueuedRequest]:
        """Remove all requests and the pair to prepare; return the requests."""
        requests = list(self)
        self.active, self.wanted = None, None
        self._waiting.clear()
        return requests

    def remove_waiting(self, handle: Handle) -> None:
        self._waiting = deque(each for each in self._waiting if each.handle is not handle)

    def update_places(self) -> None:
        for place, run in enumerate(self.unfinished_runs):
            run.take_place(place)
