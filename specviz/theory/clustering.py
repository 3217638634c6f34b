"""Tokens per round where acceptance clusters into easy and hard stretches of a text.

The state of the text, easy or hard, is a Markov chain over its tokens; the state at a token
determines the probability that its candidate is accepted. At equal mean acceptance, the clustering
changes the tokens per round at any finite gamma, but not at infinite gamma. At infinite gamma, only
rejections end a round, so the expected rejections determine the tokens per round. The expected
rejections depend only on the mean acceptance (Yin et al. 2024, theorem 1).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from specviz.errors import ConfigError
from specviz.theory.speed import expected_tokens
from specviz.values import Value


class StickyText(Value):
    """A text of easy and hard tokens.

    ``easy`` and ``hard`` are the acceptance probabilities of such tokens. ``easy_share`` is the
    share of easy tokens. ``stickiness`` is the correlation of neighbouring tokens' states: at 0 the
    states are independent, at 1 the state never changes.
    """

    easy: float
    hard: float
    easy_share: float
    stickiness: float

    def __post_init__(self) -> None:
        for name in ("easy", "hard", "easy_share", "stickiness"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise ConfigError(f"{name} is {value:g}.", remedy="Give a number from 0 to 1.")

    @property
    def mean_alpha(self) -> float:
        """The mean acceptance over tokens: the limit of accepted / tested as gamma grows."""
        return self.easy_share * self.easy + (1.0 - self.easy_share) * self.hard

    @property
    def changes(self) -> NDArray[np.float64]:  # [2, 2], transition probabilities
        shares = np.array([self.easy_share, 1.0 - self.easy_share])
        return (1.0 - self.stickiness) * np.tile(shares, (2, 1)) + self.stickiness * np.eye(2)


def tokens_per_round(text: StickyText, gamma: float) -> float:
    """Return the exact long-run tokens per round; ``gamma`` may be `math.inf`.

    Averages over the state at a round's start, weighted by how often rounds start in that state
    (derived here; for infinite gamma, Yin et al. 2024, theorem 1).
    """
    if gamma == math.inf:
        # Rounds end only at rejections, and a token is rejected with probability 1 - mean.
        return 1.0 / (1.0 - text.mean_alpha) if text.mean_alpha < 1.0 else math.inf
    if text.stickiness == 1.0 or text.easy_share in {0.0, 1.0}:
        return unmixed_tokens(text, gamma)
    tokens, starts = _one_round(text, int(gamma))
    to_hard, to_easy = starts[0, 1], starts[1, 0]
    return float((to_easy * tokens[0] + to_hard * tokens[1]) / (to_easy + to_hard))


def unmixed_tokens(text: StickyText, gamma: float) -> float:
    """Return tokens per round if each round lies within one easy or hard stretch of the text.

    This is so if stretches are very long. A token then needs 1 / `expected_tokens` rounds, at the
    acceptance of its stretch. The result is the inverse of the mean rounds per token: a harmonic
    mean.
    """
    return 1.0 / (
        text.easy_share / expected_tokens(text.easy, int(gamma))
        + (1.0 - text.easy_share) / expected_tokens(text.hard, int(gamma))
    )


def tokens_if_rounds_differ(text: StickyText, gamma: int) -> float:
    """Return tokens per round if every round had only easy tokens or only hard tokens.

    The share of easy rounds is ``easy_share``. By Jensen's inequality, the result is at least
    `expected_tokens` at the mean alpha.
    """
    return text.easy_share * expected_tokens(text.easy, gamma) + (
        1.0 - text.easy_share
    ) * expected_tokens(text.hard, gamma)


def _one_round(
    text: StickyText, gamma: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # [2], [2, 2]
    """Return a round's mean tokens, and the probability of each state at the next round's start.

    The first axis of both results is the state, easy or hard, at this round's start.
    """
    chances, changes = np.array([text.easy, text.hard]), text.changes
    alive = np.eye(
        2
    )  # row: state at the start; column: state here, if all candidates so far were accepted
    tokens, starts = np.zeros(2), np.zeros((2, 2))
    for _ in range(gamma):
        tokens += alive.sum(axis=1)
        starts += alive * (1.0 - chances) @ changes
        alive = alive * chances @ changes
    return tokens + alive.sum(axis=1), starts + alive @ changes
