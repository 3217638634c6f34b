"""The exact expected number of rounds in which a known text is decoded (derived here).

The results were checked by enumeration.

``odds`` holds min(1, draft / target) at every token of the text. Suppose that a round drafts a
candidate at the position of this token. The round emits this token as an accepted candidate with
probability min(draft, target), and emits it in any way with probability target. ``odds`` is the
ratio of the two: the probability that the candidate was accepted, given the text. This probability
does not depend on other verdicts. Therefore the number of candidates accepted so far in the current
round is a Markov chain along the text.

Other drafting methods have other odds. If the odds differ between a round's first candidate and
later candidates, ``odds`` is [num_tokens, 2]: the odds as a first and as a later candidate. Where a
round drafts no candidate at a token, give odds of 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specviz.errors import TheoryError
from specviz.values import Value

Floats = NDArray[np.float64]


class Walk(Value):
    """Expected numbers of rounds, tokens and bonus tokens along a known text.

    A round that the end of the text cuts does not count; see `walks_along`.
    """

    rounds: float
    tokens: float
    bonuses: float  # rounds in which every candidate was accepted


def rounds_along(odds: ArrayLike, gamma: int, *, ends: bool = False) -> Walk:
    """Return the expected rounds and tokens along a text for one gamma; see `walks_along`."""
    return walks_along(odds, (gamma,), ends=ends)[0]


def walks_along(odds: ArrayLike, gammas: Sequence[int], *, ends: bool = False) -> tuple[Walk, ...]:
    """Return, for each gamma, the expected rounds, tokens and bonus tokens along a text.

    Rounds cut by the end of the text are left out, as in the measured numbers of a run. If a length
    limit ended the text, every round that begins with fewer than gamma + 1 tokens left is cut. If
    the text ``ends`` with EOS, a round is cut only if the text's last token is one of the round's
    accepted candidates.

    Args:
        odds: The acceptance probability of each token of the text, as the module defines it.
    """
    chances, most = _checked(odds, gammas)
    starts = _starts(chances, gammas, most)
    reached = _reached(chances, most)
    return tuple(_walk(starts[row], reached, gamma, ends=ends) for row, gamma in enumerate(gammas))


def _walk(starts: Floats, reached: Floats, gamma: int, *, ends: bool) -> Walk:
    whole = max(0, len(starts) - gamma)  # earlier rounds have gamma + 1 tokens left, or more
    begun, survived = starts[:whole], reached[:whole, : gamma + 1]
    rounds, bonuses = float(begun.sum()), float(begun @ survived[:, gamma])
    tokens = float(begun @ survived.sum(axis=1))
    if ends:
        for start in range(whole, len(starts)):
            left = len(starts) - start
            survived = reached[start, : left + 1]
            cut = survived[left]  # P(all tokens left are accepted candidates)
            rounds += float(starts[start] * (1.0 - cut))
            tokens += float(starts[start] * (survived[:left].sum() - left * cut))
    return Walk(rounds=rounds, tokens=tokens, bonuses=bonuses)


def _starts(chances: Floats, gammas: Sequence[int], most: int) -> Floats:
    """Return the probability that a round begins at each token: [num_gammas, num_tokens]."""
    drafted = np.arange(most + 1) < np.asarray(gammas)[:, None]  # [gammas, accepted so far]
    state = np.zeros(drafted.shape)
    state[:, 0] = 1.0
    starts = np.empty((len(gammas), len(chances)))
    column = np.minimum(np.arange(most + 1), 1)  # column of ``chances``, by number accepted so far
    for place, chance in enumerate(chances):
        starts[:, place] = state[:, 0]
        accepted = np.where(drafted, chance[column] * state, 0.0)
        state = np.concatenate(
            ((state - accepted).sum(axis=1, keepdims=True), accepted[:, :-1]), axis=1
        )
    return starts


def _reached(chances: Floats, most: int) -> Floats:
    """Return the probability that a round beginning at token i accepts the next n tokens or more.

    The result is [num_tokens, most + 1]: row i, column n = 0 .. most.
    """
    first, later = chances.T
    ahead = np.concatenate((later, np.zeros(max(1, most))))
    windows = np.lib.stride_tricks.sliding_window_view(ahead, max(1, most))[: len(chances), :most]
    reached: Floats = np.ones((len(chances), most + 1))
    reached[:, 1:] = windows
    reached[:, 1:2] = first[:, None]
    return np.cumprod(reached, axis=1, dtype=np.float64)


def starts_along(odds: ArrayLike, gammas: Sequence[int]) -> Floats:
    """Return the probability that a round begins at each token: [num_gammas, num_tokens]."""
    chances, most = _checked(odds, gammas)
    return _starts(chances, gammas, most)


def accepted_along(odds: ArrayLike, gamma: int) -> tuple[float, ...]:
    """Return the share of rounds that accept at least n candidates, for n = 1 .. gamma.

    Only rounds that begin with at least gamma + 1 tokens left are counted.
    """
    chances, most = _checked(odds, (gamma,))
    begun = _starts(chances, (gamma,), most)[0][: max(0, len(chances) - gamma)]
    if not begun.sum():
        return ()
    reached = begun @ _reached(chances, most)[: len(begun), 1 : gamma + 1] / begun.sum()
    return tuple(reached.tolist())


def variance_along(odds: ArrayLike, gamma: int) -> float:
    """Return how much of the variance of tokens per round comes from the random draws.

    This part is the variance given the token at which the round begins, averaged over whole rounds.
    The result is 0 if no whole round fits into the text.
    """
    chances, most = _checked(odds, (gamma,))
    begun = _starts(chances, (gamma,), most)[0][: max(0, len(chances) - gamma)]
    if not begun.sum():
        return 0.0
    reached = _reached(chances, most)[: len(begun), 1 : gamma + 1]  # P(at least n accepted)
    squares = reached @ (2 * np.arange(1, gamma + 1) - 1)
    return float(begun @ (squares - reached.sum(axis=1) ** 2) / begun.sum())


def _checked(odds: ArrayLike, gammas: Sequence[int]) -> tuple[Floats, int]:
    chances: Floats = np.asarray(odds, dtype=np.float64)
    if chances.ndim < 2:
        chances = np.stack((chances, chances), axis=1)
    if chances.size and not (chances.min() >= 0.0 and chances.max() <= 1.0):
        raise TheoryError(
            "An acceptance probability is not between 0 and 1.", remedy="Give values from 0 to 1."
        )
    if not gammas or min(gammas) < 0:
        raise TheoryError("γ is missing or negative.", remedy="Give whole numbers of at least 0.")
    return chances, max(gammas)
