"""Tokens per round, and the speedup that results.

Costs are in target steps: ``draft_cost`` is c, one draft step; ``verify_cost`` is v, one pass over
gamma + 1 tokens. Values out of range raise TheoryError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from specviz.errors import TheoryError

_TIE = 1e-12  # rounding must not make drafting, or a longer draft, look faster


def expected_tokens(alpha: float, gamma: int) -> float:
    """Return the mean tokens emitted per round: Leviathan et al. 2023, eq. 1.

    One of these tokens is the recovered or bonus token. Every candidate is accepted with
    probability ``alpha``, independently. The mean is computed as 1 + alpha + ... + alpha**gamma,
    which equals (1 - alpha**(gamma + 1)) / (1 - alpha), but is also exact at and near alpha 1.
    """
    _check_chance(alpha)
    _check_gamma(gamma)
    total = 1.0
    for _ in range(gamma):
        total = 1.0 + alpha * total
    return total


def accepted_from(alpha: float, gamma: int) -> NDArray[np.float64]:
    """Return the mean number of further accepted candidates after k acceptances, k = 0 .. gamma.

    E_k = alpha (1 + E_(k+1)) and E_gamma = 0: the recursion of v2rockets/sd_optimization.
    """
    _check_chance(alpha)
    _check_gamma(gamma)
    left = np.zeros(gamma + 1)
    for place in reversed(range(gamma)):
        left[place] = alpha * (1.0 + left[place + 1])
    return left


def expected_accepted(alpha: float, gamma: int) -> float:
    """Return the mean number of accepted candidates per round.

    The mean is alpha (1 - alpha**gamma) / (1 - alpha), one less than the tokens per round. At alpha
    1 the mean is gamma.
    """
    _check_chance(alpha)
    _check_gamma(gamma)
    if alpha in {0.0, 1.0}:
        return alpha * gamma
    # expm1 keeps the digits that 1 - alpha**gamma would lose near 1.
    return alpha * -math.expm1(gamma * math.log(alpha)) / (1.0 - alpha)


def round_time(gamma: int, draft_time: float, verify_time: float) -> float:
    """Return the time of gamma draft steps and one verification (v2rockets/sd_optimization)."""
    _check_gamma(gamma)
    _check_costs(draft_time, verify_time)
    return gamma * draft_time + verify_time


def generation_speed(alpha: float, gamma: int, draft_time: float, verify_time: float) -> float:
    """Return tokens per unit of time (v2rockets/sd_optimization)."""
    return expected_tokens(alpha, gamma) / round_time(gamma, draft_time, verify_time)


def operations_factor(alpha: float, gamma: int, draft_operations: float) -> float:
    """Return the arithmetic per token, in target steps: Leviathan et al. 2023, theorem 3.11.

    ``draft_operations`` is the arithmetic of a draft step in target steps. Speculation saves time
    but costs arithmetic: the factor is at least 1.
    """
    _check_costs(draft_operations)
    return (gamma * draft_operations + gamma + 1) / expected_tokens(alpha, gamma)


def speedup(alpha: float, gamma: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    """Return the speedup over the target alone: Leviathan et al. 2023, theorem 3.8.

    The theorem has ``verify_cost`` 1; with a measured cost the denominator is gamma * c + v. At
    gamma 0 nothing is drafted and the speedup is 1.
    """
    _check_costs(draft_cost, verify_cost)
    if gamma == 0:
        _check_chance(alpha)
        return 1.0
    return expected_tokens(alpha, gamma) / (gamma * draft_cost + verify_cost)


def best_gamma(
    alpha: float, draft_cost: float, verify_cost: float = 1.0, max_gamma: int = 64
) -> tuple[int, float]:
    """Return the gamma from 0 to ``max_gamma`` with the greatest speedup, and that speedup.

    Ties go to the smaller gamma. With verify_cost 1, the best gamma is above 0 exactly if
    alpha > draft_cost (Leviathan et al. 2023, corollary 3.9, proves the "if"). If
    `no_gamma_is_best` is true, the result depends on ``max_gamma``.
    """
    _check_gamma(max_gamma)
    made = [speedup(alpha, gamma, draft_cost, verify_cost) for gamma in range(max_gamma + 1)]
    least = max(made) / (1.0 + _TIE)
    best = next(gamma for gamma, value in enumerate(made) if value >= least)
    return best, made[best]


def no_gamma_is_best(alpha: float, draft_cost: float, verify_cost: float = 1.0) -> bool:
    """Return whether every gamma is slower than some larger gamma (derived here).

    This happens only in two cases: drafting costs nothing, or no candidate is ever rejected. In
    both, `speedup` approaches `oracle_speedup` as gamma grows: 1 / ((1 - alpha) v) in the first
    case, 1 / c in the second. No gamma reaches this limit. The result is True only if the limit is
    above 1.
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
    """Return `speedup` at gamma 0, 1, ..., ``max_gamma``, for every pair of an alpha and a cost.

    Leviathan et al. 2023, theorem 3.8, with ``verify_cost``. The first axis is gamma.
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
    """Return `best_gamma` for every pair of an alpha and a cost: the gammas and their speedups.

    Every gamma is tried, as in section 3.5 of Leviathan et al. 2023.
    """
    made = speedups(alphas, draft_costs, verify_cost, max_gamma)
    best = (made >= made.max(axis=0) / (1.0 + _TIE)).argmax(axis=0)
    return best, np.take_along_axis(made, best[None], axis=0)[0]


def least_reaching(rising: Callable[[float], float], goal: float) -> float | None:
    """Return the least number in [0, 1] at which an increasing function reaches the goal.

    The number is found by bisection. It is None if the function is below the goal even at 1.
    """
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
    """Return the least alpha at which a gamma from 1 to ``max_gamma`` reaches the speedup ``goal``.

    Leviathan et al. 2023, theorem 3.8, is solved for alpha by bisection. If ``gamma`` is given,
    only this gamma is tried. The result is None if no gamma reaches the goal even at alpha 1.
    """
    gammas = range(1, max_gamma + 1) if gamma is None else (gamma,)

    def greatest(alpha: float) -> float:
        return max(speedup(alpha, each, draft_cost, verify_cost) for each in gammas)

    return least_reaching(greatest, goal)


def break_even_alpha(
    draft_cost: float, verify_cost: float = 1.0, *, gamma: int | None = None, max_gamma: int = 64
) -> float | None:
    """Return the alpha above which some gamma is faster than the target alone.

    With verify_cost 1 this alpha equals c, and above it gamma 1 is faster: Leviathan et al. 2023,
    corollary 3.9, and the line alpha = c of v2rockets/sd_optimization. The result is None if no
    gamma is faster even at alpha 1.
    """
    return alpha_for_speedup(1.0, draft_cost, verify_cost, gamma=gamma, max_gamma=max_gamma)


def oracle_speedup(alpha: float, draft_cost: float, verify_cost: float = 1.0) -> float:
    """Return the speedup if every round drafted exactly the candidates that will be accepted.

    With verify_cost 1 the speedup is 1 / (1 - alpha + c alpha), infinite at alpha 1 and c 0. A
    round emits 1 / (1 - alpha) tokens (Leviathan et al. 2023, section 3.5) and takes alpha / (1 -
    alpha) draft steps and one verification (derived here).
    """
    _check_chance(alpha)
    _check_costs(draft_cost, verify_cost)
    spent = (1.0 - alpha) * verify_cost + alpha * draft_cost
    return 1.0 / spent if spent > 0.0 else math.inf


# Validation


def _check_chance(alpha: float) -> None:
    if not 0.0 <= alpha <= 1.0:
        raise TheoryError(
            f"An acceptance probability is {alpha}.", remedy="Give a value from 0 to 1."
        )


def _check_chances(alphas: Sequence[float] | NDArray[np.float64]) -> None:
    found = np.asarray(alphas, dtype=np.float64)
    if found.size:  # a NaN makes both extremes NaN, which the check rejects
        _check_chance(float(found.min()))
        _check_chance(float(found.max()))


def _check_gamma(gamma: int) -> None:
    if not gamma >= 0:
        raise TheoryError(f"γ is {gamma}.", remedy="Give a whole number of at least 0.")


def _check_costs(draft_cost: float, verify_cost: float = 1.0) -> None:
    if not draft_cost >= 0.0:
        raise TheoryError(f"A draft step costs {draft_cost}.", remedy="Give 0 or more.")
    if not verify_cost > 0.0:
        raise TheoryError(f"A verification costs {verify_cost}.", remedy="Give more than 0.")
