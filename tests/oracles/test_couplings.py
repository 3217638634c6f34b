"""Token-matching rules: marginals of the couplings, and acceptance in closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import integrate

from specviz.theory.examples import REF5
from specviz.theory.rounds import PositionOutcome, chain_distribution, mean_accepted, round_bias
from specviz.theory.tradeoff import Chances, residual_distribution, total_variation
from tests.oracles.couplings import (
    Coupling,
    coupled,
    coupled_acceptance,
    coupled_floor,
    match,
    token_matching_rule,
)
from tests.theory.distributions import Pair, pairs
from tests.theory.kernels import ROUNDING, both, seeds, sizes, steady


def for_pairs(test: Callable[..., None]) -> Callable[..., None]:
    return settings(max_examples=60, deadline=None)(given(pairs(2, 6))(test))


@for_pairs
def test_marginals_are_both_distributions(pair: Pair) -> None:
    joint = coupled(*pair)
    assert joint.sum(axis=1) == pytest.approx(pair[0], abs=ROUNDING)
    assert joint.sum(axis=0) == pytest.approx(pair[1], abs=ROUNDING)
    assert joint.min() >= 0.0


@for_pairs
def test_acceptance_lies_between_its_floor_and_the_overlap(pair: Pair) -> None:
    accepted = coupled_acceptance(*pair)
    assert accepted == pytest.approx(float(np.trace(coupled(*pair))), abs=ROUNDING)
    assert accepted >= coupled_floor(*pair) - ROUNDING
    assert accepted <= 1.0 - total_variation(*pair) + ROUNDING
    likeliest = int(pair[0].argmax())
    assert np.trace(match(*pair)) == pytest.approx(pair[1][likeliest], abs=ROUNDING)


def test_one_cell_by_quadrature() -> None:
    """The draft chooses C, the target D: the integral over both exponentials, by scipy."""
    draft, target = np.array(REF5.draft), np.array(REF5.target)
    draft_token, target_token = 2, 3

    def density(late: float, early: float) -> float:
        wait = np.maximum(early / draft[draft_token] * draft, late / target[target_token] * target)
        wait[[draft_token, target_token]] = early, late
        wins = (
            late / draft[target_token] >= early / draft[draft_token]
            and early / target[draft_token] >= late / target[target_token]
        )
        return float(np.exp(-wait.sum())) if wins else 0.0

    low, high = draft[target_token] / draft[draft_token], target[target_token] / target[draft_token]
    found = integrate.dblquad(
        density, 0.0, 12.0, lambda x: low * x, lambda x: high * x, epsabs=1e-10
    )[0]
    assert coupled(draft, target)[draft_token, target_token] == pytest.approx(found, abs=1e-7)


def test_coupling_matches_simulation() -> None:
    draft, target = np.array(REF5.draft), np.array(REF5.target)
    noise = np.random.default_rng(5).exponential(size=(40_000, 5))
    tokens = [(noise / probs).argmin(axis=1) for probs in (draft, target)]
    counted = np.zeros((5, 5))
    np.add.at(counted, tuple(tokens), 1 / len(noise))
    off = np.abs(counted - coupled(draft, target))
    assert off.max() < 4 * 0.5 / len(noise) ** 0.5
    assert (counted[coupled(draft, target) == 0.0] == 0.0).all()


@given(seeds, sizes)
@settings(max_examples=10, deadline=None)
def test_rounds_are_exact(seed: int, size: tuple[int, int]) -> None:
    draft, target = both(seed, *size)
    for coupling in (coupled, match):
        emitted = chain_distribution(draft, target, size[1], token_matching_rule(coupling))
        assert round_bias(emitted, target) < ROUNDING


@pytest.mark.parametrize("rule", [coupled, match])
def test_emitting_another_token_than_the_targets_is_biased(rule: Coupling) -> None:
    """On a mismatch one rule emits the draft's token, another resamples from the residual."""
    draft, target = steady(np.array(REF5.draft)), steady(np.array(REF5.target))

    def resamples(one: Chances, other: Chances) -> PositionOutcome:
        accepted = rule(one, other).diagonal()
        return PositionOutcome(
            accepted=accepted, recovered=(1.0 - accepted.sum()) * residual_distribution(one, other)
        )

    def emits_the_draft_token(one: Chances, other: Chances) -> PositionOutcome:
        joint = rule(one, other)
        accepted = joint.diagonal()
        return PositionOutcome(accepted=accepted, recovered=joint.sum(axis=1) - accepted)

    for fault in (resamples, emits_the_draft_token):
        assert round_bias(chain_distribution(draft, target, 2, fault), target) > 0.01


def test_equal_models_always_agree() -> None:
    probs = np.array(REF5.draft)
    assert coupled_acceptance(probs, probs) == pytest.approx(1.0, abs=ROUNDING)
    kernel = steady(probs)
    rounds = chain_distribution(kernel, kernel, 3, token_matching_rule(coupled))
    assert mean_accepted(rounds) == pytest.approx(3.0, abs=ROUNDING)
    assert coupled_acceptance([1.0, 0.0], [0.0, 1.0]) == 0.0


def test_two_tokens_by_hand() -> None:
    """Both choose A with probability 1 / (1 + max(q/p of B over A)), and likewise B."""
    draft, target = [0.8, 0.2], [0.5, 0.5]
    assert coupled(draft, target) == pytest.approx(np.array([[0.5, 0.3], [0.0, 0.2]]), abs=ROUNDING)
