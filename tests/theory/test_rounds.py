"""Rounds by enumeration: every exact rule emits the target's distribution; every bug shows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from specviz.errors import TheoryError
from specviz.theory import blocks, tradeoff
from specviz.theory.rounds import (
    Text,
    chain_distribution,
    continued,
    mean_accepted,
    round_bias,
    rule_from,
    token_verification,
)
from specviz.theory.stopping import after_unlikely, before_unsure, drop_unlikely
from tests.theory.distributions import Distribution, Pair, pairs
from tests.theory.kernels import ROUNDING, both, seeds, sizes, steady

THREE = np.array([0.6, 0.3, 0.1]), np.array([0.4, 0.3, 0.3])


@given(seeds, sizes)
@settings(max_examples=15, deadline=None)
def test_token_verification_is_exact(seed: int, size: tuple[int, int]) -> None:
    emitted = chain_distribution(*both(seed, *size), gamma=size[1])
    assert sum(emitted.values()) == pytest.approx(1.0, abs=ROUNDING)
    assert round_bias(emitted, both(seed, *size)[1]) < ROUNDING


@pytest.mark.parametrize("seed", range(3))
def test_chains_equal_the_token_verifier_of_blocks(seed: int) -> None:
    draft, target = both(seed, 3, 3)
    one, other = (
        chain_distribution(draft, target, 3),
        blocks.emitted_distribution(draft, target, 3, 3, "token"),
    )
    assert all(one.get(key, 0.0) == pytest.approx(other[key], abs=ROUNDING) for key in other)
    assert set(one) <= set(other)


@given(seeds, sizes)
@settings(max_examples=10, deadline=None)
def test_blocks_are_exact_with_any_stopping_rule(seed: int, size: tuple[int, int]) -> None:
    (draft, target), (vocabulary, gamma) = both(seed, *size), size
    for stops in (after_unlikely(draft, 0.3), before_unsure(draft, 0.5), lambda text: False):
        emitted = blocks.emitted_distribution(
            draft, target, gamma, vocabulary, "block", stops=stops
        )
        assert round_bias(emitted, target) < ROUNDING
        plain = chain_distribution(draft, target, gamma, stops=stops)
        assert mean_accepted(emitted) >= mean_accepted(plain) - ROUNDING


def test_ending_a_block_at_a_failed_test_is_biased() -> None:
    found: list[float] = []
    for seed in range(5):
        draft, target = both(seed, 3, 3)
        emitted = blocks.emitted_distribution(draft, target, 3, 3, "block", breaks=True)
        found.append(round_bias(emitted, target))
    assert min(found) > 0.005
    assert max(found) > 0.05


@given(pairs(2, 6))
@settings(max_examples=60)
def test_recovering_from_the_target_is_biased(pair: Pair) -> None:
    draft, target = map(steady, pair)
    careless = rule_from(
        tradeoff.lossless, lambda _, target: tradeoff.as_distribution(target, "target")
    )
    bias = round_bias(chain_distribution(draft, target, 1, careless), target)
    exact = tradeoff.output_distribution(*pair, tradeoff.lossless(*pair), pair[1])
    assert bias == pytest.approx(tradeoff.total_variation(exact, pair[1]), abs=ROUNDING)


# When drafting ends


@given(seeds, sizes)
@settings(max_examples=15, deadline=None)
def test_stopping_rules_are_exact(seed: int, size: tuple[int, int]) -> None:
    draft, target = both(seed, *size)
    for stops in (after_unlikely(draft, 0.4), before_unsure(draft, 0.6)):
        emitted = chain_distribution(draft, target, size[1], stops=stops)
        assert round_bias(emitted, target) < ROUNDING
        assert (
            mean_accepted(emitted)
            <= mean_accepted(chain_distribution(draft, target, size[1])) + ROUNDING
        )


def test_where_drafting_stops() -> None:
    draft = steady(THREE[0])
    after, before = after_unlikely(draft, 0.2), before_unsure(draft, 0.61)
    assert [after(text) for text in ((), (0,), (0, 2), (2, 1))] == [False, False, True, False]
    assert before(())
    assert not before_unsure(draft, 0.6)(())
    emitted = chain_distribution(draft, steady(THREE[1]), 2, stops=after)
    assert max(map(len, (key for key in emitted if key[0] == 2))) == 2  # no candidate after it


def test_a_dropped_candidate_biases_the_text() -> None:
    draft, target = map(steady, THREE)
    emitted = chain_distribution(draft, target, 1, drop_unlikely(0.2))
    first = continued(emitted, target, 1)
    assert [first[0,], first[1,], first[2,]] == pytest.approx([0.44, 0.33, 0.23], abs=ROUNDING)
    assert round_bias(emitted, target) == pytest.approx(0.07, abs=ROUNDING)
    stops = after_unlikely(draft, 0.2)
    assert round_bias(chain_distribution(draft, target, 3, stops=stops), target) < ROUNDING


@given(pairs(2, 6))
@settings(max_examples=60)
def test_dropping_nothing_is_token_verification(pair: Pair) -> None:
    found, plain = drop_unlikely(0.0)(*pair), token_verification(*pair)
    assert found.accepted == pytest.approx(plain.accepted, abs=ROUNDING)
    assert found.emitted == pytest.approx(pair[1], abs=1e-9)
    assert found.recovered.sum() + found.accepted.sum() == pytest.approx(1.0, abs=ROUNDING)


# Enumerating texts


def test_distribution_of_a_texts_first_tokens() -> None:
    _, target = both(1, 3, 4)
    first = continued({(): 1.0}, target, 2)
    for text in itertools.product(range(3), repeat=2):
        own = target(())[text[0]] * target(text[:1])[text[1]]
        assert first[text] == pytest.approx(own, abs=ROUNDING)
    emitted = chain_distribution(*both(1, 3, 4), gamma=3)  # up to four tokens: cut, and continued
    assert continued(emitted, target, 2) == pytest.approx(first, abs=ROUNDING)


def test_extreme_gammas() -> None:
    _, target = both(1, 3, 1)
    nothing_drafted = chain_distribution(target, target, 0)
    assert continued(nothing_drafted, target, 1) == pytest.approx(continued({(): 1.0}, target, 1))
    assert mean_accepted(chain_distribution(target, target, 1)) == pytest.approx(1.0, abs=ROUNDING)
    for gamma in (-1, 40):
        with pytest.raises(TheoryError):
            chain_distribution(target, target, gamma)


def test_the_draft_is_called_only_on_reachable_texts() -> None:
    asked: list[Text] = []

    def draft(text: Text) -> Distribution:
        asked.append(text)
        return np.array([1.0, 0.0])

    chain_distribution(draft, steady(np.array([0.5, 0.5])), 3)
    assert asked == [(), (0,), (0, 0)]
