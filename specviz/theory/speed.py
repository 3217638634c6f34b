"""How many tokens a round yields, and what that is worth in time.

Costs are in steps of the target: ``draft_cost`` is c, one draft step; ``verify_cost`` is v,
one pass over gamma + 1 tokens. Chances and costs outside their range are a caller's bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_TIE = 1e-12  # rounding alone must not make drafting look worth while


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Expected counts over the whole rounds of a known text."""

    rounds: float
    tokens: float
    bonuses: float  # rounds in which every candidate was accepted


def expected_tokens(alpha: float, gamma: int) -> float:
    """Tokens a round, the extra one included: Leviathan et al. 2023, eq. 1.

    Every candidate is accepted with chance ``alpha``, independently. Summed as
    1 + alpha + ... + alpha**gamma, the quotient (1 - alpha**(gamma + 1)) / (1 - alpha) needs
    no limit at 1 and loses no digits near it.
    """
    assert 0.0 <= alpha <= 1.0, alpha
    assert gamma >= 0, gamma
    total = 1.0
    for _ in range(gamma):
        total = 1.0 + alpha * total
    return total


def speedup(alpha: float, gamma: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    """Times as fast as the target alone: Leviathan et al. 2023, theorem 3.8.

    The theorem has ``verify_cost`` 1; with the cost measured, the denominator is
    gamma * c + v. At gamma 0 nothing is drafted and the answer is 1.
    """
    if gamma == 0:
        return 1.0
    assert draft_cost >= 0.0, draft_cost
    assert verify_cost > 0.0, verify_cost
    return expected_tokens(alpha, gamma) / (gamma * draft_cost + verify_cost)


def best_gamma(
    alpha: float, draft_cost: float, verify_cost: float = 1.0, max_gamma: int = 64
) -> tuple[int, float]:
    """The gamma from 0 to ``max_gamma`` with the greatest speedup, and that speedup.

    Ties go to the smaller gamma. With verify_cost 1 it is above 0 exactly if
    alpha > draft_cost (Leviathan et al. 2023, corollary 3.9, which states one direction).
    """
    best, greatest = 0, 1.0
    for gamma in range(1, max_gamma + 1):
        value = speedup(alpha, gamma, draft_cost, verify_cost)
        if value > greatest * (1.0 + _TIE):
            best, greatest = gamma, value
    return best, greatest


def expected_rounds(odds: Sequence[float] | NDArray[np.float64], gamma: int) -> float:
    """Exact expected number of rounds in which a known text comes out.

    ``odds`` holds min(1, draft / target) at every emitted token: given the text, the chance
    that this token was an accepted candidate, independent from token to token. A round ends
    at the first token that was not; after gamma acceptances the next token is the bonus,
    which is untested. Over texts of the target, the mean of the result is the exact expected
    number of rounds (derived here, by enumeration checked; no assumption that odds are equal).
    """
    chances = np.asarray(odds, dtype=np.float64)
    assert gamma >= 0, gamma
    assert bool(np.all((chances >= 0.0) & (chances <= 1.0)))
    length = len(chances)
    rounds = [0.0] * (length + 1)  # rounds[i]: those still to come after i tokens
    values: list[float] = chances.tolist()
    for start in reversed(range(length)):
        left = rounds[min(start + gamma + 1, length)]
        for place in reversed(range(start, min(start + gamma, length))):
            left = values[place] * left + (1.0 - values[place]) * rounds[place + 1]
        rounds[start] = 1.0 + left
    return rounds[0]


def rounds_along(odds: Sequence[float] | NDArray[np.float64], gamma: int) -> Walk:
    """What the whole rounds along a known text come to, the forward form of `expected_rounds`.

    Only rounds that find gamma + 1 tokens before them are counted: those that the end of the
    text may cut short are left out, as they are in a run.
    """
    chances = np.asarray(odds, dtype=np.float64)
    assert gamma >= 0, gamma
    assert bool(np.all((chances >= 0.0) & (chances <= 1.0)))
    values: list[float] = chances.tolist()
    starts = [0.0] * (len(values) + 1)  # starts[i]: chance that a round begins after i tokens
    starts[0] = 1.0
    rounds = tokens = bonuses = 0.0
    for start in range(len(values) - gamma):
        alive = starts[start]
        rounds += alive
        for place in range(start, start + gamma):
            tokens += alive
            starts[place + 1] += alive * (1.0 - values[place])
            alive *= values[place]
        tokens += alive
        bonuses += alive
        starts[start + gamma + 1] += alive
    return Walk(rounds=rounds, tokens=tokens, bonuses=bonuses)
