"""The distribution of a text's rounds against enumeration and closed forms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.theory.runtime import accepted_distribution, rounds_distribution, rounds_distributions
from specviz.theory.speed import expected_accepted, expected_tokens
from tests.theory.counting import expected_rounds

# alpha 0.7, 128 tokens: gamma, mean, spread, p90, p99, mean and p99 speedup at c 0.1.
TABLE = [
    (2, 58.7978, 3.0437, 63, 66, 1.814, 1.616),
    (4, 46.6349, 3.8265, 52, 56, 1.961, 1.633),
    (8, 40.6259, 4.6333, 47, 52, 1.750, 1.368),
]


@pytest.mark.parametrize(
    ("alpha", "gamma", "mean", "variance"),
    [(0.8, 4, 2.3616, 2.570045), (0.8, 8, 3.328911, 8.141133), (0.6, 4, 1.3056, 1.962609)],
)
def test_moments_of_a_round(alpha: float, gamma: int, mean: float, variance: float) -> None:
    distribution, counts = accepted_distribution(alpha, gamma), np.arange(gamma + 1)
    assert distribution @ counts == pytest.approx(mean, abs=5e-7)
    assert distribution @ counts == pytest.approx(expected_accepted(alpha, gamma), rel=1e-13)
    assert distribution @ counts**2 - (distribution @ counts) ** 2 == pytest.approx(
        variance, abs=5e-7
    )


@given(alpha=st.floats(0.0, 1.0), gamma=st.integers(0, 30))
def test_accepted_distribution_sums_to_1(alpha: float, gamma: int) -> None:
    assert accepted_distribution(alpha, gamma).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("gamma", "mean", "spread", "p90", "p99", "fast", "slow"), TABLE)
def test_rounds_as_tabulated(
    gamma: int, mean: float, spread: float, p90: int, p99: int, fast: float, slow: float
) -> None:
    distribution = rounds_distribution(0.7, gamma, 128)
    assert distribution.mean == pytest.approx(mean, abs=5e-5)
    assert distribution.spread == pytest.approx(spread, abs=5e-5)
    assert (distribution.percentile(0.9), distribution.percentile(0.99)) == (p90, p99)
    assert distribution.speedup(distribution.mean, 0.1) == pytest.approx(fast, abs=5e-4)
    assert distribution.speedup(p99, 0.1) == pytest.approx(slow, abs=5e-4)


@pytest.mark.parametrize("gamma", [2, 4, 8])
def test_a_long_text_has_the_moments_of_renewal_theory(gamma: int) -> None:
    tokens = np.arange(1, gamma + 2)
    distribution, chances = rounds_distribution(0.7, gamma, 1500), accepted_distribution(0.7, gamma)
    tau = expected_tokens(0.7, gamma)
    extra = chances @ (tokens * (tokens - 1)) / (2 * tau)
    assert distribution.mean == pytest.approx((1500 + extra) / tau, rel=1e-9)
    variance = chances @ tokens**2 - tau**2
    assert distribution.spread == pytest.approx(math.sqrt(1500 * variance / tau**3), rel=5e-3)


def test_seven_tokens_by_enumeration() -> None:
    chances, distribution = accepted_distribution(0.6, 2), rounds_distribution(0.6, 2, 7)
    by_hand = np.zeros(8)
    for yields in itertools.product(range(3), repeat=7):
        rounds = int(np.argmax(np.cumsum(np.array(yields) + 1) >= 7)) + 1
        by_hand[rounds] += math.prod(chances[each] for each in yields)
    assert distribution.chances == pytest.approx(by_hand[: len(distribution.chances)], abs=1e-13)
    assert by_hand[len(distribution.chances) :].sum() < 1e-13


@given(alpha=st.floats(0.0, 1.0), gamma=st.integers(1, 12), length=st.integers(1, 60))
@settings(max_examples=40)
def test_mean_equals_the_recursion_at_equal_odds(alpha: float, gamma: int, length: int) -> None:
    distribution = rounds_distribution(alpha, gamma, length)
    assert distribution.chances.sum() == pytest.approx(1.0, abs=1e-12)
    assert distribution.mean == pytest.approx(expected_rounds([alpha] * length, gamma), rel=1e-10)
    assert (
        distribution.percentile(0.5)
        <= distribution.percentile(0.9)
        <= distribution.percentile(0.99)
        <= length
    )


def test_extreme_alphas() -> None:
    sure, never = rounds_distribution(1.0, 3, 12), rounds_distribution(0.0, 3, 12)
    assert (sure.mean, sure.spread, sure.percentile(0.99)) == (3.0, 0.0, 3)
    assert (never.mean, never.spread, never.percentile(0.01)) == (12.0, 0.0, 12)
    assert rounds_distribution(0.4, 5, 1).mean == 1.0
    assert sure.speedup(3.0, 0.0) == 4.0


def test_the_tail_prefers_a_smaller_gamma_than_the_mean() -> None:
    distributions = rounds_distributions(0.85, 16, 128)
    assert [distribution.gamma for distribution in distributions] == list(range(1, 17))
    on_average = max(
        distributions, key=lambda distribution: distribution.speedup(distribution.mean, 0.1)
    )
    in_the_tail = max(
        distributions,
        key=lambda distribution: distribution.speedup(distribution.percentile(0.99), 0.1),
    )
    assert in_the_tail.gamma < on_average.gamma
