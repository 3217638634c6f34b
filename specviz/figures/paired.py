"""Statistics of paired runs: medians with spread, means and ratios with Student's t.

A measured value, such as τ, over many runs is a mapping from (prompt, repeat) to value. With one
prompt, the interval comes from the differences between its seeds. With several prompts, the values
of each prompt are averaged, and the interval comes from the differences between prompts, so that it
also applies to other prompts. For a single run, the interval covers only the noise of timing that
run on its own text.

If the runs were made on several kinds of machine, such as two GPU models, the key also contains the
kind, so that values of different kinds are not paired. The mean effect of each kind is removed
before the interval is computed (a block design). Each kind after the first costs one degree of
freedom. The mean weighs kinds by their number of values. Differences between devices of one kind
count as noise, like differences between prompts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import fmean, median, stdev
from typing import Literal

from specviz.theory.student import t_quantile
from specviz.values import Value

# "units" are A B B A units of a load sweep, "starts" fresh starts of an engine.
Over = Literal["seeds", "prompts", "timing", "units", "starts"]
# Index of the prompt, repeat and, if there are several, kind of machine.
PromptRepeat = tuple[int, int] | tuple[int, int, object]
Values = Mapping[PromptRepeat, float]

CONFIDENCE = 0.95


class Spread(Value):
    """The median, lowest and highest value of the runs; not a confidence interval."""

    median: float
    low: float
    high: float


class Ratio(Value):
    """A ratio or a mean with its interval.

    The interval comes from ``count`` independent values. There is one value per seed or prompt. In
    a load sweep, there is one per A B B A unit or engine start; in a single run, one per timed
    slice. ``low`` and ``high`` are None if there are too few values for an interval.
    """

    value: float
    low: float | None
    high: float | None
    over: Over
    count: int

    @property
    def units(self) -> str:
        """The name of what ``count`` counts, such as "prompts".

        Seeds are called repeats, because greedy runs do not use seeds.
        """
        return "repeats" if self.over == "seeds" else self.over

    @property
    def differs(self) -> bool:
        """Return whether the interval of a ratio excludes 1."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def spread(values: Iterable[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(median=median(known), low=min(known), high=max(known))


def ratio(first: Values, second: Values, confidence: float = CONFIDENCE) -> Ratio | None:
    """Return the mean ratio of ``first`` to ``second`` over the keys that both contain.

    ``first`` and ``second`` contain the logarithms of the values.
    """
    logs = {key: first[key] - second[key] for key in first if key in second}
    return ratio_of(logs, confidence)


def ratio_of(logs: Values, confidence: float = CONFIDENCE) -> Ratio | None:
    """Return the mean ratio with its interval; ``logs`` are the logarithms of the ratios."""
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
    """Return the mean of the values with Student's interval over seeds or prompts.

    The result is None if there are no values.
    """
    adjusted, kinds = _without_kind_effects(values)
    over, units = _units(adjusted)
    if not units:
        return None
    middle, count = fmean(units), len(units)
    freedom = count - kinds
    if freedom < 1:
        return Ratio(value=middle, low=None, high=None, over=over, count=count)
    error = stdev(units) * math.sqrt((count - 1) / freedom / count)
    half = t_quantile(0.5 + confidence / 2, freedom) * error
    return Ratio(value=middle, low=middle - half, high=middle + half, over=over, count=count)


def _without_kind_effects(values: Values) -> tuple[Values, int]:
    """Subtract the mean effect of each kind of machine.

    Return the adjusted values and the number of kinds.
    """
    by_kind: dict[object, list[float]] = {}
    for place, value in values.items():
        by_kind.setdefault(place[2:], []).append(value)
    if len(by_kind) < 2:
        return values, 1
    middle = fmean(values.values())
    effects = {kind: fmean(each) - middle for kind, each in by_kind.items()}
    return {place: value - effects[place[2:]] for place, value in values.items()}, len(by_kind)


def _units(values: Values) -> tuple[Over, list[float]]:
    by_item: dict[int, list[float]] = {}
    for place, value in values.items():
        by_item.setdefault(place[0], []).append(value)
    if len(by_item) == 1:
        return "seeds", next(iter(by_item.values()))
    return "prompts", [fmean(each) for each in by_item.values()]
