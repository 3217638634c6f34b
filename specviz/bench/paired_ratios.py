"""Ratios of the times of two lanes: the median over repeats, and its 95 % interval.

A lane is an engine with a method. In a repeat, both lanes write the same texts in turn, giving one
ratio. The ends of the interval are two of the sorted ratios, chosen by a sign test, so the interval
assumes no distribution of the noise. With 20 repeats, they are the sixth smallest and the sixth
largest ratio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from specviz.values import Value

_MISSED = 0.025  # probability beyond each end of the interval


class PairedRatio(Value):
    """A median ratio with its interval; with fewer than six repeats, there is no interval."""

    value: float
    low: float | None
    high: float | None


class LaneRatio(Value):
    """A named ratio: the time of lane ``over`` divided by the time of lane ``under``."""

    name: str
    over: str
    under: str


def paired_ratio(over: Sequence[float], under: Sequence[float]) -> PairedRatio:
    ratios = sorted(first / second for first, second in zip(over, under, strict=True))
    outside = _rank_of_lower_end(len(ratios))
    return PairedRatio(
        value=median(ratios),
        low=ratios[outside - 1] if outside else None,
        high=ratios[-outside] if outside else None,
    )


def paired_ratios(
    comparisons: Sequence[LaneRatio], seconds: Mapping[str, Sequence[float]]
) -> dict[str, PairedRatio | None]:
    """Return the ratios by name; None if one of the two lanes did not run."""
    return {
        each.name: paired_ratio(seconds[each.over], seconds[each.under])
        if each.over in seconds and each.under in seconds
        else None
        for each in comparisons
    }


def _rank_of_lower_end(count: int) -> int:
    """Return the rank of the value at which the interval begins, among ``count`` sorted values.

    Ranks begin at 1. Return 0 if there are too few values for an interval.
    """
    below, rank = 0.0, 0
    while below + math.comb(count, rank) / 2**count <= _MISSED:
        below += math.comb(count, rank) / 2**count
        rank += 1
    return rank
