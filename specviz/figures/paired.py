"""The statistics of paired runs: medians with their spread, means and ratios with Student's t.

A figure of many runs is a mapping from (prompt, repeat) to its value. With one prompt the interval
is over its seeds. With several it is over the prompts, where a prompt counts by the mean of its
seeds: so it speaks of other prompts too, which is what a reader takes it for. A single run has the
interval of its own timing, which speaks of that text alone.

Where the runs were made on several kinds of machine, these are blocks: a value has its kind beside
its prompt and repeat, only values of one kind make a pair, and what a kind does to all its values
is left out of the interval, which costs a degree of freedom. The mean is over the kinds as often as
they came. Two devices of a kind differ as two prompts do: by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Literal

from specviz.theory.student import t_quantile

Over = Literal["seeds", "prompts", "timing"]
# Which prompt of the plan, which repeat and, where there are several, which kind of machine.
PromptRepeat = tuple[int, int] | tuple[int, int, object]
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
    """A ratio or a mean with its interval: of ``count`` seeds or prompts; or of the timing of
    single runs, with ``count`` timed pairs. None where there is neither."""

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


def ratio(first: Values, second: Values, confidence: float = CONFIDENCE) -> Ratio | None:
    """First over second, from the logarithms of both, where both have a run."""
    logs = {key: first[key] - second[key] for key in first if key in second}
    return ratio_of(logs, confidence)


def ratio_of(logs: Values, confidence: float = CONFIDENCE) -> Ratio | None:
    """The mean ratio of these log-ratios."""
    found = mean_of(logs, confidence)
    if found is None:
        return None
    return Ratio(
        value=math.exp(found.value),
        low=None if found.low is None else math.exp(found.low),
        high=None if found.high is None else math.exp(found.high),
        over=found.over,
        count=found.count,
    )


def mean_of(values: Values, confidence: float = CONFIDENCE) -> Ratio | None:
    """The mean over the seeds or the prompts, with Student's interval."""
    levelled, kinds = _levelled(values)
    over, units = _units(levelled)
    if not units:
        return None
    middle, count = fmean(units), len(units)
    freedom = count - kinds
    if freedom < 1:
        return Ratio(value=middle, low=None, high=None, over=over, count=count)
    error = stdev(units) * math.sqrt((count - 1) / freedom / count)
    half = t_quantile(0.5 + confidence / 2, freedom) * error
    return Ratio(value=middle, low=middle - half, high=middle + half, over=over, count=count)


def _levelled(values: Values) -> tuple[Values, int]:
    """Without what sets the kinds of machine apart, around the mean of all; how many there are."""
    by_kind: dict[object, list[float]] = {}
    for place, value in values.items():
        by_kind.setdefault(place[2:], []).append(value)
    if len(by_kind) < 2:
        return values, 1
    middle = fmean(values.values())
    above = {kind: fmean(each) - middle for kind, each in by_kind.items()}
    return {place: value - above[place[2:]] for place, value in values.items()}, len(by_kind)


def _units(values: Values) -> tuple[Over, list[float]]:
    by_item: dict[int, list[float]] = {}
    for place, value in values.items():
        by_item.setdefault(place[0], []).append(value)
    if len(by_item) == 1:
        return "seeds", next(iter(by_item.values()))
    return "prompts", [fmean(each) for each in by_item.values()]
