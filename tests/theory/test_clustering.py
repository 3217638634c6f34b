"""Clustered acceptance: reference values, limits, and a simulated text."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.errors import ConfigError
from specviz.theory.clustering import (
    StickyText,
    tokens_if_rounds_differ,
    tokens_per_round,
    unmixed_tokens,
)
from specviz.theory.speed import expected_tokens

UNIT = st.floats(0.0, 1.0)
TABLE = {
    0.0: (3.2881, 3.9905),
    0.5: (3.1550, 3.9664),
    0.8: (3.0527, 3.8954),
    0.95: (3.0010, 3.8076),
}


def sticky(stickiness: float) -> StickyText:
    return StickyText(easy=0.95, hard=0.45, easy_share=0.6, stickiness=stickiness)


@pytest.mark.parametrize("stickiness", TABLE)
def test_as_tabulated(stickiness: float) -> None:
    text = sticky(stickiness)
    assert text.mean_alpha == pytest.approx(0.75, abs=1e-15)
    found = tokens_per_round(text, 5), tokens_per_round(text, 20)
    assert found == pytest.approx(TABLE[stickiness], abs=5e-5)
    assert tokens_per_round(text, math.inf) == pytest.approx(4.0, abs=1e-12)
    assert tokens_per_round(text, 3000) == pytest.approx(4.0, abs=1e-9)


@given(easy=UNIT, hard=UNIT, share=UNIT, gamma=st.integers(0, 20))
@settings(max_examples=60)
def test_independent_states_give_the_formula(
    easy: float, hard: float, share: float, gamma: int
) -> None:
    text = StickyText(easy=easy, hard=hard, easy_share=share, stickiness=0.0)
    assert tokens_per_round(text, gamma) == pytest.approx(
        expected_tokens(min(1.0, text.mean_alpha), gamma), rel=1e-9
    )


@given(easy=UNIT, hard=UNIT, share=UNIT, sticks=UNIT, gamma=st.integers(0, 20))
@settings(max_examples=80)
def test_the_formula_is_an_upper_bound(
    easy: float, hard: float, share: float, sticks: float, gamma: int
) -> None:
    text = StickyText(easy=easy, hard=hard, easy_share=share, stickiness=sticks)
    found = tokens_per_round(text, gamma)
    formula = expected_tokens(min(1.0, text.mean_alpha), gamma)
    assert 1.0 - 1e-12 <= found <= formula * (1 + 1e-9)
    assert tokens_if_rounds_differ(text, gamma) >= formula * (1 - 1e-9)


def test_homogeneous_rounds_exceed_the_formula() -> None:
    assert tokens_if_rounds_differ(sticky(0.5), 5) == pytest.approx(3.9001, abs=5e-5)


@pytest.mark.parametrize("gamma", [1, 5, 12])
def test_half_certain_half_impossible(gamma: int) -> None:
    text = StickyText(easy=1.0, hard=0.0, easy_share=0.5, stickiness=1.0)
    assert tokens_per_round(text, gamma) == pytest.approx(2 * (gamma + 1) / (gamma + 2))
    mixed = StickyText(easy=1.0, hard=0.0, easy_share=0.5, stickiness=0.0)
    assert tokens_per_round(mixed, gamma) == pytest.approx(2 * (1 - 2.0 ** (-gamma - 1)))


def test_the_unmixed_limit_is_continuous() -> None:
    assert tokens_per_round(sticky(1 - 1e-9), 5) == pytest.approx(
        unmixed_tokens(sticky(1.0), 5), rel=1e-7
    )


def test_simulated_text() -> None:
    text, rng = sticky(0.8), np.random.default_rng(5)
    count, state = 200_000, 0
    moves, coins, changes = rng.random(count), rng.random(count), text.changes
    accepted = np.empty(count, dtype=bool)
    for place in range(count):
        accepted[place] = coins[place] < (text.easy if state == 0 else text.hard)
        state = 0 if moves[place] < changes[state, 0] else 1
    place = rounds = 0
    while place < count - 6:
        run = 0
        while run < 5 and accepted[place + run]:
            run += 1
        place += run + 1
        rounds += 1
    assert place / rounds == pytest.approx(tokens_per_round(text, 5), abs=0.03)
    assert place / rounds < expected_tokens(0.75, 5) - 0.15  # the formula's value


def test_certain_acceptance_and_gamma_0() -> None:
    sure = StickyText(easy=1.0, hard=1.0, easy_share=0.5, stickiness=0.3)
    assert tokens_per_round(sure, math.inf) == math.inf
    assert tokens_per_round(sure, 4) == pytest.approx(5.0)
    assert tokens_per_round(sticky(0.5), 0) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["easy", "hard", "easy_share", "stickiness"])
@pytest.mark.parametrize("bad", [-0.1, 1.2, math.nan])
def test_rejects_settings_out_of_range(name: str, bad: float) -> None:
    good = {"easy": 0.9, "hard": 0.4, "easy_share": 0.5, "stickiness": 0.5}
    with pytest.raises(ConfigError, match=name):
        StickyText(**{**good, name: bad})
