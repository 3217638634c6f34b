"""Recursions against closed forms, break-even and goals against printed values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.errors import TheoryError
from specviz.theory.papers import (
    CHINCHILLA,
    CHINCHILLA_DRAFT_MS,
    CHINCHILLA_GAMMA,
    CHINCHILLA_TARGET_MS,
    LEVIATHAN,
)
from specviz.theory.speed import (
    accepted_from,
    alpha_for_speedup,
    best_gamma,
    best_gammas,
    break_even_alpha,
    expected_accepted,
    expected_tokens,
    generation_speed,
    least_reaching,
    no_gamma_is_best,
    operations_factor,
    oracle_speedup,
    round_time,
    speedup,
    speedups,
)

ALPHAS = st.floats(0.0, 1.0)
GAMMAS = st.integers(0, 40)

# Leviathan et al. 2023, table 1 (no drafting cost): alpha, gamma, operations.
OPERATIONS = [
    (0.6, 2, 1.53), (0.7, 3, 1.58), (0.8, 2, 1.23),
    (0.8, 5, 1.63), (0.9, 2, 1.11), (0.9, 10, 1.60),
]  # fmt: skip

# v2rockets/sd_optimization, N from 1 to 10: T_s / T_v, P, best N, speedup.
PLOTTED = [
    (0.1, 0.3, 1, 1.1818), (0.1, 0.5, 2, 1.4583), (0.1, 0.7, 4, 1.9808), (0.3, 0.3, 1, 1.0000),
    (0.3, 0.5, 1, 1.1538), (0.3, 0.7, 2, 1.3688), (0.5, 0.3, 1, 0.8667), (0.5, 0.7, 1, 1.1333),
    (0.7, 0.5, 1, 0.8824), (0.7, 0.7, 1, 1.0000),
]  # fmt: skip


@given(alpha=ALPHAS, gamma=GAMMAS)
def test_the_recursion_is_the_closed_form(alpha: float, gamma: int) -> None:
    left = accepted_from(alpha, gamma)
    assert len(left) == gamma + 1
    assert left[gamma] == 0.0
    for place in range(gamma + 1):
        assert left[place] == pytest.approx(expected_accepted(alpha, gamma - place), rel=1e-12)
    assert left[0] + 1 == pytest.approx(expected_tokens(alpha, gamma), rel=1e-12)


def test_expected_accepted_at_the_limits() -> None:
    assert expected_accepted(1.0, 7) == 7.0
    assert expected_accepted(0.0, 7) == 0.0
    assert expected_accepted(0.5, 0) == 0.0
    assert expected_accepted(1e-300, 3) == pytest.approx(1e-300)
    assert expected_accepted(1 - 1e-9, 7) == pytest.approx(7 - 28e-9, abs=1e-14)


@pytest.mark.parametrize(("alpha", "gamma", "printed"), OPERATIONS)
def test_operations_as_printed(alpha: float, gamma: int, printed: float) -> None:
    assert operations_factor(alpha, gamma, 0.0) == pytest.approx(printed, abs=0.0051)


@given(alpha=ALPHAS, gamma=GAMMAS, draft=st.floats(0.0, 1.0))
def test_speculation_never_saves_arithmetic(alpha: float, gamma: int, draft: float) -> None:
    closed = operations_factor(alpha, gamma, draft)
    assert closed >= 1.0 - 1e-12
    if alpha < 0.99:
        printed = (1 - alpha) * (gamma * draft + gamma + 1) / (1 - alpha ** (gamma + 1))
        assert closed == pytest.approx(printed, rel=1e-12)


@pytest.mark.parametrize(("ratio", "chance", "best", "speed"), PLOTTED)
def test_speeds_as_plotted(ratio: float, chance: float, best: int, speed: float) -> None:
    made = [generation_speed(chance, n, ratio, 1.0) for n in range(1, 11)]
    assert max(made) == pytest.approx(speed, abs=5.1e-5)
    assert made[best - 1] == pytest.approx(max(made), rel=1e-12)
    assert round_time(best, ratio, 1.0) == pytest.approx(best * ratio + 1.0)
    assert made[best - 1] == pytest.approx(speedup(chance, best, ratio), rel=1e-14)


def test_reported_rows_agree_with_the_formula() -> None:
    assert len(LEVIATHAN) == 12
    for row in LEVIATHAN:
        assert speedup(row.alpha, row.gamma, row.c) == pytest.approx(row.expected, abs=0.07)


def test_alpha_implied_by_chinchilla_results() -> None:
    cost = CHINCHILLA_DRAFT_MS / CHINCHILLA_TARGET_MS
    assert cost == pytest.approx(0.1277, abs=5e-5)
    implied = [alpha_for_speedup(row.speedup, cost, gamma=CHINCHILLA_GAMMA) for row in CHINCHILLA]
    assert implied == [
        pytest.approx(0.7236, abs=5e-5),
        pytest.approx(0.7475, abs=5e-5),
        pytest.approx(0.851, abs=5e-5),
    ]
    for row in CHINCHILLA:  # the printed times give the printed speedups, with one exception
        spread = 0.05 if row.task.startswith("XSum, nucleus") else 0.008
        assert CHINCHILLA_TARGET_MS / row.milliseconds == pytest.approx(row.speedup, abs=spread)


@pytest.mark.parametrize(
    ("cost", "twice", "thrice"),
    [(0.01, 0.534, 0.703), (0.05, 0.622, 0.791), (0.1, 0.705, 0.865), (0.2, 0.834, 0.958),
     (0.3, 0.925, 0.997)],
)  # fmt: skip
def test_alpha_for_two_and_three_times(cost: float, twice: float, thrice: float) -> None:
    assert alpha_for_speedup(2.0, cost, max_gamma=150) == pytest.approx(twice, abs=6e-4)
    assert alpha_for_speedup(3.0, cost, max_gamma=150) == pytest.approx(thrice, abs=6e-4)


def test_the_guides_own_demo() -> None:
    cost = 2.51 / 8.54
    assert break_even_alpha(cost, gamma=10) == pytest.approx(0.758, abs=5e-4)
    assert alpha_for_speedup(2.0, cost, gamma=10) == pytest.approx(0.9306, abs=5e-5)
    assert alpha_for_speedup(2.0, cost, max_gamma=100) == pytest.approx(0.920, abs=5e-4)
    at_six = [speedup(0.6, 5, c) for c in (0, 0.02, 0.05, 0.1, 0.2, 0.294)]
    assert [round(each, 3) for each in at_six] == [2.383, 2.167, 1.907, 1.589, 1.192, 0.965]


@given(cost=st.floats(0.0, 1.0))
@settings(max_examples=30)
def test_break_even_is_the_cost_itself(cost: float) -> None:
    """Leviathan et al. 2023, corollary 3.9, in both directions."""
    least = break_even_alpha(cost)
    assert least == pytest.approx(cost, abs=1e-12)


@given(alpha=ALPHAS, cost=st.floats(0.0, 1.0))
@settings(max_examples=60)
def test_some_gamma_pays_just_above_the_cost(alpha: float, cost: float) -> None:
    best, value = best_gamma(alpha, cost)
    if alpha > cost + 1e-6:
        assert best > 0
        assert value >= (1 + alpha) / (1 + cost) * (1 - 1e-12)
    elif alpha <= cost:
        assert best == 0


def test_unreachable_and_trivial_goals() -> None:
    assert alpha_for_speedup(3.0, 1.0) is None
    assert break_even_alpha(0.5, verify_cost=40.0) is None
    assert break_even_alpha(0.0, verify_cost=1.0) == 0.0
    paying = break_even_alpha(0.1, verify_cost=1.5, gamma=4)
    assert paying is not None
    assert speedup(paying, 4, 0.1, 1.5) >= 1.0 > speedup(paying - 1e-12, 4, 0.1, 1.5)
    assert least_reaching(lambda alpha: alpha, 0.25) == 0.25
    assert least_reaching(lambda alpha: alpha * 2 + 3, 2.0) == 0.0
    assert least_reaching(lambda alpha: alpha, 2.0) is None


def test_oracle_speedup_values() -> None:
    assert oracle_speedup(0.8, 0.05) == pytest.approx(1 / 0.24, rel=1e-14)
    assert oracle_speedup(1.0, 0.0) == math.inf
    assert oracle_speedup(0.0, 0.3) == 1.0
    assert oracle_speedup(0.5, 0.0, 2.0) == 1.0
    pairs = [(a, c) for a in np.linspace(0.3, 0.95, 14) for c in (0.01, 0.02, 0.05, 0.1, 0.2)]
    gain = max(oracle_speedup(a, c) / best_gamma(a, c)[1] for a, c in pairs)
    assert gain == pytest.approx(1.554, abs=5e-4)


@given(alpha=ALPHAS, cost=st.floats(0.001, 1.0), verify=st.floats(1.0, 3.0))
@settings(max_examples=60)
def test_no_fixed_gamma_beats_the_oracle(alpha: float, cost: float, verify: float) -> None:
    best = max(speedup(alpha, gamma, cost, verify) for gamma in range(1, 33))
    assert oracle_speedup(alpha, cost, verify) >= best * (1 - 1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("verify", [1.0, 1.5])
def test_free_drafts_have_no_best_length(alpha: float, verify: float) -> None:
    limit = oracle_speedup(alpha, 0.0, verify)
    assert limit == pytest.approx(1 / ((1 - alpha) * verify))
    assert no_gamma_is_best(alpha, 0.0, verify) == (limit > 1)
    made = [speedup(alpha, gamma, 0.0, verify) for gamma in range(1, 20)]
    assert made == sorted(made)
    assert speedup(alpha, 4000, 0.0, verify) == pytest.approx(limit)
    for most in (12, 64):  # both break ties the same way
        gammas, greatest = best_gammas(np.array([alpha]), np.array([0.0]), verify, most)
        assert (gammas[0], greatest[0]) == best_gamma(alpha, 0.0, verify, most)


def test_where_a_best_length_exists() -> None:
    assert no_gamma_is_best(1.0, 0.1)
    assert speedup(1.0, 100_000, 0.1) == pytest.approx(oracle_speedup(1.0, 0.1), rel=1e-3)
    assert no_gamma_is_best(1.0, 0.0)
    for alpha, cost, verify in ((0.5, 0.1, 1.0), (1.0, 0.5, 0.5), (0.0, 0.0, 1.0), (1.0, 1.0, 1.0)):
        assert not no_gamma_is_best(alpha, cost, verify)


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: speedup(1.2, 3, 0.1), "acceptance probability is 1.2"),
        (lambda: speedup(0.5, 0, -1.0), "step costs -1"),
        (lambda: speedup(0.5, -1, 0.1), "γ is -1"),
        (lambda: generation_speed(0.5, 3, 0.0, 0.0), "verification costs 0"),
        (lambda: operations_factor(0.5, 3, -5.0), "step costs -5"),
        (
            lambda: speedups(np.array([0.5, 2.0]), np.array([0.1, 0.1])),
            "acceptance probability is 2",
        ),
        (lambda: best_gamma(0.5, math.nan), "step costs nan"),
    ],
)
def test_errors_name_the_value_out_of_range(refused: Callable[[], object], message: str) -> None:
    with pytest.raises(TheoryError, match=message):
        refused()


@given(alpha=ALPHAS, cost=st.floats(0.0, 1.0), verify=st.floats(0.5, 3.0))
@settings(max_examples=40)
def test_vectorised_equals_scalar(alpha: float, cost: float, verify: float) -> None:
    alphas, costs = np.array([[alpha], [0.5]]), np.array([[cost, 0.1]])
    made = speedups(alphas, costs, verify, 12)
    gammas, greatest = best_gammas(alphas, costs, verify, 12)
    for row, chance in enumerate((alpha, 0.5)):
        for column, price in enumerate((cost, 0.1)):
            one = [speedup(chance, gamma, price, verify) for gamma in range(13)]
            assert made[:, row, column] == pytest.approx(one, rel=1e-13)
            best, value = best_gamma(chance, price, verify, 12)
            assert greatest[row, column] == pytest.approx(value, rel=1e-11)
            assert gammas[row, column] <= best or one[best] == pytest.approx(value, rel=1e-11)
