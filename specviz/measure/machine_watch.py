"""Conditions of the machine during timing: other processes, clock frequency, battery."""

from __future__ import annotations

import time

import psutil

from specviz.record.trace import Conditions

_SHORTEST = 1.0  # seconds; the processors' times are counted in hundredths of a second


class MachineWatch:
    """Records the machine's conditions from the moment it is created."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._busy, self._all = _processor_seconds()
        self._own = self._own_seconds()
        self._clocks: list[float] = []

    def conditions(self) -> Conditions:
        """Return the conditions so far; each call samples the clock frequency."""
        busy, everything = _processor_seconds()
        passed = everything - self._all
        others = busy - self._busy - (self._own_seconds() - self._own)
        if (clock := _clock_share()) is not None:
            self._clocks.append(clock)
        return Conditions(
            others=min(1.0, max(0.0, others / passed)) if passed > 0 else None,
            clock=sum(self._clocks) / len(self._clocks) if self._clocks else None,
            on_battery=_on_battery(),
        )

    def _own_seconds(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system


class RecentLoad:
    """Measures which share of the processors other processes use."""

    def __init__(self) -> None:
        self._begin()
        self._found: float | None = None

    def _begin(self) -> None:
        self._watch, self._since = MachineWatch(), time.monotonic()

    def others(self) -> float | None:
        """Return the share of the processors that other processes used since the last measurement.

        If the last measurement is less than a second old, return its result again. In the first
        second, return None.
        """
        if time.monotonic() - self._since >= _SHORTEST:
            self._found = self._watch.conditions().others
            self._begin()
        return self._found


def _processor_seconds() -> tuple[float, float]:
    """Return the busy and the total seconds of all processors since boot."""
    times = psutil.cpu_times()
    # Guest time is already counted in ``user`` and ``nice``.
    everything = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return everything - times.idle - getattr(times, "iowait", 0.0), everything


def _clock_share() -> float | None:
    """Return the clock frequency as a share of the highest; None unless both are reported."""
    try:
        clock = psutil.cpu_freq()
    except (AttributeError, NotImplementedError, OSError):
        return None
    if clock is None or not clock.max or not clock.current:
        return None
    return min(1.0, clock.current / clock.max)


def _on_battery() -> bool | None:
    try:
        battery = psutil.sensors_battery()
    except (AttributeError, NotImplementedError, OSError):
        return None
    return None if battery is None else battery.power_plugged is False
