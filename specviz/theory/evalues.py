"""An anytime-valid test of the distribution of emitted tokens.

Null hypothesis: each emitted token x_t, given everything decided before it, has the distribution
target_t. Before x_t is seen, a bet names a set A_t of tokens and a stake. When x_t is seen, the
wealth of the bet is multiplied by

    1 + stake * (1[x_t in A_t] - target_t(A_t)).

This factor is positive, since stakes lie within (-1, 1). Under the null, its mean is 1. The wealth
of a bet is therefore a nonnegative martingale that begins at 1. The mean wealth of many bets, E, is
also such a martingale. By Ville's inequality, the probability that E ever reaches 1 / level is at
most the level, whenever and however often the test is evaluated. So min(1, 1 / max E) is a p-value
at any time.

There is a bet for every combination of a set, a group of positions (for example, all positions
after a rejection) and a stake. A negative stake bets against the set. One more bet is on tokens
with target probability 0: this bet never loses, and at the first such token its wealth becomes
infinite. At temperature 0 only this bet is active, because all other bets abstain where one token
has all of the target's probability.

The group of a position may depend on earlier verdicts if the rule verifies one token at a time.
Given its own verdict, a token no longer has the target's distribution, so no bet on a token depends
on the verdict on that token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specviz.errors import TheoryError
from specviz.values import Value

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
Place = Literal["start", "after an acceptance", "after a rejection", "bonus"]

STAKES = (-0.8, -0.3, -0.1, 0.1, 0.3, 0.8)
GROUPS = ("everywhere", "after an acceptance", "after a rejection", "bonus")
_CERTAIN = 1e-6  # bets abstain if the set's probability is this close to 0 or 1


def preferred(target: Floats, draft: Floats) -> Marks:
    return target > draft


def likeliest(target: Floats, draft: Floats) -> Marks:
    """Return a mask of the target's likeliest tokens.

    The mask has as few tokens as possible, with at least half of the probability in total.
    """
    del draft
    order = np.argsort(-target, axis=-1, kind="stable")
    ordered = np.take_along_axis(target, order, -1)
    chosen = np.cumsum(ordered, axis=-1) - ordered < 0.5
    marks = np.zeros(target.shape, dtype=np.bool_)
    np.put_along_axis(marks, order, chosen, -1)
    return marks


def first_numbers(target: Floats, draft: Floats) -> Marks:
    """Return a mask of the lowest token ids.

    The mask has as many ids as possible, with at most half of the target's probability in total.
    """
    del draft
    return np.cumsum(target, axis=-1) <= 0.5


# The sets A_t by name, as functions of target and draft probabilities [num_tokens, vocabulary].
SETS: dict[str, Callable[[Floats, Floats], Marks]] = {
    "the tokens that are likelier under the target than under the draft": preferred,
    "the target's likeliest tokens": likeliest,
    "the tokens with the lowest ids": first_numbers,
}


class Emitted(Value, eq=False):
    """Emitted tokens of one run in order, with both models' distributions at each token.

    ``target``, ``draft`` and ``possible`` are [num_tokens, vocabulary]. ``possible`` marks the
    tokens that the target can emit, up to rounding; by default, all tokens with positive
    probability. ``places`` has the group of each token: "after a rejection", for example.
    """

    tokens: Sequence[int]
    target: ArrayLike
    draft: ArrayLike
    places: Sequence[Place]
    possible: Marks | None = None


class Detectable(Value):
    """The smallest bias that should have raised an alarm by now, and the biased set of tokens."""

    tokens: str  # the name of the set
    bias: float


class EmittedDistributionTest:
    """A sequential test of emitted tokens; it keeps the wealth of each bet so far."""

    def __init__(self, level: float = 0.01) -> None:
        if not 0.0 < level < 1.0:
            raise TheoryError(f"The level is {level}.", remedy="Give a number between 0 and 1.")
        self.level = level
        self.tokens = 0
        self.log_e_now = 0.0
        self.log_e = 0.0  # the largest so far
        self._wealth = np.zeros(len(SETS) * len(GROUPS) * len(STAKES) + 1)  # logs
        self._drift = np.zeros((len(SETS), len(STAKES)))  # expected gain under the null
        self._slope = np.zeros((len(SETS), len(STAKES)))  # expected gain from a bias of 1

    @property
    def p_value(self) -> float:
        return min(1.0, math.exp(-self.log_e))

    @property
    def alarm(self) -> bool:
        return self.p_value <= self.level

    def observe(self, emitted: Emitted) -> None:
        """Update all bets with these tokens."""
        if not len(emitted.tokens):
            return
        target, draft = _checked_probs(emitted.target), _checked_probs(emitted.draft)
        chances, hits = _chances(target, draft, emitted.tokens)
        gains = log_factors(chances, hits, emitted.places)
        wealth = self._wealth + np.cumsum(_with_last(gains, _forbidden(target, emitted)), axis=0)
        self._wealth = wealth[-1]
        mean = np.logaddexp.reduce(wealth, axis=1) - math.log(wealth.shape[1])
        self.log_e_now = float(mean[-1])
        self.log_e = max(self.log_e, float(mean.max()))
        self.tokens += len(emitted.tokens)
        self._note_power(chances)

    def detectable(self) -> Detectable | None:
        """Return the smallest bias that should have raised an alarm by now.

        The result is None if there are too few tokens to detect any bias.
        """
        needed = math.log(len(self._wealth) / self.level) - self._drift
        with np.errstate(divide="ignore", invalid="ignore"):
            bias = np.abs(needed / self._slope)
        bias[~(bias < 1.0)] = np.inf
        row = int(bias.min(axis=1).argmin())
        smallest = float(bias[row].min())
        return None if smallest == np.inf else Detectable(tokens=list(SETS)[row], bias=smallest)

    def _note_power(self, chances: Floats) -> None:
        chance = chances[..., None]
        won, lost = _logs(1.0 - chance), _logs(-chance)
        bet_on = _bet_on(chance)
        self._drift += ((chance * won + (1.0 - chance) * lost) * bet_on).sum(axis=0)
        self._slope += ((won - lost) * bet_on).sum(axis=0)


def log_factors(chances: Floats, hits: Marks, places: Sequence[Place]) -> Floats:
    """Return the logarithms of the factors that multiply the bets' wealth: [num_tokens, num_bets].

    Args:
        chances: The target's probability of each set of tokens, target_t(A_t):
            [num_tokens, num_sets].
        hits: Whether the emitted token is in the set: [num_tokens, num_sets].
        places: The group of each token; the group decides which bets are made on the token.
    """
    factors = _logs((hits - chances)[..., None]) * _bet_on(chances[..., None])
    named = np.asarray(places, dtype=object)
    groups = [np.full(len(places), True) if group == GROUPS[0] else named == group
              for group in GROUPS]  # fmt: skip
    of_groups = [factors * group[:, None, None] for group in groups]
    return np.stack(of_groups, axis=1).reshape(len(places), -1)


def _logs(surplus: Floats) -> Floats:
    return np.log1p(np.asarray(STAKES) * surplus)


def _bet_on(chance: Floats) -> Marks:
    return (chance > _CERTAIN) & (chance < 1.0 - _CERTAIN)


def _chances(target: Floats, draft: Floats, tokens: Sequence[int]) -> tuple[Floats, Marks]:
    marks = np.stack([choose(target, draft) for choose in SETS.values()], axis=1)
    chances = (target[:, None, :] * marks).sum(axis=-1)
    hits = np.take_along_axis(marks, np.asarray(tokens)[:, None, None], -1)[..., 0]
    return chances, hits


def _forbidden(target: Floats, emitted: Emitted) -> Marks:
    possible = target > 0.0 if emitted.possible is None else emitted.possible
    return ~np.take_along_axis(possible, np.asarray(emitted.tokens)[:, None], -1)[:, 0]


def _with_last(gains: Floats, forbidden: Marks) -> Floats:
    """Append the log-factors of the bet on tokens that the target cannot emit.

    ``gains`` holds the log-factors of the other bets, one column each.
    """
    return np.column_stack((gains, np.where(forbidden, np.inf, 0.0)))


def _checked_probs(given: ArrayLike) -> Floats:
    probs: Floats = np.asarray(given, dtype=np.float64)
    total = probs.sum(axis=-1, keepdims=True)
    if not (probs.min() >= 0.0 and np.all(np.abs(total - 1.0) < 1e-3)):
        raise TheoryError(
            "A distribution has a negative value or does not sum to 1.",
            remedy="Give probabilities.",
        )
    return probs / total
