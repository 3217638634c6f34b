"""Time inside a round, without a host synchronisation for the clock's own sake.

On a CPU the marks are the wall clock. On a GPU the wall clock between two synchronisations
of a round is the authority, and CUDA events apportion it among the phases.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch


class PhaseClock(Protocol):
    """Cuts one stretch of work into phases."""

    def start(self) -> None: ...

    def mark(self) -> None:
        """End of a phase, as the device will reach it."""
        ...

    def seconds(self) -> list[float]:
        """Length of each phase up to the last mark; call it when the device is idle."""
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
    """CUDA events apportion the wall time between two synchronisations.

    ``share`` is the part of it that the events themselves measured at the last reading; far
    below 1, the phases are guesses.
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
