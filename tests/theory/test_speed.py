"""Closed forms against the papers' printed tables, recursions against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from specviz.errors import TheoryError
from specviz.theory.speed import (
    best_gamma,
    expected_tokens,
    speedup,
)
from tests.theory.counting import expected_rounds

# Leviathan et al. 2023, table 1 (no drafting cost): alpha, gamma, speed.
TABLE_1 = [
    (0.6, 2, 1.96), (0.7, 3, 2.53), (0.8, 2, 2.44),
    (0.8, 5, 3.69), (0.9, 2, 2.71), (0.9, 10, 6.86),
]  # fmt: skip

# Tables 2 and 4 of the same: gamma, alpha, c, printed speed, the formula to more digits.
TABLE_4 = [
    (7, 0.75, 0.02, 3.2, 3.157), (7, 0.80, 0.04, 3.3, 3.251), (7, 0.82, 0.11, 2.5, 2.497),
    (7, 0.62, 0.02, 2.3, 2.258), (5, 0.68, 0.04, 2.4, 2.347), (3, 0.71, 0.11, 2.0, 1.934),
    (5, 0.65, 0.02, 2.4, 2.402), (5, 0.73, 0.04, 2.6, 2.619), (3, 0.74, 0.11, 2.0, 2.025),
    (5, 0.53, 0.02, 1.9, 1.891), (3, 0.55, 0.04, 1.8, 1.803), (3, 0.56, 0.11, 1.6, 1.541),
]  # fmt: skip

COSTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
BEST = {
    0.3: "3/1.376 3/1.337 2/1.264 1/1.182 1/1.083 0/1 0/1",
    0.4: "4/1.586 3/1.532 2/1.418 2/1.300 1/1.167 1/1.077 0/1",
    0.5: "5/1.875 4/1.794 3/1.630 2/1.458 1/1.250 1/1.154 0/1",
    0.6: "7/2.297 6/2.170 4/1.921 3/1.674 2/1.400 1/1.231 1/1.067",
    0.7: "9/2.972 8/2.758 6/2.353 4/1.981 3/1.583 2/1.369 1/1.133",
    0.8: "14/4.232 11/3.817 8/3.092 6/2.470 4/1.868 3/1.554 2/1.220",
    0.9: "24/7.486 19/6.365 13/4.674 10/3.431 7/2.373 5/1.874 3/1.376",
    0.95: "40/12.542 31/9.954 21/6.600 15/4.479 10/2.875 8/2.175 5/1.514",
}


@pytest.mark.parametrize(("alpha", "gamma", "speed"), TABLE_1)
def test_tokens_per_round_as_printed(alpha: float, gamma: int, speed: float) -> None:
    assert expected_tokens(alpha, gamma) == pytest.approx(speed, abs=0.005)
    assert speedup(alpha, gamma, 0.0) == expected_tokens(alpha, gamma)


@pytest.mark.parametrize(("gamma", "alpha", "cost", "printed", "formula"), TABLE_4)
def test_speedup_as_printed(
    gamma: int, alpha: float, cost: float, printed: float, formula: float
) -> None:
    assert speedup(alpha, gamma, cost) == pytest.approx(formula, abs=0.0005)
    assert speedup(alpha, gamma, cost) == pytest.approx(printed, abs=0.07)


@pytest.mark.parametrize("alpha", BEST)
def test_best_gamma_as_tabulated(alpha: float) -> None:
    for cost, entry in zip(COSTS, BEST[alpha].split(), strict=True):
        gamma, speed = entry.split("/")
        best, value = best_gamma(alpha, cost)
        assert (best, round(value, 3)) == (int(gamma), float(speed)), (alpha, cost)


def test_expected_tokens_at_and_between_the_limits() -> None:
    assert expected_tokens(0.0, 7) == 1.0
    assert expected_tokens(1.0, 7) == 8.0
    assert expected_tokens(0.3, 0) == 1.0
    for alpha in (0.1, 0.5, 0.9):
        assert expected_tokens(alpha, 6) == pytest.approx((1 - alpha**7) / (1 - alpha), rel=1e-14)
    # Near 1 the quotient would lose half its digits: the sum is 8 - 28 d to first order.
    assert expected_tokens(1 - 1e-9, 7) == pytest.approx(8 - 28e-9, abs=1e-14)


def test_verification_cost_lowers_the_speedup() -> None:
    assert speedup(0.7, 2, 0.1, 1.5) == pytest.approx(2.19 / 1.7, rel=1e-14)
    assert speedup(0.7, 0, 0.1, 1.5) == 1.0
    assert best_gamma(0.7, 0.1, verify_cost=3.5) == (0, 1.0)


def test_best_gamma_ties_and_bounds() -> None:
    assert best_gamma(0.3, 0.3) == (0, 1.0)  # one candidate breaks even exactly
    assert best_gamma(0.0, 0.0) == (0, 1.0)
    assert best_gamma(1.0, 0.1, 0.1) == (1, 10.0)  # every gamma gives 10, up to rounding
    assert best_gamma(1.0, 0.0) == (64, 65.0)
    assert best_gamma(0.95, 0.01, max_gamma=5)[0] == 5
    assert best_gamma(0.95, 0.01, max_gamma=0) == (0, 1.0)


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_rejects_alphas_out_of_range(bad: float) -> None:
    with pytest.raises(TheoryError):
        expected_tokens(bad, 3)


def test_rounds_along_a_text_by_hand() -> None:
    assert expected_rounds([], 4) == 0.0
    assert expected_rounds([0.3], 4) == 1.0
    # Two tokens, gamma 1: one round if the first is accepted (the second is the bonus).
    assert expected_rounds([0.25, 0.9], 1) == pytest.approx(1.75)
    # Three tokens, gamma 2: both accepted, 1 round; otherwise the rest takes one or two rounds.
    # First rejected: 1 + rounds of two tokens at gamma 2 = 1 + (1 + 0.4 * 1); 0.6 accepted.
    # First accepted, second rejected: 1 + 1.
    by_hand = 0.5 * 0.6 * 1 + 0.5 * 0.4 * 2 + 0.5 * (1 + 0.6 * 1 + 0.4 * 2)
    assert expected_rounds([0.5, 0.6, 0.7], 2) == pytest.approx(by_hand)


def test_rounds_at_extreme_odds() -> None:
    assert expected_rounds([1.0] * 12, 3) == 3.0  # twelve tokens, four per round
    assert expected_rounds([0.0] * 12, 3) == 12.0
    assert expected_rounds([0.7] * 12, 0) == 12.0


def _rounds_by_enumeration(odds: list[float], gamma: int) -> float:
    """Enumerate every pattern of verdicts, one per token."""
    total = 0.0
    for coins in itertools.product((True, False), repeat=len(odds)):
        chance = math.prod(o if coin else 1 - o for o, coin in zip(odds, coins, strict=True))
        place = rounds = 0
        while place < len(odds):
            run = 0
            while run < gamma and place + run < len(odds) and coins[place + run]:
                run += 1
            place += run + 1
            rounds += 1
        total += chance * rounds
    return total


@pytest.mark.parametrize("gamma", [0, 1, 2, 3, 5, 9])
def test_rounds_equal_enumeration(gamma: int) -> None:
    odds = np.random.default_rng(3).random(8).tolist()
    assert expected_rounds(odds, gamma) == pytest.approx(
        _rounds_by_enumeration(odds, gamma), abs=1e-12
    )


def test_mean_over_target_texts_is_exact_and_overlaps_are_not() -> None:
    rng = np.random.default_rng(0)
    draft, target = rng.dirichlet([0.5] * 3, 3), rng.dirichlet([0.5] * 3, 3)
    overlap = np.minimum(draft, target).sum(axis=1)
    exact = biased = 0.0
    for text in itertools.product(range(3), repeat=7):
        steps = list(zip((0, *text), text, strict=False))
        chance = math.prod(target[step] for step in steps)
        exact += chance * expected_rounds([min(1, draft[s] / target[s]) for s in steps], 3)
        biased += chance * expected_rounds([overlap[last] for last, _ in steps], 3)
    assert exact == pytest.approx(3.0003999006, abs=1e-10)
    assert biased == pytest.approx(3.0206029308, abs=1e-10)
