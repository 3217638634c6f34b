"""The break-even level of load, at which the speedup falls below 1, with its interval.

Between the measured levels, the log-speedup is interpolated over the logarithm of the level by the
cubic through the four nearest levels. At any level, the interpolated values of the units or starts
give a mean with Student's interval, widened by the error of the interpolation: the difference to
the parabolas through three of the four levels. The break-even's interval contains every level at
which this interval contains a speedup of 1 (Fieller 1954, for any interpolation that is linear in
the data). Fewer than four levels do not determine the curve between them; the interval then ends
at measured levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from specviz.theory.student import t_quantile
from specviz.values import Value

Where = Literal["between", "above", "below"]
_POINTS = 400  # of the grid between the lowest and the highest level
_NEAREST = 4  # levels that determine the interpolation
_CONFIDENCE = 0.95


class Curves(Value):
    """The log-speedups at ascending levels; one row for each unit or start."""

    levels: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]


class BreakEven(Value):
    """The break-even level.

    ``where`` is "above" if the speedup stays above 1 up to the highest level, and "below" if it is
    below 1 at the lowest one; ``value`` is then None. The interval from ``low`` to ``high`` has no
    end within the measured levels where these are None. Without ``count`` > 1 there is no interval.
    ``returns``: whether the speedup rises above 1 again at a higher level.
    """

    value: float | None
    low: float | None
    high: float | None
    where: Where
    lowest: float
    highest: float
    count: int
    returns: bool = False

    @property
    def has_interval(self) -> bool:
        return self.count > 1

    def contains(self, level: float) -> bool:
        above = self.low is None or self.low <= level
        return above and (self.high is None or level <= self.high)


class Band(Value):
    """The interpolated speedup with its interval; ``low`` and ``high`` are empty with one row."""

    levels: tuple[float, ...]
    speedup: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


def break_even(curves: Curves) -> BreakEven:
    grid = _grid(curves.levels)
    middle, half = _along(curves, grid)
    falls = np.flatnonzero((middle[:-1] >= 0) & (middle[1:] < 0))
    where: Where = "below" if middle[0] < 0 else "between" if len(falls) else "above"
    value = _crossing(grid, middle, int(falls[0])) if where == "between" else None
    first = 0 if where == "below" else int(falls[0]) + 1 if len(falls) else len(grid)
    low = high = None
    if half is not None and len(curves.levels) >= _NEAREST:
        low, high = _interval(grid, middle, half)
    elif half is not None:
        measured = np.isin(grid, np.log(np.array(curves.levels)))
        low, high = _measured_interval(curves.levels, middle[measured], half[measured])
    return BreakEven(
        value=value,
        low=low,
        high=high,
        where=where,
        lowest=curves.levels[0],
        highest=curves.levels[-1],
        count=len(curves.rows),
        returns=bool((middle[first:] > 0).any()),
    )


def band(curves: Curves) -> Band:
    """Return the speedup and its interval along the levels, for a chart."""
    grid = _grid(curves.levels)
    middle, half = _along(curves, grid)
    levels, speedup = tuple(np.exp(grid).tolist()), tuple(np.exp(middle).tolist())
    if half is None:
        return Band(levels=levels, speedup=speedup)
    return Band(
        levels=levels,
        speedup=speedup,
        low=tuple(np.exp(middle - half).tolist()),
        high=tuple(np.exp(middle + half).tolist()),
    )


def log_speedup_along(curves: Curves, levels: Sequence[float]) -> list[float]:
    """Return the mean log-speedup at these levels, which must lie between the measured ones."""
    return _along(curves, np.log(np.array(levels)))[0].tolist()


def _grid(levels: Sequence[float]) -> NDArray[np.float64]:
    inside = np.linspace(math.log(levels[0]), math.log(levels[-1]), _POINTS)
    return np.unique(np.concatenate([inside, np.log(np.array(levels))]))


def _along(
    curves: Curves, grid: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return the mean and half the interval's width on the grid; None for a single row."""
    weights = _weights(curves.levels, tuple(grid.tolist()))  # [num_fits, num_points, num_levels]
    values = np.array(curves.rows) @ weights[0].T  # [num_rows, num_points]
    count = len(values)
    middle = values.mean(axis=0)
    if count < 2:
        return middle, None
    error = values.std(axis=0, ddof=1) / math.sqrt(count)
    others = weights[1:] @ np.array(curves.rows).mean(axis=0)
    off = np.abs(others - middle).max(axis=0) if len(others) else np.zeros_like(middle)
    return middle, t_quantile(0.5 + _CONFIDENCE / 2, count - 1) * error + off


@lru_cache(maxsize=32)
def _weights(levels: tuple[float, ...], grid: tuple[float, ...]) -> NDArray[np.float64]:
    """Return the weights of Lagrange's interpolations.

    The first goes through the nearest levels, the others through all of these but one end.
    """
    places = np.log(np.array(levels))
    width = min(_NEAREST, len(places))
    kinds = [(0, width), (0, width - 1), (1, width)] if width == _NEAREST else [(0, width)]
    found = np.zeros((len(kinds), len(grid), len(places)))
    for row, at in enumerate(grid):
        right = int(np.searchsorted(places, at, side="right"))
        first = min(max(right - width // 2, 0), len(places) - width)
        for kind, (begin, end) in enumerate(kinds):
            _fill(found[kind, row], places, range(first + begin, first + end), at)
    return found


def _fill(row: NDArray[np.float64], places: NDArray[np.float64], near: range, at: float) -> None:
    for each in near:
        others = [places[other] for other in near if other != each]
        row[each] = math.prod((at - other) / (places[each] - other) for other in others)


def _crossing(grid: NDArray[np.float64], values: NDArray[np.float64], at: int) -> float:
    """Return the level at which the values cross 0 between two points of the grid."""
    left, right = values[at], values[at + 1]
    return math.exp(grid[at] + (grid[at + 1] - grid[at]) * left / (left - right))


def _interval(
    grid: NDArray[np.float64], middle: NDArray[np.float64], half: NDArray[np.float64]
) -> tuple[float | None, float | None]:
    """Return the ends of the levels at which a speedup of 1 is not excluded."""
    above, below = middle - half, middle + half
    low = high = None
    if above[0] > 0:  # faster at the lowest level
        reached = np.flatnonzero(above <= 0)
        low = _crossing(grid, above, int(reached[0]) - 1) if len(reached) else math.exp(grid[-1])
    if below[-1] < 0:  # slower at the highest level
        reached = np.flatnonzero(below >= 0)
        high = _crossing(grid, below, int(reached[-1])) if len(reached) else math.exp(grid[0])
    return low, high


def _measured_interval(
    levels: Sequence[float], middle: NDArray[np.float64], half: NDArray[np.float64]
) -> tuple[float | None, float | None]:
    """Return the same ends, widened to measured levels."""
    above, below = middle - half > 0, middle + half < 0
    low = high = None
    if above[0]:
        low = levels[int(np.argmin(above)) - 1]  # -1, the highest, if the speedup is above 1 at all
    if below[-1]:
        high = levels[-int(np.argmin(below[::-1])) % len(levels)]
    return low, high
