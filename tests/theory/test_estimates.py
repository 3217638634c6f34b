"""Estimators of alpha: their limits, and the width of their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.errors import ConfigError
from specviz.theory.estimates import (
    alpha_from_drafted,
    alpha_from_tested,
    drafted_share,
    hoeffding_half_width,
    wilson_interval,
)
from specviz.theory.speed import expected_tokens


def test_three_of_five_accepted_is_not_alpha_0_6() -> None:
    assert alpha_from_drafted(3 / 5, 5) == pytest.approx(0.8343, abs=5e-5)
    assert expected_tokens(0.6, 5) == pytest.approx(2.383, abs=5e-4)
    assert expected_tokens(alpha_from_drafted(3 / 5, 5), 5) == pytest.approx(4.0, abs=1e-12)


def test_limit_of_accepted_over_drafted() -> None:
    assert drafted_share(0.8, 5) == pytest.approx(0.5379, abs=5e-5)
    assert drafted_share(0.8, 1) == pytest.approx(0.8)
    assert (drafted_share(1.0, 9), drafted_share(0.0, 9)) == (1.0, 0.0)


@given(alpha=st.floats(0.01, 1.0), gamma=st.integers(1, 20))
@settings(max_examples=50)
def test_alpha_from_drafted_inverts_drafted_share(alpha: float, gamma: int) -> None:
    assert alpha_from_drafted(drafted_share(alpha, gamma), gamma) == pytest.approx(alpha, abs=1e-9)


@given(alpha=st.floats(0.0, 1.0), gamma=st.integers(2, 20))
@settings(max_examples=50)
def test_the_share_of_drafted_is_never_above_alpha(alpha: float, gamma: int) -> None:
    assert drafted_share(alpha, gamma) <= alpha + 1e-12


def test_tested_candidates_estimate_alpha() -> None:
    rng = np.random.default_rng(6)
    accepted = np.minimum(rng.geometric(0.2, 40_000) - 1, 5)
    tested = int(accepted.sum() + (accepted < 5).sum())
    found = alpha_from_tested(int(accepted.sum()), tested)
    assert abs(found - 0.8) < 4 * math.sqrt(0.16 / tested)
    assert abs(accepted.mean() / 5 - drafted_share(0.8, 5)) < 0.01
    assert accepted.mean() / 5 < 0.56


def test_intervals_as_tabulated() -> None:
    assert wilson_interval(160, 200) == pytest.approx((0.7391, 0.8495), abs=5e-5)
    widths = [hoeffding_half_width(count) for count in (200, 1000, 5000)]
    assert widths == pytest.approx([0.096, 0.0429, 0.0192], abs=5e-5)


@given(tested=st.integers(1, 5000), share=st.floats(0.0, 1.0))
@settings(max_examples=50)
def test_intervals_contain_the_share(tested: int, share: float) -> None:
    accepted = round(share * tested)
    low, high = wilson_interval(accepted, tested)
    assert 0.0 <= low <= accepted / tested + 1e-12
    assert accepted / tested - 1e-12 <= high <= 1.0


@pytest.mark.parametrize(("accepted", "tested"), [(0, 0), (3, 2), (-1, 4)])
def test_rejects_impossible_counts(accepted: int, tested: int) -> None:
    with pytest.raises(ConfigError):
        alpha_from_tested(accepted, tested)
    with pytest.raises(ConfigError):
        wilson_interval(accepted, tested)


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_rejects_an_impossible_share(share: float) -> None:
    with pytest.raises(ConfigError, match="between 0 and 1"):
        alpha_from_drafted(share, 5)
