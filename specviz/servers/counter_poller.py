"""Reads an engine's counters once a second for as long as a page shows them.

There is one poller for each address, shared by all tabs. Its result is a value: ``Seen``. No rate
is computed across a counter that went back.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event, Lock, Thread

from specviz.errors import ServerError, SpecvizError
from specviz.record.server_run import Counters
from specviz.servers.counters import Rates, rates, went_back

EVERY = 1.0  # seconds between two looks
MEAN_OF = 10.0  # seconds that a point is the mean of
RECENT = 60.0  # seconds of the figures that stand for now
KEPT = 300  # points
_UNSEEN = 5.0  # seconds after which nobody looks any more
_AFTER_FAILURE = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """``at``: seconds since the first. ``anew``: the engine was started anew before it."""

    at: float
    rates: Rates | None
    anew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Points from number ``first`` on; what was counted at last, and in the last minute."""

    first: int = 0
    points: tuple[Point, ...] = ()
    last: Counters | None = None
    recent: Rates | None = None
    anew: int = 0  # how often the engine was started anew meanwhile
    error: SpecvizError | None = None

    @property
    def total(self) -> int:
        return self.first + len(self.points)


class CounterPoller:
    """Safe to use from any thread. Its own thread ends when nobody has looked for a while."""

    def __init__(
        self, read: Callable[[], Counters], *, every: float = EVERY, unseen: float = _UNSEEN
    ) -> None:
        self._read, self._every, self._unseen = read, every, unseen
        self._lock, self._first_read = Lock(), Event()
        self._samples: deque[Counters] = deque(maxlen=KEPT)
        self._points: deque[Point] = deque(maxlen=KEPT)
        self._began: float | None = None
        self._dropped = self._anew = 0
        self._error: SpecvizError | None = None
        self._looked_at = 0.0
        self._thread: Thread | None = None

    def look(self, wait: float = 0.0) -> Seen:
        """What is known now; ``wait`` so long for the first reading."""
        with self._lock:
            self._looked_at = time.monotonic()
            if self._thread is None:
                self._thread = Thread(target=self._poll, name="counters", daemon=True)
                self._thread.start()
        self._first_read.wait(wait)
        with self._lock:
            return Seen(
                first=self._dropped,
                points=tuple(self._points),
                last=self._samples[-1] if self._samples else None,
                recent=_over(self._samples, RECENT),
                anew=self._anew,
                error=self._error,
            )

    def _poll(self) -> None:
        while self._is_wanted():
            began = time.monotonic()
            try:
                self._take(self._read())
                pause = self._every
            except Exception as error:  # the page must learn of it
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
            anew = bool(self._samples) and went_back(self._samples[-1], found)
            if anew:
                self._samples.clear()
                self._anew += 1
            if self._began is None:
                self._began = found.at
            self._samples.append(found)
            self._dropped += len(self._points) == self._points.maxlen
            told = _over(self._samples, MEAN_OF)
            self._points.append(Point(at=found.at - self._began, rates=told, anew=anew))


def _explained(error: Exception) -> SpecvizError:
    if isinstance(error, SpecvizError):
        return error
    return ServerError(
        f"The engine's counters cannot be read ({type(error).__name__}).",
        remedy="Look at its page /metrics.",
    )


def points_of(found: Sequence[Counters]) -> tuple[Point, ...]:
    """Of counters that were saved, such as those of a log: each since the one before."""
    made = [Point(at=0.0, rates=None)] if found else []
    for before, after in itertools.pairwise(found):
        told = rates(before, after)
        made.append(Point(at=after.at - found[0].at, rates=told, anew=told is None))
    return tuple(made)


def seen_of(found: Sequence[Counters]) -> Seen:
    """Counters that were saved, as if they had been looked at."""
    last = found[-1] if found else None
    recent = rates(found[0], found[-1]) if len(found) > 1 else None
    return Seen(points=points_of(found), last=last, recent=recent)


def _over(samples: Sequence[Counters], seconds: float) -> Rates | None:
    """From the sample that lies that long before the last one, or from the first."""
    if len(samples) < 2:
        return None
    last = samples[-1]
    before = next(each for each in samples if last.at - each.at <= seconds)
    return rates(before, last) if before is not last else None
