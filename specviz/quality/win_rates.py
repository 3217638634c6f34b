"""Win rates: how often texts of one rule are preferred to texts of another.

For each prompt, all texts of one rule are compared with all texts of the other rule. A tie counts
one half. The win rate is the mean over prompts. Its interval is Student's t over the prompts, so
that it also applies to other prompts of this kind (Yin et al. 2024, section 5.2). If the win rates
of all prompts are equal, their spread does not estimate the error, so the interval is Wilson's.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from statistics import NormalDist, fmean

from specviz.figures.paired import CONFIDENCE, mean_of
from specviz.values import Value

Outcomes = Mapping[int, Sequence[float]]  # by prompt: 1 if the first text wins, 0.5 for a tie
Scores = Mapping[int, Sequence[float]]  # by prompt: the scores of the texts of one rule
FEW_PROMPTS = 10  # with fewer prompts, an interval is hardly reliable
_SIGMAS = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)


class WinRate(Value):
    """A win rate; its interval needs at least two prompts. ``ties`` is the share of ties."""

    value: float
    low: float | None
    high: float | None
    prompts: int
    pairs: int
    ties: float

    @property
    def differs(self) -> bool:
        """Return whether the interval excludes one half."""
        return self.low is not None and self.high is not None and not self.low <= 0.5 <= self.high


def win_rate(outcomes: Outcomes) -> WinRate | None:
    """Return the win rate; None if nothing was compared."""
    compared = {prompt: own for prompt, own in outcomes.items() if own}
    found = mean_of({(prompt, 0): fmean(own) for prompt, own in compared.items()})
    if found is None:
        return None
    low, high = found.low, found.high
    if low is not None and low == high:
        low, high = _wilson(found.value, found.count)
    each = [outcome for own in compared.values() for outcome in own]
    return WinRate(
        value=found.value,
        low=None if low is None else max(0.0, low),
        high=None if high is None else min(1.0, high),
        prompts=found.count,
        pairs=len(each),
        ties=each.count(0.5) / len(each),
    )


def _wilson(share: float, count: int) -> tuple[float, float]:
    """Return the ends of Wilson's interval for a share that was observed on ``count`` prompts."""
    squared = _SIGMAS**2 / count
    middle = (share + squared / 2) / (1 + squared)
    half = math.sqrt(squared * (share * (1 - share) + squared / 4)) / (1 + squared)
    return middle - half, middle + half


def outcomes_of(first: Scores, second: Scores) -> Outcomes:
    """Compare every text of the first rule with every text of the second, prompt by prompt.

    Return the outcomes of each prompt: 1 if the first text has the higher score, 0.5 for a tie, 0
    if the second text has the higher score.
    """
    return {
        prompt: _all_pairs(own, second[prompt]) for prompt, own in first.items() if prompt in second
    }


def _all_pairs(first: Sequence[float], second: Sequence[float]) -> list[float]:
    ordered = sorted(second)
    outcomes = list[float]()
    for score in first:
        lower, not_higher = bisect_left(ordered, score), bisect_right(ordered, score)
        outcomes += [1.0] * lower + [0.5] * (not_higher - lower)
        outcomes += [0.0] * (len(ordered) - not_higher)
    return outcomes
