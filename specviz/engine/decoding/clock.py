"""Clocks that time the phases of a round without extra host synchronisations.

On a CPU, marks read the wall clock. On a GPU, the total is the wall time between the round's two
synchronisations, and CUDA events divide this total among the phases.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch


class PhaseClock(Protocol):
    """Measures consecutive phases of a computation."""

    def start(self) -> None: ...

    def mark(self) -> None:
        """Mark the end of a phase, after all work that is queued on the device so far."""
        ...

    def seconds(self) -> list[float]:
        """Return the seconds of each phase up to the last mark; call it when the device is idle."""
        ...


class WallClock:
    def __init__(self) -> None:
        self._marks: list[float] = []

    def start(self) -> None:
        self._marks = [time.perf_counter()]

    def mark(self) -> None:
        self._marks.append(time.perf_counter())

    def seconds(self) -> list[float]:
        return [
            later - earlier for earlier, later in zip(self._marks, self._marks[1:], strict=False)
        ]


class EventClock:
    """Splits the time from one synchronisation to the next into phases, by CUDA event times.

    ``seconds`` sets ``share``, the fraction of the wall time that the events covered. If ``share``
    is far below 1, the phase times are unreliable.
    """

    def __init__(self, device: torch.device) -> None:
        self.share: float | None = None
        self._device = device
        self._events: list[Any] = []
        self._began = 0.0

    def start(self) -> None:
        torch.cuda.synchronize(self._device)
        self._began = time.perf_counter()
        self._events = [self._event()]

    def mark(self) -> None:
        self._events.append(self._event())

    def seconds(self) -> list[float]:
        torch.cuda.synchronize(self._device)
        wall = time.perf_counter() - self._began
        pairs = zip(self._events, self._events[1:], strict=False)
        parts = [earlier.elapsed_time(later) / 1e3 for earlier, later in pairs]
        total = sum(parts)
        self.share = total / wall
        return [part * wall / total for part in parts] if total else parts

    def _event(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event


def make_clock(device: torch.device) -> PhaseClock:
    return EventClock(device) if device.type == "cuda" else WallClock()
