"""Rules by equal words: couplings whose sides are the two laws, and acceptance in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import integrate

from specviz.theory.couplings import (
    Coupling,
    coupled,
    coupled_acceptance,
    coupled_floor,
    equal_words,
    match,
)
from specviz.theory.examples import REF5
from specviz.theory.rounds import Judged, chain_distribution, mean_accepted, round_bias
from specviz.theory.tradeoff import Chances, leftover, total_variation
from tests.theory.distributions import Law, pairs
from tests.theory.kernels import ROUNDING, both, seeds, sizes, steady


@given(pairs(2, 6))
@settings(max_examples=60, deadline=None)
def test_both_sides_of_the_coupling_are_the_two_laws(pair: tuple[Law, Law]) -> None:
    joint = coupled(*pair)
    assert joint.sum(axis=1) == pytest.approx(pair[0], abs=ROUNDING)
    assert joint.sum(axis=0) == pytest.approx(pair[1], abs=ROUNDING)
    assert joint.min() >= 0.0


@given(pairs(2, 6))
@settings(max_examples=60, deadline=None)
def test_the_acceptance_lies_between_its_floor_and_the_overlap(pair: tuple[Law, Law]) -> None:
    accepted = coupled_acceptance(*pair)
    assert accepted == pytest.approx(float(np.trace(coupled(*pair))), abs=ROUNDING)
    assert accepted >= coupled_floor(*pair) - ROUNDING
    assert accepted <= 1.0 - total_variation(*pair) + ROUNDING
    likeliest = int(pair[0].argmax())
    assert np.trace(match(*pair)) == pytest.approx(pair[1][likeliest], abs=ROUNDING)


def test_one_cell_by_quadrature() -> None:
    """The draft says C, the target D: the integral over both exponentials, by another program."""
    draft, target = np.array(REF5.draft), np.array(REF5.target)
    said, own = 2, 3

    def density(late: float, early: float) -> float:
        wait = np.maximum(early / draft[said] * draft, late / target[own] * target)
        wait[[said, own]] = early, late
        wins = (
            late / draft[own] >= early / draft[said] and early / target[said] >= late / target[own]
        )
        return float(np.exp(-wait.sum())) if wins else 0.0

    low, high = draft[own] / draft[said], target[own] / target[said]
    found = integrate.dblquad(
        density, 0.0, 12.0, lambda x: low * x, lambda x: high * x, epsabs=1e-10
    )[0]
    assert coupled(draft, target)[said, own] == pytest.approx(found, abs=1e-7)


def test_by_draws() -> None:
    draft, target = np.array(REF5.draft), np.array(REF5.target)
    noise = np.random.default_rng(5).exponential(size=(40_000, 5))
    words = [(noise / law).argmin(axis=1) for law in (draft, target)]
    counted = np.zeros((5, 5))
    np.add.at(counted, tuple(words), 1 / len(noise))
    off = np.abs(counted - coupled(draft, target))
    assert off.max() < 4 * 0.5 / len(noise) ** 0.5
    assert (counted[coupled(draft, target) == 0.0] == 0.0).all()


@given(seeds, sizes)
@settings(max_examples=10, deadline=None)
def test_rounds_are_exact(seed: int, size: tuple[int, int]) -> None:
    draft, target = both(seed, *size)
    for coupling in (coupled, match):
        emitted = chain_distribution(draft, target, size[1], equal_words(coupling))
        assert round_bias(emitted, target) < ROUNDING


@pytest.mark.parametrize("rule", [coupled, match])
def test_another_word_than_the_targets_is_biased(rule: Coupling) -> None:
    """At unequal words one rule says the draft's, another draws anew from the leftover."""
    draft, target = steady(np.array(REF5.draft)), steady(np.array(REF5.target))

    def draws_anew(one: Chances, other: Chances) -> Judged:
        stands = rule(one, other).diagonal()
        return Judged(stands=stands, instead=(1.0 - stands.sum()) * leftover(one, other))

    def says_the_drafts(one: Chances, other: Chances) -> Judged:
        joint = rule(one, other)
        stands = joint.diagonal()
        return Judged(stands=stands, instead=joint.sum(axis=1) - stands)

    for fault in (draws_anew, says_the_drafts):
        assert round_bias(chain_distribution(draft, target, 2, fault), target) > 0.01


def test_equal_models_always_agree() -> None:
    law = np.array(REF5.draft)
    assert coupled_acceptance(law, law) == pytest.approx(1.0, abs=ROUNDING)
    kernel = steady(law)
    rounds = chain_distribution(kernel, kernel, 3, equal_words(coupled))
    assert mean_accepted(rounds) == pytest.approx(3.0, abs=ROUNDING)
    assert coupled_acceptance([1.0, 0.0], [0.0, 1.0]) == 0.0


def test_two_tokens_by_hand() -> None:
    """Both say A with chance 1 / (1 + max(q/p of B over A)), and likewise B."""
    draft, target = [0.8, 0.2], [0.5, 0.5]
    assert coupled(draft, target) == pytest.approx(np.array([[0.5, 0.3], [0.0, 0.2]]), abs=ROUNDING)
