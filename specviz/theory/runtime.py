"""How the time of a whole text spreads: the exact law of its rounds, mean and tail.

Every candidate is accepted with chance ``alpha``, independently. Times are in target steps:
a round costs gamma * c + v, whatever it yields.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_GONE = 1e-14  # a chance so small changes no digit that is shown


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundsLaw:
    """How many rounds ``num_tokens`` take: ``chances[r]`` is that of exactly r."""

    num_tokens: int
    gamma: int
    chances: NDArray[np.float64]

    @property
    def mean(self) -> float:
        return float(self.chances @ np.arange(len(self.chances)))

    @property
    def spread(self) -> float:
        """The standard deviation."""
        away = np.arange(len(self.chances)) - self.mean
        return math.sqrt(float(self.chances @ away**2))

    def percentile(self, share: float) -> int:
        """The least number of rounds that suffices with at least this chance."""
        return int(np.searchsorted(self.chances.cumsum(), share - _GONE))

    def speedup(self, rounds: float, draft_cost: float, verify_cost: float = 1.0) -> float:
        """Times as fast as the target alone, if the text takes this many rounds."""
        return self.num_tokens / (rounds * (self.gamma * draft_cost + verify_cost))


def accepted_distribution(alpha: float, gamma: int) -> NDArray[np.float64]:  # [gamma + 1]
    """Chance of 0, 1, ..., gamma accepted candidates: a geometric law capped at gamma.

    Leviathan et al. 2023, section 3.1. Tokens of the round: one more.
    """
    assert 0.0 <= alpha <= 1.0, alpha
    chances = np.power(alpha, np.arange(gamma + 1, dtype=np.float64))
    chances[:-1] *= 1.0 - alpha
    return chances


def rounds_distribution(alpha: float, gamma: int, num_tokens: int) -> RoundsLaw:
    """The exact law of the rounds, by dynamic programming over the tokens so far.

    The renewal law of rounds of Leviathan et al. 2023, section 3.1 (worked out here). The last
    round may be cut by the end of the text; it costs what every round costs.
    """
    assert num_tokens >= 1, num_tokens
    tokens = np.concatenate([[0.0], accepted_distribution(alpha, gamma)])
    so_far = np.zeros(num_tokens)  # chance of this many tokens, short of the end
    so_far[0] = 1.0
    open_still = [1.0]
    while open_still[-1] > _GONE:
        so_far = np.convolve(so_far, tokens)[:num_tokens]
        open_still.append(float(so_far.sum()))
    done = 1.0 - np.array(open_still)
    chances = np.diff(done, prepend=0.0)
    return RoundsLaw(num_tokens=num_tokens, gamma=gamma, chances=chances)


def rounds_distributions(alpha: float, max_gamma: int, num_tokens: int) -> list[RoundsLaw]:
    """`rounds_law` at gamma 1 to ``max_gamma``."""
    return [rounds_distribution(alpha, gamma, num_tokens) for gamma in range(1, max_gamma + 1)]
