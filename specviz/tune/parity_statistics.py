"""Differences of acceptance rates with intervals over prompts.

A rate is a ratio of two sums over prompts. Its variance follows from one residual per prompt (the
delta method). For a difference of two rates, the residuals of the same prompt are subtracted, so
variation between prompts that affects both rates does not widen the interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specviz.theory.student import t_quantile
from specviz.tune.parity_values import Counts

_LEAST_DIFFERENT = 4  # prompts


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """An estimate with a residual per prompt. The residuals give its interval; their mean is 0."""

    value: float
    residuals: np.ndarray

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(self.value - other.value, self.residuals - other.residuals)

    def interval(self, level: float) -> tuple[float, float]:
        """Return Student's interval with the error probability ``level``."""
        count = len(self.residuals)
        if count < 2:
            return -np.inf, np.inf
        half = t_quantile(1 - level / 2, count - 1) * float(self.residuals.std(ddof=1))
        half /= count**0.5
        return self.value - half, self.value + half


def ratio(over: Sequence[float], under: Sequence[float]) -> Estimate | None:
    """Return the sum of ``over`` divided by the sum of ``under``; None if the divisor is 0."""
    top, bottom = np.asarray(over, float), np.asarray(under, float)
    if bottom.sum() == 0:
        return None
    value = top.sum() / bottom.sum()
    return Estimate(float(value), (top - value * bottom) / bottom.mean())


def mean(values: Sequence[float]) -> Estimate:
    found = np.asarray(values, float)
    return Estimate(float(found.mean()), found - found.mean())


def accepted_length(counts: Sequence[Counts]) -> Estimate:
    """Return the mean over prompts of log τ, where τ is the number of tokens per round."""
    return mean([math.log(each.tau) for each in counts])


def at_position(counts: Sequence[Counts], position: int, given: int) -> Estimate | None:
    """Return the acceptance rate at a position.

    The rate covers the rounds that accepted the candidate at position ``given`` or, if ``given`` is
    0, all rounds. Return None if there are no such rounds.
    """
    rows = [(each.drafts, *each.padded(position)) for each in counts]
    return ratio([row[position] for row in rows], [row[given] for row in rows])


def distance(engine: Counts, other: Counts, gamma: int) -> float:
    """Return the distance between two counts of the same text.

    The counts may differ in the rounds, and in the accepted candidates at each position. The
    distance is the sum of the absolute differences, divided by the engine's rounds.
    """
    pairs = zip(engine.padded(gamma), other.padded(gamma), strict=True)
    apart = abs(engine.drafts - other.drafts) + sum(abs(one - two) for one, two in pairs)
    return apart / max(1, engine.drafts)


def nearer(
    engine: Sequence[Counts], first: Sequence[Counts], second: Sequence[Counts], gamma: int
) -> Estimate | None:
    """Return how much nearer the engine's counts are to ``second`` than to ``first``.

    The value is 1 if the engine's counts equal ``second``, and -1 if they equal ``first``. Return
    None if ``first`` and ``second`` differ on fewer than four prompts.
    """
    rows = list(zip(engine, first, second, strict=True))
    apart = [
        distance(one, two, gamma) * one.drafts / max(1, each.drafts) for each, one, two in rows
    ]
    if sum(each > 0 for each in apart) < _LEAST_DIFFERENT:
        return None
    gains = [distance(each, one, gamma) - distance(each, two, gamma) for each, one, two in rows]
    return ratio(gains, apart)


def share_interval(count: int, of: int, level: float) -> tuple[float, float]:
    """Return the exact interval of the share ``count / of`` (Clopper and Pearson 1934)."""
    low = 0.0 if count == 0 else _solved(lambda p: _at_least(count, of, p), level / 2)
    high = 1.0 if count == of else _solved(lambda p: _at_least(count + 1, of, p), 1 - level / 2)
    return low, high


def _at_least(count: int, of: int, probability: float) -> float:
    return math.fsum(
        math.comb(of, each) * probability**each * (1 - probability) ** (of - each)
        for each in range(count, of + 1)
    )


def _solved(rising: Callable[[float], float], value: float) -> float:
    """Return the probability at which the increasing function ``rising`` reaches ``value``."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < value else (low, middle)
    return low
