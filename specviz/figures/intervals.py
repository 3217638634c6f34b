"""Three intervals for alpha; the label says what alone was allowed to vary.

Resampling is seeded: the same trace gives the same interval. None where there is too little
to resample, or nothing that could vary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specviz.record.trace import Round, Trace

RESAMPLES = 2000
MIN_ROUNDS = 10  # with fewer to resample, an interval would claim more than it knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Where alpha lies with 95 % confidence."""

    low: float
    high: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """``coins`` lies around the expected alpha, ``prompt`` around the observed one."""

    coins: Interval | None
    prompt: Interval | None


def coins_interval(trace: Trace) -> Interval | None:
    """Where the observed alpha falls by luck alone, the odds at the tested positions given.

    At temperature 0 no verdict is a matter of luck: None.
    """
    tested = [entry for each in trace.rounds for entry in each.candidates if entry.tested]
    if trace.config.greedy or not tested:
        return None
    chances = np.array([entry.expected_acceptance for entry in tested]).clip(0, 1)
    middle = float(chances.mean())
    half = 1.96 * math.sqrt(float((chances * (1 - chances)).sum())) / len(tested)
    return Interval(
        low=max(0.0, middle - half), high=min(1.0, middle + half), label="by the luck of the draws"
    )


def prompt_interval(trace: Trace) -> Interval | None:
    """Resamples blocks of neighbouring rounds, since acceptance clusters; the ends are joined."""
    counts = _counts([[entry] for entry in trace.rounds if entry.num_tested])
    if len(counts) < MIN_ROUNDS:
        return None
    size = round(len(counts) ** (1 / 3))
    joined = np.vstack([np.zeros((1, 2)), counts, counts[: size - 1]]).cumsum(axis=0)
    return _bootstrap(
        joined[size:] - joined[:-size], picks=math.ceil(len(counts) / size), label="this prompt"
    )


def kind_interval(traces: Sequence[Trace]) -> Interval | None:
    """Resamples whole prompts. None if fewer than two have a tested candidate."""
    counts = _counts([trace.rounds for trace in traces])
    counts = counts[counts[:, 1] > 0]
    if len(counts) < 2:
        return None
    return _bootstrap(counts, picks=len(counts), label="this kind of prompt")


def _counts(groups: Sequence[Sequence[Round]]) -> NDArray[np.float64]:  # [num_groups, 2]
    rows = [
        (sum(entry.num_accepted for entry in each), sum(entry.num_tested for entry in each))
        for each in groups
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


def _bootstrap(counts: NDArray[np.float64], *, picks: int, label: str) -> Interval:
    """``counts``: accepted and tested of each unit that is drawn with replacement."""
    drawn = np.random.default_rng(0).integers(len(counts), size=(RESAMPLES, picks))
    sums = counts[drawn].sum(axis=1)
    low, high = np.percentile(sums[:, 0] / sums[:, 1], [2.5, 97.5])
    return Interval(low=float(low), high=float(high), label=label)
