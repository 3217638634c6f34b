"""Odds of a text's own token: closed forms against what every course of a place comes to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.errors import TheoryError
from specviz.theory.couplings import coupled, equal_words, match
from specviz.theory.own_odds import coupled_odds, match_odds, odds_of, several_odds, token_odds
from specviz.theory.rounds import Judged, by_odds
from specviz.theory.trees import judged_siblings
from tests.theory.distributions import Law, pairs

CLOSED: dict[str, tuple[Callable[[Law, Law, int], float], Callable[[Law, Law], Judged]]] = {
    "token": (token_odds, by_odds),
    "match": (match_odds, equal_words(match)),
    "coupled": (coupled_odds, equal_words(coupled)),
    "three drafts": (
        lambda draft, target, token: several_odds(draft, target, token, 3),
        lambda draft, target: judged_siblings(draft, target, 3, replacement=True),
    ),
}


@pytest.mark.parametrize("name", CLOSED)
@given(pair=pairs(2, 6))
@settings(max_examples=60, deadline=None)
def test_they_are_the_share_of_courses_in_which_a_candidate_said_it(
    name: str, pair: tuple[Law, Law]
) -> None:
    closed, judged = CLOSED[name]
    found = judged(*pair)
    for token in np.flatnonzero(pair[1]).tolist():
        assert closed(*pair, token) == pytest.approx(odds_of(found, token), abs=1e-9)


@given(pairs(2, 6), st.integers(1, 4))
@settings(max_examples=60)
def test_over_all_tokens_they_come_to_the_acceptance(pair: tuple[Law, Law], count: int) -> None:
    draft, target = pair
    tokens = np.flatnonzero(target).tolist()
    mean = sum(target[token] * several_odds(draft, target, token, count) for token in tokens)
    found = judged_siblings(draft, target, count, replacement=True)
    assert mean == pytest.approx(float(found.stands.sum()), abs=1e-12)


def test_one_draft_has_the_odds_of_a_token() -> None:
    draft, target = np.array([0.6, 0.3, 0.1]), np.array([0.4, 0.3, 0.3])
    for token in range(3):
        assert several_odds(draft, target, token, 1) == pytest.approx(
            token_odds(draft, target, token), abs=1e-12
        )
    assert token_odds(draft, target, 2) == pytest.approx(1 / 3)
    assert [match_odds(draft, target, token) for token in range(3)] == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("odds", [token_odds, match_odds, coupled_odds])
def test_a_text_that_the_target_cannot_write_is_refused(
    odds: Callable[[Law, Law, int], float],
) -> None:
    draft, target = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    with pytest.raises(TheoryError, match="never writes"):
        odds(draft, target, 1)
    with pytest.raises(TheoryError, match="never writes"):
        several_odds(draft, target, 1, 2)
    with pytest.raises(TheoryError, match="never writes"):
        odds_of(by_odds(draft, target), 1)
