"""Odds of a text's own tokens: closed forms against enumeration of one position."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.errors import TheoryError
from specviz.theory.rounds import PositionOutcome, token_verification
from tests.oracles.couplings import coupled, match, token_matching_rule
from tests.oracles.own_odds import (
    coupled_odds,
    match_odds,
    multi_draft_odds,
    odds_from_outcome,
    token_odds,
)
from tests.oracles.trees import sibling_outcome
from tests.theory.distributions import Distribution, Pair, pairs

CLOSED: dict[
    str,
    tuple[
        Callable[[Distribution, Distribution, int], float],
        Callable[[Distribution, Distribution], PositionOutcome],
    ],
] = {
    "token": (token_odds, token_verification),
    "match": (match_odds, token_matching_rule(match)),
    "coupled": (coupled_odds, token_matching_rule(coupled)),
    "three drafts": (
        lambda draft, target, token: multi_draft_odds(draft, target, token, 3),
        lambda draft, target: sibling_outcome(draft, target, 3, replacement=True),
    ),
}


@pytest.mark.parametrize("name", CLOSED)
@given(pair=pairs(2, 6))
@settings(max_examples=60, deadline=None)
def test_closed_forms_equal_enumeration(name: str, pair: Pair) -> None:
    closed, decide = CLOSED[name]
    found = decide(*pair)
    for token in np.flatnonzero(pair[1]).tolist():
        assert closed(*pair, token) == pytest.approx(odds_from_outcome(found, token), abs=1e-9)


@given(pairs(2, 6), st.integers(1, 4))
@settings(max_examples=60)
def test_mean_over_tokens_is_the_acceptance(pair: Pair, count: int) -> None:
    draft, target = pair
    tokens = np.flatnonzero(target).tolist()
    mean = sum(target[token] * multi_draft_odds(draft, target, token, count) for token in tokens)
    found = sibling_outcome(draft, target, count, replacement=True)
    assert mean == pytest.approx(float(found.accepted.sum()), abs=1e-12)


def test_one_draft_has_the_token_odds() -> None:
    draft, target = np.array([0.6, 0.3, 0.1]), np.array([0.4, 0.3, 0.3])
    for token in range(3):
        assert multi_draft_odds(draft, target, token, 1) == pytest.approx(
            token_odds(draft, target, token), abs=1e-12
        )
    assert token_odds(draft, target, 2) == pytest.approx(1 / 3)
    assert [match_odds(draft, target, token) for token in range(3)] == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("odds", [token_odds, match_odds, coupled_odds])
def test_refuses_a_token_with_target_probability_0(
    odds: Callable[[Distribution, Distribution, int], float],
) -> None:
    draft, target = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    with pytest.raises(TheoryError, match="probability 0"):
        odds(draft, target, 1)
    with pytest.raises(TheoryError, match="probability 0"):
        multi_draft_odds(draft, target, 1, 2)
    with pytest.raises(TheoryError, match="probability 0"):
        odds_from_outcome(token_verification(draft, target), 1)
