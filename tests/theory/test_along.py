"""Rounds along a known text: by hand, by enumeration, and at the end of the text."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from specviz.errors import TheoryError
from specviz.theory.along import (
    Walk,
    accepted_along,
    rounds_along,
    starts_along,
    variance_along,
    walks_along,
)
from specviz.theory.speed import expected_tokens
from tests.theory.counting import expected_rounds


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_rejects_odds_outside_0_to_1(bad: float) -> None:
    with pytest.raises(TheoryError):
        rounds_along([0.5, bad], 3)


@pytest.mark.parametrize("bad", [(), (3, -1)])
def test_rejects_missing_and_negative_gammas(bad: tuple[int, ...]) -> None:
    with pytest.raises(TheoryError):
        walks_along([0.5], bad)


# Whole rounds only


def close_to(walk: Walk, rounds: float, tokens: float, bonuses: float) -> bool:
    return (walk.rounds, walk.tokens, walk.bonuses) == pytest.approx((rounds, tokens, bonuses))


def test_whole_rounds_by_hand() -> None:
    # Two tokens, gamma 1: one round, and a bonus if the first is accepted.
    assert close_to(rounds_along([0.25, 0.9], 1), 1.0, 1.25, 0.25)
    # Three tokens, gamma 1. The first accepted (1/2): a round of two, and the third token is
    # no whole round. Otherwise a round of one, then one of two (3/4) or of one (1/4).
    assert close_to(rounds_along([0.5, 0.75, 0.1], 1), 1.5, 2.375, 0.875)


def test_a_short_text_has_no_whole_round() -> None:
    nothing = Walk(rounds=0.0, tokens=0.0, bonuses=0.0)
    assert rounds_along([], 3) == nothing
    assert rounds_along([0.9] * 3, 3) == nothing
    assert rounds_along([0.9] * 4, 3).rounds == 1.0


def test_whole_rounds_at_extreme_odds() -> None:
    assert rounds_along([1.0] * 12, 3) == Walk(rounds=3.0, tokens=12.0, bonuses=3.0)
    # None accepted: one round per token, except the last three, which have too few tokens left.
    assert rounds_along([0.0] * 12, 3) == Walk(rounds=9.0, tokens=9.0, bonuses=0.0)
    assert rounds_along([0.7] * 12, 0) == Walk(rounds=12.0, tokens=12.0, bonuses=12.0)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("gamma", [0, 1, 4, 9])
def test_equal_odds_give_the_closed_form(alpha: float, gamma: int) -> None:
    for length in (gamma + 1, gamma + 2, 60):
        walk = rounds_along([alpha] * length, gamma)
        assert walk.tokens / walk.rounds == pytest.approx(expected_tokens(alpha, gamma), rel=1e-12)
        assert walk.bonuses / walk.rounds == pytest.approx(alpha**gamma, rel=1e-12)


def _walk_by_enumeration(odds: list[float], gamma: int) -> Walk:
    """Enumerate every pattern of verdicts, one per token."""
    rounds = tokens = bonuses = 0.0
    for coins in itertools.product((True, False), repeat=len(odds)):
        chance = math.prod(o if coin else 1 - o for o, coin in zip(odds, coins, strict=True))
        place = 0
        while place + gamma < len(odds):
            run = next((i for i in range(gamma) if not coins[place + i]), gamma)
            rounds += chance
            tokens += chance * (run + 1)
            bonuses += chance * (run == gamma)
            place += run + 1
    return Walk(rounds=rounds, tokens=tokens, bonuses=bonuses)


@pytest.mark.parametrize("gamma", [0, 1, 2, 3, 5, 7, 8])
def test_whole_rounds_equal_enumeration(gamma: int) -> None:
    odds = np.random.default_rng(4).random(8).tolist()
    by_hand = _walk_by_enumeration(odds, gamma)
    assert close_to(rounds_along(odds, gamma), by_hand.rounds, by_hand.tokens, by_hand.bonuses)


@given(
    odds=st.lists(st.floats(0.0, 1.0), max_size=60),
    gamma=st.integers(0, 12),
)
@example(odds=[0.5] * 5000, gamma=5)
@example(odds=np.random.default_rng(5).random(5000).tolist(), gamma=8)
def test_whole_rounds_stay_in_bounds(odds: list[float], gamma: int) -> None:
    walk, slack = rounds_along(odds, gamma), 1e-9 * (1 + len(odds))
    assert walk.rounds - slack <= walk.tokens <= (gamma + 1) * walk.rounds + slack
    assert -slack <= walk.bonuses <= walk.rounds + slack
    # Only rounds that begin in the last gamma tokens are left out.
    short = min(gamma, len(odds))
    assert -slack <= expected_rounds(odds, gamma) - walk.rounds <= short + slack
    assert len(odds) - short - slack <= walk.tokens <= len(odds) + slack


def test_both_forms_agree_on_a_long_text() -> None:
    odds = np.random.default_rng(6).beta(3, 1, 20_000)
    walk = rounds_along(odds, 5)
    assert walk.tokens / walk.rounds == pytest.approx(20_000 / expected_rounds(odds, 5), rel=1e-3)


# Texts that end by themselves, and all their rounds


def _every_walk(odds: list[float], gamma: int) -> list[tuple[float, list[tuple[int, bool]]]]:
    """Return each pattern's probability and its rounds: where each begins, whether it is cut."""
    walks: list[tuple[float, list[tuple[int, bool]]]] = []
    for coins in itertools.product((True, False), repeat=len(odds)):
        chance = math.prod(o if coin else 1 - o for o, coin in zip(odds, coins, strict=True))
        place, rounds = 0, list[tuple[int, bool]]()
        while place < len(odds):
            left = coins[place : place + gamma]
            run = next((i for i, coin in enumerate(left) if not coin), len(left))
            rounds.append((place, run == len(odds) - place))
            place += run + 1
        walks.append((chance, rounds))
    return walks


