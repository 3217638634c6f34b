"""The exact distribution of the number of rounds of a text, and thus of its decoding time.

Every candidate is accepted with probability ``alpha``, independently. Times are in target steps: a
round costs gamma * c + v, however many tokens it emits.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from specviz.values import Value

_GONE = 1e-14  # probabilities below this change no displayed digit


class RoundsDistribution(Value, eq=False):
    """The number of rounds that ``num_tokens`` tokens take; ``chances[r]`` is P(r rounds)."""

    num_tokens: int
    gamma: int
    chances: NDArray[np.float64]

    @property
    def mean(self) -> float:
        return float(self.chances @ np.arange(len(self.chances)))

    @property
    def spread(self) -> float:
        """The standard deviation of the number of rounds."""
        away = np.arange(len(self.chances)) - self.mean
        return math.sqrt(float(self.chances @ away**2))

    def percentile(self, share: float) -> int:
        """Return the smallest number of rounds that suffices with probability ``share`` or more."""
        return int(np.searchsorted(self.chances.cumsum(), share - _GONE))

    def speedup(self, rounds: float, draft_cost: float, verify_cost: float = 1.0) -> float:
        """Return the speedup over the target alone if the text takes ``rounds`` rounds."""
        return self.num_tokens / (rounds * (self.gamma * draft_cost + verify_cost))


def accepted_distribution(alpha: float, gamma: int) -> NDArray[np.float64]:  # [gamma + 1]
    """Return the probabilities of 0, 1, ..., gamma accepted candidates: geometric, capped at gamma.

    Leviathan et al. 2023, section 3.1. A round also emits one extra token.
    """
    assert 0.0 <= alpha <= 1.0, alpha
    chances = np.power(alpha, np.arange(gamma + 1, dtype=np.float64))
    chances[:-1] *= 1.0 - alpha
    return chances


def rounds_distribution(alpha: float, gamma: int, num_tokens: int) -> RoundsDistribution:
    """Return the exact distribution of the number of rounds, by dynamic programming.

    Applies renewal theory to the rounds of Leviathan et al. 2023, section 3.1 (derived here). The
        last round costs as much as the other rounds, even if the end of the text cuts it.
    """
    assert num_tokens >= 1, num_tokens
    tokens = np.concatenate([[0.0], accepted_distribution(alpha, gamma)])
    so_far = np.zeros(num_tokens)  # [n]: P(the text has n tokens so far and is unfinished)
    so_far[0] = 1.0
    open_still = [1.0]
    while open_still[-1] > _GONE:
        so_far = np.convolve(so_far, tokens)[:num_tokens]
        open_still.append(float(so_far.sum()))
    done = 1.0 - np.array(open_still)
    chances = np.diff(done, prepend=0.0)
    return RoundsDistribution(num_tokens=num_tokens, gamma=gamma, chances=chances)


def rounds_distributions(alpha: float, max_gamma: int, num_tokens: int) -> list[RoundsDistribution]:
    """Return `rounds_distribution` for gamma 1 to ``max_gamma``."""
    return [rounds_distribution(alpha, gamma, num_tokens) for gamma in range(1, max_gamma + 1)]
