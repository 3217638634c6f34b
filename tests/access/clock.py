"""A clock that the test sets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    time: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.time
