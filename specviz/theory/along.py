"""What the rounds along a known text come to, exactly (derived here, checked by enumeration).

``odds`` holds min(1, draft / target) at every token of the text: given the text, the chance that
this token was an accepted candidate, independent from token to token. So the number of candidates
that the present round has accepted is a Markov chain along the text.

Other ways to speculate have other chances (``theory.own_odds``). Where the first candidate of a
round has another chance than one behind it, there are two columns: [num_tokens, 2]. A round that
drafts nothing behind a token is one whose next candidate has the chance 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specviz.errors import TheoryError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Expected counts over the whole rounds of a known text."""

    rounds: float
    tokens: float
    bonuses: float  # rounds in which every candidate was accepted


def rounds_along(odds: ArrayLike, gamma: int, *, ends: bool = False) -> Walk:
    """`walks_along` for one gamma."""
    return walks_along(odds, (gamma,), ends=ends)[0]


def walks_along(odds: ArrayLike, gammas: Sequence[int], *, ends: bool = False) -> tuple[Walk, ...]:
    """What the whole rounds along a text come to, for each gamma.

    Rounds that the end of the text cuts short are left out, as they are in a run. Where a limit
    ended the text, these are all that begin with less than gamma + 1 tokens ahead. Where it
    ``ends`` by itself, a round is cut only if its candidates go beyond the end.
    """
    chances, most = _checked(odds, gammas)
    starts = _starts(chances, gammas, most)
    reached = _reached(chances, most)
    return tuple(_walk(starts[row], reached, gamma, ends=ends) for row, gamma in enumerate(gammas))


def _walk(starts: Floats, reached: Floats, gamma: int, *, ends: bool) -> Walk:
    whole = max(0, len(starts) - gamma)  # rounds that begin before this have gamma + 1 tokens ahead
    begun, survived = starts[:whole], reached[:whole, : gamma + 1]
    rounds, bonuses = float(begun.sum()), float(begun @ survived[:, gamma])
    tokens = float(begun @ survived.sum(axis=1))
    if ends:
        for start in range(whole, len(starts)):
            left = len(starts) - start
            survived = reached[start, : left + 1]
            cut = survived[left]  # the last token was accepted, and more had been drafted
            rounds += float(starts[start] * (1.0 - cut))
            tokens += float(starts[start] * (survived[:left].sum() - left * cut))
    return Walk(rounds=rounds, tokens=tokens, bonuses=bonuses)


def _starts(chances: Floats, gammas: Sequence[int], most: int) -> Floats:
    """The chance that a round begins after so many tokens: [gammas, tokens]."""
    drafted = np.arange(most + 1) < np.asarray(gammas)[:, None]  # [gammas, accepted so far]
    state = np.zeros(drafted.shape)
    state[:, 0] = 1.0
    starts = np.empty((len(gammas), len(chances)))
    column = np.minimum(np.arange(most + 1), 1)  # of the chances, by accepted so far
    for place, chance in enumerate(chances):
        starts[:, place] = state[:, 0]
        accepted = np.where(drafted, chance[column] * state, 0.0)
        state = np.concatenate(
            ((state - accepted).sum(axis=1, keepdims=True), accepted[:, :-1]), axis=1
        )
    return starts


def _reached(chances: Floats, most: int) -> Floats:
    """The chance that so many tokens from a place on are accepted in a row: [tokens, most + 1]."""
    first, later = chances.T
    ahead = np.concatenate((later, np.zeros(max(1, most))))
    windows = np.lib.stride_tricks.sliding_window_view(ahead, max(1, most))[: len(chances), :most]
    reached: Floats = np.ones((len(chances), most + 1))
    reached[:, 1:] = windows
    reached[:, 1:2] = first[:, None]
    return np.cumprod(reached, axis=1, dtype=np.float64)


def starts_along(odds: ArrayLike, gammas: Sequence[int]) -> Floats:
    """The chance that a round begins with each token of the text: [gammas, tokens]."""
    chances, most = _checked(odds, gammas)
    return _starts(chances, gammas, most)


def accepted_along(odds: ArrayLike, gamma: int) -> tuple[float, ...]:
    """Of the rounds with gamma + 1 tokens ahead, the share in which so many candidates or more are
    accepted, from 1 to gamma: shares of all rounds, so that they never rise."""
    chances, most = _checked(odds, (gamma,))
    begun = _starts(chances, (gamma,), most)[0][: max(0, len(chances) - gamma)]
    if not begun.sum():
        return ()
    reached = begun @ _reached(chances, most)[: len(begun), 1 : gamma + 1] / begun.sum()
    return tuple(reached.tolist())


def rejections_along(odds: ArrayLike, gamma: int) -> tuple[float, float]:
    """Mean and variance of the rejections of a run that wrote this text, cut rounds included."""
    chances, _ = _checked(odds, (gamma,))
    first, second = np.zeros(gamma + 1), np.zeros(gamma + 1)  # moments, by accepted so far
    column = np.minimum(np.arange(gamma), 1)
    for chances_here in chances[::-1]:
        chance = chances_here[column]
        bonus = first[0], second[0]
        after = np.array([1.0 + first[0], 1.0 + 2.0 * first[0] + second[0]])
        first = np.append(chance * first[1:] + (1.0 - chance) * after[0], bonus[0])
        second = np.append(chance * second[1:] + (1.0 - chance) * after[1], bonus[1])
    return float(first[0]), float(second[0] - first[0] ** 2)


def _checked(odds: ArrayLike, gammas: Sequence[int]) -> tuple[Floats, int]:
    chances: Floats = np.asarray(odds, dtype=np.float64)
    if chances.ndim < 2:
        chances = np.stack((chances, chances), axis=1)
    if chances.size and not (chances.min() >= 0.0 and chances.max() <= 1.0):
        raise TheoryError(
            "A chance of acceptance is below 0, above 1 or no number.", remedy="Give 0 to 1."
        )
    if not gammas or min(gammas) < 0:
        raise TheoryError("γ is missing or negative.", remedy="Give whole numbers from 0.")
    return chances, max(gammas)
