"""Sequential halving (Karnin, Koren and Somekh 2013): how often a race measures each candidate.

A race has stages of equal cost. Each stage measures all remaining candidates equally often, then
drops the slower half. Earlier measurements of a candidate still count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from specviz.record.prompts import SuiteItem
from specviz.values import Value

_TRIMMED = 8  # of every 8 values, one is dropped at each end


class Stage(Value):
    """The number of candidates in a stage, and how often each of them is measured."""

    field: int
    measurements: int


def stages_of(field: int, budget: int) -> tuple[Stage, ...]:
    """Return the stages of a race.

    Args:
        field: Number of candidates, two or more.
        budget: Number of measurements in the whole race. The stages share it equally. A stage
            may exceed its share by one measurement of each candidate.
    """
    assert field >= 2
    count = math.ceil(math.log2(field))
    made = list[Stage]()
    for _ in range(count):
        made.append(Stage(field=field, measurements=max(1, budget // count // field)))
        field = math.ceil(field / 2)
    return tuple(made)


def fastest(logs: Sequence[Sequence[float]], count: int) -> tuple[int, ...]:
    """Return the indices of the ``count`` fastest candidates, in ascending order.

    Args:
        logs: Logarithms of each candidate's speeds. The trimmed means of these logarithms are
            compared. Candidates without a speed rank last.
    """
    means = [_mean(each) for each in logs]
    ranked = sorted(range(len(logs)), key=lambda place: -means[place])
    return tuple(sorted(ranked[:count]))


def mixed(items: Sequence[SuiteItem]) -> tuple[SuiteItem, ...]:
    """Reorder the prompts: take one of each kind in turn, so that the first few cover all kinds."""
    by_kind: dict[str | None, list[SuiteItem]] = {}
    for each in items:
        by_kind.setdefault(each.kind, []).append(each)
    queues, mixed = list(by_kind.values()), list[SuiteItem]()
    while any(queues):
        mixed += [queue.pop(0) for queue in queues if queue]
    return tuple(mixed)


def _mean(values: Sequence[float]) -> float:
    """Return the trimmed mean, so that a single stall of the machine has little effect."""
    cut, ranked = len(values) // _TRIMMED, sorted(values)
    return fmean(ranked[cut : len(ranked) - cut]) if ranked else -math.inf
