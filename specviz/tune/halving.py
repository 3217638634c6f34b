"""Sequential halving (Karnin, Koren and Somekh 2013): who is measured how often in a race.

A race has stages of equal cost. In each one all that are left are measured equally often, then the
slower half drops out; what was measured of a candidate earlier counts on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from specviz.record.prompts import SuiteItem

_TRIMMED = 8  # one value in so many is left out on either side


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """How many take part, and how often each of them is measured."""

    field: int
    measurements: int


def stages_of(field: int, budget: int) -> tuple[Stage, ...]:
    """For a field of two or more; ``budget``: measurements of the whole race, which is never
    exceeded by more than what one measurement of each in each stage takes."""
    assert field >= 2
    count = math.ceil(math.log2(field))
    made = list[Stage]()
    for _ in range(count):
        made.append(Stage(field=field, measurements=max(1, budget // count // field)))
        field = math.ceil(field / 2)
    return tuple(made)


def fastest(logs: Sequence[Sequence[float]], count: int) -> tuple[int, ...]:
    """The places of so many of the highest means, in their order; ``logs`` of speeds. Whoever has
    none, as where no whole round could be timed, comes last."""
    means = [_mean(each) for each in logs]
    ranked = sorted(range(len(logs)), key=lambda place: -means[place])
    return tuple(sorted(ranked[:count]))


def mixed(items: Sequence[SuiteItem]) -> tuple[SuiteItem, ...]:
    """One of each kind in turn, so that the first few are of all kinds."""
    by_kind: dict[str | None, list[SuiteItem]] = {}
    for each in items:
        by_kind.setdefault(each.kind, []).append(each)
    queues, mixed = list(by_kind.values()), list[SuiteItem]()
    while any(queues):
        mixed += [queue.pop(0) for queue in queues if queue]
    return tuple(mixed)


def _mean(values: Sequence[float]) -> float:
    """Without the extremes, so that one stall of the machine decides nothing."""
    cut, ranked = len(values) // _TRIMMED, sorted(values)
    return fmean(ranked[cut : len(ranked) - cut]) if ranked else -math.inf
