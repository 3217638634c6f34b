"""How many tokens a round yields, and what that is worth in time.

Costs are in steps of the target: ``draft_cost`` is c, one draft step; ``verify_cost`` is v,
one pass over gamma + 1 tokens. What is outside its range is refused, never computed with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from specviz.errors import TheoryError

_TIE = 1e-12  # rounding alone must not make drafting, or a longer draft, look worth while


def expected_tokens(alpha: float, gamma: int) -> float:
    """Tokens a round, the extra one included: Leviathan et al. 2023, eq. 1.

    Every candidate is accepted with chance ``alpha``, independently. Summed as
    1 + alpha + ... + alpha**gamma, the quotient (1 - alpha**(gamma + 1)) / (1 - alpha) needs
    no limit at 1 and loses no digits near it.
    """
    _check_chance(alpha)
    _check_gamma(gamma)
    total = 1.0
    for _ in range(gamma):
        total = 1.0 + alpha * total
    return total


def accepted_from(alpha: float, gamma: int) -> NDArray[np.float64]:
    """E_0 to E_gamma: candidates still to be accepted once k were, E_k = alpha (1 + E_(k+1)).

    The recursion of v2rockets/sd_optimization, which ends at E_gamma = 0.
    """
    _check_chance(alpha)
    _check_gamma(gamma)
    left = np.zeros(gamma + 1)
    for place in reversed(range(gamma)):
        left[place] = alpha * (1.0 + left[place + 1])
    return left


def expected_accepted(alpha: float, gamma: int) -> float:
    """Candidates accepted a round: the recursion's closed form alpha (1 - alpha**g) / (1 - alpha).

    One less than the tokens a round; at alpha 1 the limit, gamma.
    """
    _check_chance(alpha)
    _check_gamma(gamma)
    if alpha in {0.0, 1.0}:
        return alpha * gamma
    # expm1 keeps the digits that 1 - alpha**gamma would lose near 1.
    return alpha * -math.expm1(gamma * math.log(alpha)) / (1.0 - alpha)


def round_time(gamma: int, draft_time: float, verify_time: float) -> float:
    """One cycle of v2rockets/sd_optimization: gamma draft steps and one verification."""
    _check_gamma(gamma)
    _check_costs(draft_time, verify_time)
    return gamma * draft_time + verify_time


def generation_speed(alpha: float, gamma: int, draft_time: float, verify_time: float) -> float:
    """Tokens per unit of time: the tokens of a cycle over its time (v2rockets/sd_optimization)."""
    return expected_tokens(alpha, gamma) / round_time(gamma, draft_time, verify_time)


def operations_factor(alpha: float, gamma: int, draft_operations: float) -> float:
    """Arithmetic done per token, in target steps: Leviathan et al. 2023, theorem 3.11.

    ``draft_operations`` is one draft step's arithmetic over one target step's. Speculation
    buys time with arithmetic: the factor is 1 or more at any alpha below 1.
    """
    _check_costs(draft_operations)
    return (gamma * draft_operations + gamma + 1) / expected_tokens(alpha, gamma)


def speedup(alpha: float, gamma: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    """Times as fast as the target alone: Leviathan et al. 2023, theorem 3.8.

    The theorem has ``verify_cost`` 1; with the cost measured, the denominator is
    gamma * c + v. At gamma 0 nothing is drafted and the answer is 1.
    """
    _check_costs(draft_cost, verify_cost)
    if gamma == 0:
        _check_chance(alpha)
        return 1.0
    return expected_tokens(alpha, gamma) / (gamma * draft_cost + verify_cost)


def best_gamma(
    alpha: float, draft_cost: float, verify_cost: float = 1.0, max_gamma: int = 64
) -> tuple[int, float]:
    """The gamma from 0 to ``max_gamma`` with the greatest speedup, and that speedup.

    Ties go to the smaller gamma. With verify_cost 1 it is above 0 exactly if
    alpha > draft_cost (Leviathan et al. 2023, corollary 3.9, which states one direction).
    Where `no_gamma_is_best`, only ``max_gamma`` limits the answer.
    """
    _check_gamma(max_gamma)
    made = [speedup(alpha, gamma, draft_cost, verify_cost) for gamma in range(max_gamma + 1)]
    least = max(made) / (1.0 + _TIE)
    best = next(gamma for gamma, value in enumerate(made) if value >= least)
    return best, made[best]


def no_gamma_is_best(alpha: float, draft_cost: float, verify_cost: float = 1.0) -> bool:
    """Whether a longer draft is always faster, without end (worked out here).

    So it is where drafting costs nothing, or nothing is ever rejected: `speedup` then rises
    towards `oracle_speedup`, 1 / ((1 - alpha) v) or 1 / c, and reaches it at no gamma.
    """
    limit = oracle_speedup(alpha, draft_cost, verify_cost)
    free = draft_cost == 0.0 and alpha > 0.0
    return limit > 1.0 and (free or (alpha == 1.0 and draft_cost < verify_cost))


def speedups(
    alphas: NDArray[np.float64],
    draft_costs: NDArray[np.float64],
    verify_cost: float = 1.0,
    max_gamma: int = 64,
) -> NDArray[np.float64]:  # [max_gamma + 1, *broadcast]
    """`speedup` at gamma 0, 1, ..., ``max_gamma``, at every pair of an alpha and a cost.

    Leviathan et al. 2023, theorem 3.8, with the verification paid. The first axis is gamma.
    """
    _check_chances(alphas)
    _check_gamma(max_gamma)
    _check_costs(float(draft_costs.min()), verify_cost)
    chances, costs = np.broadcast_arrays(alphas, draft_costs)
    made = np.ones((max_gamma + 1, *chances.shape))
    tokens = np.ones(chances.shape)
    for gamma in range(1, max_gamma + 1):
        tokens = 1.0 + chances * tokens
        made[gamma] = tokens / (gamma * costs + verify_cost)
    return made


def best_gammas(
    alphas: NDArray[np.float64],
    draft_costs: NDArray[np.float64],
    verify_cost: float = 1.0,
    max_gamma: int = 64,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """`best_gamma` at every pair of an alpha and a cost: the gammas, and their speedups.

    Leviathan et al. 2023, section 3.5, by trying all.
    """
    made = speedups(alphas, draft_costs, verify_cost, max_gamma)
    best = (made >= made.max(axis=0) / (1.0 + _TIE)).argmax(axis=0)
    return best, np.take_along_axis(made, best[None], axis=0)[0]


def least_reaching(rising: Callable[[float], float], goal: float) -> float | None:
    """The least number in [0, 1] at which a rising function reaches the goal, by bisection."""
    if rising(1.0) < goal:
        return None
    low, high = 0.0, 1.0
    if rising(low) >= goal:
        return low
    while (middle := (low + high) / 2) not in {low, high}:
        low, high = (low, middle) if rising(middle) >= goal else (middle, high)
    return high


def alpha_for_speedup(
    goal: float,
    draft_cost: float,
    verify_cost: float = 1.0,
    *,
    gamma: int | None = None,
    max_gamma: int = 64,
) -> float | None:
    """The least alpha with which some gamma from 1 to ``max_gamma`` reaches the speedup.

    Leviathan et al. 2023, theorem 3.8, solved for alpha by bisection. With ``gamma`` given,
    that gamma alone. None if even alpha 1 falls short.
    """
    gammas = range(1, max_gamma + 1) if gamma is None else (gamma,)

    def greatest(alpha: float) -> float:
        return max(speedup(alpha, each, draft_cost, verify_cost) for each in gammas)

    return least_reaching(greatest, goal)


def break_even_alpha(
    draft_cost: float, verify_cost: float = 1.0, *, gamma: int | None = None, max_gamma: int = 64
) -> float | None:
    """The alpha above which speculation pays: with verify_cost 1 it is c itself, at gamma 1.

    Leviathan et al. 2023, corollary 3.9; the line alpha = c of v2rockets/sd_optimization.
    """
    return alpha_for_speedup(1.0, draft_cost, verify_cost, gamma=gamma, max_gamma=max_gamma)


def oracle_speedup(alpha: float, draft_cost: float, verify_cost: float = 1.0) -> float:
    """If every round knew beforehand what will be accepted, and drafted only that.

    1 / (1 - alpha + c alpha) with verify_cost 1: the tokens are Leviathan et al. 2023,
    section 3.5 (1 / (1 - alpha) a round); the time of them, alpha / (1 - alpha) draft steps
    and a verification a round, is worked out here. Infinite at alpha 1 and c 0.
    """
    _check_chance(alpha)
    _check_costs(draft_cost, verify_cost)
    spent = (1.0 - alpha) * verify_cost + alpha * draft_cost
    return 1.0 / spent if spent > 0.0 else math.inf


# Refusals


def _check_chance(alpha: float) -> None:
    if not 0.0 <= alpha <= 1.0:
        raise TheoryError(f"A chance of acceptance is {alpha}.", remedy="Give one from 0 to 1.")


def _check_chances(alphas: Sequence[float] | NDArray[np.float64]) -> None:
    found = np.asarray(alphas, dtype=np.float64)
    if found.size:  # of an array that holds NaN both are NaN, which is refused
        _check_chance(float(found.min()))
        _check_chance(float(found.max()))


def _check_gamma(gamma: int) -> None:
    if not gamma >= 0:
        raise TheoryError(f"γ is {gamma}.", remedy="Give a whole number from 0.")


def _check_costs(draft_cost: float, verify_cost: float = 1.0) -> None:
    if not draft_cost >= 0.0:
        raise TheoryError(f"A draft step costs {draft_cost}.", remedy="Give 0 or more.")
    if not verify_cost > 0.0:
        raise TheoryError(f"A verification costs {verify_cost}.", remedy="Give more than 0.")
