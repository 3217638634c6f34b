"""The statistics of paired runs: medians with their spread, means and ratios with Student's t.

A figure of many runs is a mapping from (prompt, repeat) to its value. With one prompt the interval
is over its seeds. With several it is over the prompts, where a prompt counts by the mean of its
seeds: so it speaks of other prompts too, which is what a reader takes it for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Literal

Over = Literal["seeds", "prompts"]
PromptRepeat = tuple[int, int]  # which prompt of the plan, which repeat
Values = Mapping[PromptRepeat, float]

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The median, lowest and highest of the runs. Not an interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A ratio or a mean with its 95 % interval, which a single prompt and seed does not have."""

    value: float
    low: float | None
    high: float | None
    over: Over
    count: int

    @property
    def differs(self) -> bool:
        """Of a ratio: whether its interval leaves out 1, so that there is a difference."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def spread(values: Iterable[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(median=median(known), low=min(known), high=max(known))


def ratio(first: Values, second: Values) -> Ratio | None:
    """First over second, from the logarithms of both, where both have a run."""
    return ratio_of({key: first[key] - second[key] for key in first if key in second})


def ratio_of(logs: Values) -> Ratio | None:
    """The mean ratio of these log-ratios."""
    found = mean_of(logs)
    if found is None:
        return None
    return Ratio(
        value=math.exp(found.value),
        low=None if found.low is None else math.exp(found.low),
        high=None if found.high is None else math.exp(found.high),
        over=found.over,
        count=found.count,
    )


def mean_of(values: Values) -> Ratio | None:
    """The mean over the seeds or the prompts, with Student's interval."""
    over, units = _units(values)
    if not units:
        return None
    middle, count = fmean(units), len(units)
    if count < 2:
        return Ratio(value=middle, low=None, high=None, over=over, count=count)
    half = t_quantile(0.5 + CONFIDENCE / 2, count - 1) * stdev(units) / math.sqrt(count)
    return Ratio(value=middle, low=middle - half, high=middle + half, over=over, count=count)


def _units(values: Values) -> tuple[Over, list[float]]:
    by_item: dict[int, list[float]] = {}
    for (item, _), value in values.items():
        by_item.setdefault(item, []).append(value)
    if len(by_item) == 1:
        return "seeds", next(iter(by_item.values()))
    return "prompts", [fmean(each) for each in by_item.values()]


# Student's t


@functools.cache
def t_quantile(probability: float, freedom: int) -> float:
    """Where Student's distribution of ``freedom`` degrees reaches the probability, at least 0.5."""
    assert 0.5 <= probability < 1
    assert freedom >= 1
    low, high = 0.0, 1.0
    while _t_cdf(high, freedom) < probability:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _t_cdf(middle, freedom) < probability else (low, middle)
    return high


def _t_cdf(t: float, freedom: int) -> float:
    """For t of at least 0."""
    return 1 - 0.5 * _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized one, by its continued fraction on the side where it converges fast."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = a * math.log(x) + b * math.log1p(-x)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(front + scale) / (a * _beta_fraction(a, b, x))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Summed from the last term inwards; 300 terms are exact for all a up to 10^4."""
    fraction = 1.0
    for m in range(300, 0, -1):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        fraction = 1 + even / fraction
        n = m - 1
        odd = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1))
        fraction = 1 + odd / fraction
    return fraction
