"""Read an engine's counters once a second while a page shows them.

All tabs share one poller per address. The result is a ``CounterHistory``. If a counter is smaller
than when it was last read, the engine was restarted, and no rate is computed across the restart.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread

from specviz.errors import ServerError, SpecvizError
from specviz.record.server_run import Counters
from specviz.servers.counters import Rates, rates, went_back
from specviz.values import Value

POLL_SECONDS = 1.0  # between two readings
AVERAGE_SECONDS = 10.0  # the rates of a point are averages over this time
RECENT_SECONDS = 60.0  # the current rates are averages over this time
MAX_POINTS = 300
_UNSEEN = 5.0  # polling ends this many seconds after the last ``look``
_AFTER_FAILURE = 3.0


class Point(Value):
    """The rates at one time, ``at`` seconds after the counters were first read.

    ``restarted``: whether the engine was restarted since the previous point.
    """

    at: float
    rates: Rates | None
    restarted: bool = False


class CounterHistory(Value):
    """The rates over time (``points``), the last counters, and the rates over the last minute.

    ``first``: how many older points were dropped.
    """

    first: int = 0
    points: tuple[Point, ...] = ()
    last: Counters | None = None
    recent: Rates | None = None
    restarts: int = 0  # restarts of the engine since polling began
    error: SpecvizError | None = None

    @property
    def total(self) -> int:
        return self.first + len(self.points)


class CounterPoller:
    """Reads counters in a thread, which ends some seconds after the last call of ``look``.

    Safe to use from any thread.
    """

    def __init__(
        self, read: Callable[[], Counters], *, every: float = POLL_SECONDS, unseen: float = _UNSEEN
    ) -> None:
        self._read, self._every, self._unseen = read, every, unseen
        self._lock, self._first_read = Lock(), Event()
        self._samples: deque[Counters] = deque(maxlen=MAX_POINTS)
        self._points: deque[Point] = deque(maxlen=MAX_POINTS)
        self._began: float | None = None
        self._dropped = self._restarts = 0
        self._error: SpecvizError | None = None
        self._looked_at = 0.0
        self._thread: Thread | None = None

    def look(self, wait: float = 0.0) -> CounterHistory:
        """Return the history so far; wait up to ``wait`` seconds for the first counters."""
        with self._lock:
            self._looked_at = time.monotonic()
            if self._thread is None:
                self._thread = Thread(target=self._poll, name="counters", daemon=True)
                self._thread.start()
        self._first_read.wait(wait)
        with self._lock:
            return CounterHistory(
                first=self._dropped,
                points=tuple(self._points),
                last=self._samples[-1] if self._samples else None,
                recent=_over(self._samples, RECENT_SECONDS),
                restarts=self._restarts,
                error=self._error,
            )

    def _poll(self) -> None:
        while self._is_wanted():
            began = time.monotonic()
            try:
                self._take(self._read())
                pause = self._every
            except Exception as error:  # the page must show any error
                with self._lock:
                    self._error = _explained(error)
                pause = max(self._every, _AFTER_FAILURE)
            self._first_read.set()
            time.sleep(max(0.0, pause - (time.monotonic() - began)))

    def _is_wanted(self) -> bool:
        with self._lock:
            wanted = time.monotonic() - self._looked_at < self._unseen
            if not wanted:
                self._thread = None
            return wanted

    def _take(self, found: Counters) -> None:
        with self._lock:
            self._error = None
            restarted = bool(self._samples) and went_back(self._samples[-1], found)
            if restarted:
                self._samples.clear()
                self._restarts += 1
            if self._began is None:
                self._began = found.at
            self._samples.append(found)
            self._dropped += len(self._points) == self._points.maxlen
            mean = _over(self._samples, AVERAGE_SECONDS)
            point = Point(at=found.at - self._began, rates=mean, restarted=restarted)
            self._points.append(point)


def _explained(error: Exception) -> SpecvizError:
    if isinstance(error, SpecvizError):
        return error
    return ServerError(
        f"The engine's counters cannot be read ({type(error).__name__}).",
        remedy="Check its /metrics page.",
    )


def points_of(found: Sequence[Counters]) -> tuple[Point, ...]:
    """Return a point for each saved state of the counters: the rates since the previous state.

    The first point has no rates.
    """
    made = [Point(at=0.0, rates=None)] if found else []
    for before, after in itertools.pairwise(found):
        known = rates(before, after)
        made.append(Point(at=after.at - found[0].at, rates=known, restarted=known is None))
    return tuple(made)


def history_of(found: Sequence[Counters]) -> CounterHistory:
    """Return saved counters as a history; its ``recent`` rates cover the whole time."""
    last = found[-1] if found else None
    recent = rates(found[0], found[-1]) if len(found) > 1 else None
    return CounterHistory(points=points_of(found), last=last, recent=recent)


def _over(samples: Sequence[Counters], seconds: float) -> Rates | None:
    """Return the rates over the last ``seconds``, or over all samples if they cover less time."""
    if len(samples) < 2:
        return None
    last = samples[-1]
    before = next(each for each in samples if last.at - each.at <= seconds)
    return rates(before, last) if before is not last else None