@pytest.mark.parametrize("gamma", [0, 1, 2, 3, 5, 7, 8, 11])
def test_texts_that_end_by_themselves_equal_enumeration(gamma: int) -> None:
    odds = np.random.default_rng(5).random(8).tolist()
    rounds = tokens = 0.0
    for chance, walk in _every_walk(odds, gamma):
        places = [place for place, _ in walk] + [len(odds)]
        whole = [i for i, (_, cut) in enumerate(walk) if not cut]
        rounds += chance * len(whole)
        tokens += chance * sum(places[i + 1] - places[i] for i in whole)
    found = rounds_along(odds, gamma, ends=True)
    assert (found.rounds, found.tokens) == pytest.approx((rounds, tokens), rel=1e-12)


def test_several_gammas_equal_one_at_a_time() -> None:
    odds = np.random.default_rng(7).beta(3, 1, 90)
    gammas = (5, 1, 16, 0)
    together = walks_along(odds, gammas, ends=True)
    for gamma, walk in zip(gammas, together, strict=True):
        alone = rounds_along(odds, gamma, ends=True)
        assert close_to(walk, alone.rounds, alone.tokens, alone.bonuses)


# Where rounds begin, and how many candidates they accept


@pytest.mark.parametrize("gamma", [0, 1, 2, 3, 5, 7, 8, 11])
def test_where_rounds_begin_equals_enumeration(gamma: int) -> None:
    odds = np.random.default_rng(8).random(8).tolist()
    begun = np.zeros(8)
    for chance, walk in _every_walk(odds, gamma):
        for place, _ in walk:
            begun[place] += chance
    assert starts_along(odds, (gamma,))[0] == pytest.approx(begun, rel=1e-12)


@given(odds=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=60), gamma=st.integers(0, 12))
def test_starts_add_up_to_the_rounds(odds: list[float], gamma: int) -> None:
    (begun,) = starts_along(odds, (gamma,))
    assert begun[0] == 1.0
    assert begun.min() >= 0.0
    assert begun.max() <= 1.0 + 1e-9
    assert begun.sum() == pytest.approx(expected_rounds(odds, gamma), rel=1e-9)
    whole = begun[: max(0, len(odds) - gamma)].sum()
    assert rounds_along(odds, gamma).rounds == pytest.approx(whole, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("gamma", [1, 2, 3, 5, 7])
def test_accepted_shares_equal_enumeration(gamma: int) -> None:
    odds = np.random.default_rng(9).random(8).tolist()
    rounds, accepted = 0.0, np.zeros(gamma)
    for chance, walk in _every_walk(odds, gamma):
        places = [place for place, _ in walk] + [len(odds)]
        for begin, end in itertools.pairwise(places):
            if begin + gamma < len(odds):  # gamma + 1 tokens left
                rounds += chance
                accepted[: end - begin - 1] += chance
    assert accepted_along(odds, gamma) == pytest.approx(accepted / rounds, rel=1e-12)


@given(odds=st.lists(st.floats(0.0, 1.0), max_size=60), gamma=st.integers(1, 12))
def test_accepted_shares_never_increase(odds: list[float], gamma: int) -> None:
    shares = accepted_along(odds, gamma)
    assert len(shares) == (gamma if len(odds) > gamma else 0)
    assert all(later <= before + 1e-12 for before, later in itertools.pairwise(shares))
    assert all(0.0 <= each <= 1.0 + 1e-9 for each in shares)
    if shares:  # one token per round, and one per accepted candidate
        walk = rounds_along(odds, gamma)
        assert 1.0 + sum(shares) == pytest.approx(walk.tokens / walk.rounds, rel=1e-9)
        assert shares[-1] == pytest.approx(walk.bonuses / walk.rounds, rel=1e-9, abs=1e-12)


def test_the_variance_of_a_rounds_tokens() -> None:
    """γ 1 accepts with probability p; γ 2 accepts 0, 1 or 2 with 0.5, 0.25 and 0.25."""
    assert variance_along([0.4] * 30, 1) == pytest.approx(0.4 * 0.6)
    assert variance_along([0.5] * 30, 2) == pytest.approx(0.25 + 0.25 * 4 - 0.75**2)
    assert variance_along([1.0] * 30, 4) == pytest.approx(0.0)
    assert variance_along([0.5] * 3, 4) == 0.0
