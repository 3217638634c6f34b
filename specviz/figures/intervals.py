"""Two intervals of alpha, which cover different kinds of variation.

Resampling is seeded: the same trace gives the same interval. An interval is None if there are too
few rounds. The interval of the sampling noise is also None at temperature 0.
"""

from __future__ import annotations

import math

import numpy as np

from specviz.figures.acceptance import tested_in
from specviz.record.trace import Trace
from specviz.values import Value

RESAMPLES = 2000
MIN_ROUNDS = 10  # resampling fewer rounds gives intervals that are too narrow


class Interval(Value):
    """A 95 % confidence interval of alpha."""

    low: float
    high: float
    label: str


class Intervals(Value):
    """Two intervals of alpha; None if unknown.

    ``coins``: the sampling noise around the expected alpha. ``prompt``: the bootstrap interval
    around the observed alpha.
    """

    coins: Interval | None
    prompt: Interval | None


def coins_interval(trace: Trace) -> Interval | None:
    """Return the 95 % range of the observed alpha from sampling noise alone.

    The acceptance probabilities at the tested positions are taken as given. The result is None at
    temperature 0, where verdicts do not depend on draws.
    """
    tested = tested_in(trace.rounds)
    if trace.config.greedy or not tested:
        return None
    chances = np.array([entry.expected_acceptance for entry in tested]).clip(0, 1)
    middle = float(chances.mean())
    half = 1.96 * math.sqrt(float((chances * (1 - chances)).sum())) / len(tested)
    return Interval(
        low=max(0.0, middle - half), high=min(1.0, middle + half), label="sampling noise"
    )


def prompt_interval(trace: Trace) -> Interval | None:
    """Return the interval of the observed alpha from a bootstrap over blocks of rounds.

    Neighbouring rounds have similar acceptance, so whole blocks of rounds are resampled. A block
    that reaches the last round continues with the first rounds.
    """
    tested = [entry for entry in trace.rounds if entry.num_tested]
    if len(tested) < MIN_ROUNDS:
        return None
    counts = np.array([(entry.num_accepted, entry.num_tested) for entry in tested], np.float64)
    size = round(len(counts) ** (1 / 3))
    joined = np.vstack([np.zeros((1, 2)), counts, counts[: size - 1]]).cumsum(axis=0)
    blocks = joined[size:] - joined[:-size]
    picks = math.ceil(len(counts) / size)
    drawn = np.random.default_rng(0).integers(len(blocks), size=(RESAMPLES, picks))
    sums = blocks[drawn].sum(axis=1)
    low, high = np.percentile(sums[:, 0] / sums[:, 1], [2.5, 97.5])
    return Interval(low=float(low), high=float(high), label="this prompt")
