"""The break-even load, at which the speedup of speculation falls below 1, with its interval.

A level is a load: a number of users or of requests per second. An A B B A unit measures
several engines one after another and then again in reverse order. Each unit, or each fresh start of
the engine, gives the log-speedup at every measured level. Between these levels, the log-speedup is
interpolated over the logarithm of the level, by the cubic through the four nearest levels. At any
level, the values of all units or starts give a mean with Student's interval. The interval is
widened by the error of the interpolation: the difference between the cubic and the parabolas
through three of the four levels.

The interval of the break-even contains every level at which the interval of the speedup contains 1
(Fieller 1954, for any interpolation that is linear in the data). Fewer than four levels do not
determine the curve between them. In this case, the interval of the break-even ends at measured
levels.
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
    """The log-speedups at ascending loads (``levels``), one row for each unit or start."""

    levels: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]


class BreakEven(Value):
    """The load at which the speedup falls below 1.

    ``where`` is "above" if the speedup stays above 1 up to the highest measured load, and "below"
    if the speedup is below 1 at the lowest. In both cases, ``value`` is None. ``low`` and ``high``
    are the ends of the interval. An end is None if the interval extends beyond the measured loads.
    There is an interval only if ``count``, the number of A B B A units or of engine starts, is
    above 1. ``returns``: whether the speedup rises above 1 again at a higher load.
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
    """The interpolated speedup at each load in ``levels``, with its interval.

    ``low`` and ``high`` are the ends of the intervals. Both are empty without intervals.
    """

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
    """Return the interpolated speedup with its interval on a fine grid of loads."""
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
    """Return the mean log-speedup at these loads, which must be within the measured range."""
    return _along(curves, np.log(np.array(levels)))[0].tolist()


def _grid(levels: Sequence[float]) -> NDArray[np.float64]:
    inside = np.linspace(math.log(levels[0]), math.log(levels[-1]), _POINTS)
    return np.unique(np.concatenate([inside, np.log(np.array(levels))]))


def _along(
    curves: Curves, grid: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return the mean log-speedup and its interval's half-width at each log-load in ``grid``.

    The half-width is None if the curves have only one row.
    """
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
    """Return the weights of Lagrange interpolations, `[num_fits, num_points, num_levels]`.

    The interpolated value at a point of ``grid`` is the weighted sum of the values at the measured
    loads. The first interpolation uses the four nearest loads. The second leaves out the highest
    of these four, the third the lowest. With fewer than four measured loads, there is only the
    first interpolation.
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
    """Return the load at which ``values`` cross 0 between the points ``at`` and ``at + 1``."""
    left, right = values[at], values[at + 1]
    return math.exp(grid[at] + (grid[at + 1] - grid[at]) * left / (left - right))


def _interval(
    grid: NDArray[np.float64], middle: NDArray[np.float64], half: NDArray[np.float64]
) -> tuple[float | None, float | None]:
    """Return the interval of the break-even, the load at which the speedup is 1.

    The low end is None unless the speedup's interval at the lowest measured load is above 1. The
    high end is None unless the speedup's interval at the highest measured load is below 1.

    Args:
        grid: The logarithms of loads.
        middle: The mean log-speedup at each load.
        half: The half-width of the interval of the mean, at each load.
    """
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
    """Return the ends as in `_interval`, moved outwards to the nearest measured loads."""
    above, below = middle - half > 0, middle + half < 0
    low = high = None
    if above[0]:
        low = levels[int(np.argmin(above)) - 1]  # the highest level if all are above
    if below[-1]:
        high = levels[-int(np.argmin(below[::-1])) % len(levels)]
    return low, high
