"""Arithmetic with values that may be unknown. If any value is None, the result is None."""

from __future__ import annotations

import math


def known_ratio(part: float | None, whole: float | None) -> float | None:
    """Return part / whole; None if a value is unknown or the whole is 0."""
    return part / whole if part is not None and whole else None


def known_sum(*values: float | None) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) if len(known) == len(values) else None


def milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def log_interval(value: float | None, error: float | None) -> tuple[float, float] | None:
    """Return the interval from value · exp(-error) to value · exp(error).

    ``error`` is the half-width of the interval of log(value). The result is None if the value or
    the error is unknown.
    """
    if value is None or error is None:
        return None
    return value * math.exp(-error), value * math.exp(error)
