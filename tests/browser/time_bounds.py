"""Bounds on times, of which other programs on this machine take their share.

A bound is stated for free cores. While other programs use a part of the cores, our programs get the
rest, so a test allows twice the bound divided by that rest.
"""

from __future__ import annotations

import time

import psutil

_MOST = 0.75  # share of the cores that others may take; beyond it no time can be judged


class Machine:
    """Measures, from its creation on, the share of the cores that other programs use."""

    def __init__(self) -> None:
        self._began, self._busy, self._ours = time.monotonic(), _busy_seconds(), _our_seconds()

    def foreign_share(self) -> float:
        passed = (time.monotonic() - self._began) * (psutil.cpu_count() or 1)
        foreign = (_busy_seconds() - self._busy) - (_our_seconds() - self._ours)
        return min(_MOST, max(0.0, foreign / passed)) if passed else 0.0

    def allowed(self, bound: float) -> float:
        """Return the longest time that passes a test with this bound."""
        share = self.foreign_share()
        if share > 0.05:
            print(f"other programs used {share:.0%} of the cores")
        return 2 * bound / (1 - share)


def _busy_seconds() -> float:
    used = psutil.cpu_times()
    return used.user + used.nice + used.system


def _our_seconds() -> float:
    """Return the CPU seconds of this process and its children, also of those that ended."""
    total = 0.0
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        try:
            used = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += used.user + used.system + used.children_user + used.children_system
    return total
