"""The server's work: one piece at a time, the others wait. It goes on when pages are left."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock, Thread

from specviz.measure.background_job import Job

_REMEMBERED = 8  # how many that are over


class JobQueue:
    """Safe to call from any thread.

    ``on_over`` is called with the work that has ended, but not if it ended only because the queue
    was closed.
    """

    def __init__(self, on_over: Callable[[Job], object] = lambda _work: None) -> None:
        self._on_over = on_over
        self._works: list[Job] = []
        self._thread: Thread | None = None
        self._closed = False
        self._lock = RLock()

    @property
    def works(self) -> tuple[Job, ...]:
        """In the order in which they were started; of those that are over, only the last few."""
        with self._lock:
            return tuple(self._works)

    @property
    def going(self) -> tuple[Job, ...]:
        """The work under way, then what waits."""
        return tuple(work for work in self.works if work.going)

    def find(self, work_id: str | None) -> Job | None:
        return next((work for work in self.works if work.id == work_id), None)

    def newest(self, name: str) -> Job | None:
        """The work of this sort that was started last."""
        return next((work for work in reversed(self.works) if work.name == name), None)

    def start(self, work: Job) -> None:
        with self._lock:
            over = [each for each in self._works if not each.going]
            forgotten = set(over[: max(0, len(over) - _REMEMBERED + 1)])
            self._works = [each for each in self._works if each not in forgotten] + [work]
            if self._thread is None:
                self._thread = Thread(target=self._carry_out, name="work", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop everything, as when the server ends."""
        self._closed = True
        for work in reversed(self.going):
            work.stop()

    def _carry_out(self) -> None:
        while (work := self._next()) is not None:
            work.carry_out()
            if not self._closed:
                self._on_over(work)

    def _next(self) -> Job | None:
        with self._lock:
            work = next(iter(self.going), None)
            if work is None:
                self._thread = None
            return work
