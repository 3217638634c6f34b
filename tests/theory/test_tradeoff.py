"""Yin et al. 2024, theorems 4 and 5: printed values, and the front that no rule falls below."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.errors import TheoryError
from specviz.theory import tradeoff
from specviz.theory.examples import EXAMPLES, REF5, Example
from specviz.theory.tradeoff import rejection_and_bias, total_variation
from tests.oracles.printed_values import OVER_ACCEPT
from tests.theory.distributions import Distribution, Pair, chances, pairs

DRAFT, TARGET = np.array(REF5.draft), np.array(REF5.target)
EXACT = 1e-12

# lenience: P(reject), least bias, bias recovering from the target.
LENIENT = {
    1.0: (0.30, 0.0, 0.105),
    0.8: (0.2125, 0.0875, 0.161875),
    0.5: (0.0, 0.30, 0.30),
    0.3: (0.0, 0.30, 0.30),
}


def near(value: object) -> object:
    return pytest.approx(value, abs=EXACT)


@pytest.mark.parametrize("epsilon", OVER_ACCEPT)
def test_over_acceptance_as_tabulated(epsilon: float) -> None:
    rejected, bias, with_target, with_draft = OVER_ACCEPT[epsilon]
    accept = tradeoff.over_accept(DRAFT, TARGET, epsilon)
    assert rejection_and_bias(DRAFT, TARGET, accept) == near((rejected, bias))
    assert rejection_and_bias(DRAFT, TARGET, accept, TARGET)[1] == near(with_target)
    assert rejection_and_bias(DRAFT, TARGET, accept, DRAFT)[1] == near(with_draft)


@pytest.mark.parametrize("lenience", LENIENT)
def test_lenience_as_tabulated(lenience: float) -> None:
    rejected, bias, with_target = LENIENT[lenience]
    accept = tradeoff.lenient(DRAFT, TARGET, lenience)
    assert rejection_and_bias(DRAFT, TARGET, accept) == near((rejected, bias))
    assert rejection_and_bias(DRAFT, TARGET, accept, TARGET)[1] == near(with_target)


def test_a_hard_threshold_leaves_the_front() -> None:
    accept = tradeoff.hard_threshold(DRAFT, TARGET, 0.15)
    assert rejection_and_bias(DRAFT, TARGET, accept) == near((0.20, 0.25))
    assert total_variation(DRAFT, TARGET) - 0.20 == near(0.10)  # the front there


def test_lossless_as_printed() -> None:
    assert list(tradeoff.lossless(DRAFT, TARGET)) == near([0.5, 1, 2 / 3, 1, 1])
    assert list(tradeoff.residual_distribution(DRAFT, TARGET)) == near([0, 1 / 3, 0, 1 / 2, 1 / 6])
    emitted = tradeoff.output_distribution(DRAFT, TARGET, tradeoff.lossless(DRAFT, TARGET), TARGET)
    assert list(emitted) == near([0.325, 0.29, 0.13, 0.175, 0.08])  # resampled from the target


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)
def test_examples_are_pairs_of_distributions(example: Example) -> None:
    assert len(example.draft) == len(example.target) == len(example.labels)
    assert sum(example.draft) == near(1.0)
    assert sum(example.target) == near(1.0)


@given(pairs(), st.data())
@settings(max_examples=150)
def test_no_rule_lies_below_the_front(pair: Pair, data: st.DataObject) -> None:
    draft, target = pair
    accept = data.draw(chances(len(draft)))
    recover = data.draw(pairs(len(draft), len(draft)))[0]
    rejected, least = rejection_and_bias(draft, target, accept)
    assert least >= total_variation(draft, target) - rejected - EXACT
    assert least >= 0.0
    assert rejection_and_bias(draft, target, accept, recover)[1] >= least - EXACT


@given(pairs(), st.data())
@settings(max_examples=150)
def test_every_rule_above_the_lossless_one_lies_on_the_front(
    pair: Pair, data: st.DataObject
) -> None:
    draft, target = pair
    floor = tradeoff.lossless(draft, target)
    accept = np.minimum(1.0, floor + (1.0 - floor) * data.draw(chances(len(draft))))
    rejected, least = rejection_and_bias(draft, target, accept)
    assert rejected + least == near(total_variation(draft, target))
    best = tradeoff.optimum(draft, target, accept)
    if rejected > 1e-9:  # for every such rule this is the ordinary residual
        assert list(best.recover) == pytest.approx(
            list(tradeoff.residual_distribution(draft, target)), abs=1e-7
        )


@given(pairs(), st.data())
@settings(max_examples=100)
def test_rules_below_the_lossless_one_are_unbiased(pair: Pair, data: st.DataObject) -> None:
    draft, target = pair
    accept = tradeoff.lossless(draft, target) * data.draw(chances(len(draft)))
    rejected, least = rejection_and_bias(draft, target, accept)
    assert least == near(0.0)
    assert rejected >= total_variation(draft, target) - EXACT


@given(pairs(), st.data())
@settings(max_examples=100)
def test_the_optimal_set(pair: Pair, data: st.DataObject) -> None:
    draft, target = pair
    accept = data.draw(chances(len(draft)))
    best = tradeoff.optimum(draft, target, accept)
    assert rejection_and_bias(draft, target, accept, best.recover)[1] == near(best.bias)
    other = data.draw(pairs(len(draft), len(draft)))[0]
    assert rejection_and_bias(draft, target, accept, other)[1] >= best.bias - EXACT


@given(pairs(), st.floats(0.0, 0.5))
@settings(max_examples=100)
def test_resampling_from_the_target(pair: Pair, epsilon: float) -> None:
    draft, target = pair
    accept = tradeoff.over_accept(draft, target, epsilon)
    rejected, bias = rejection_and_bias(draft, target, accept, target)
    if rejected < 1.0 - 1e-6:
        kept = accept * draft / (1.0 - rejected)
        kept /= kept.sum()
        assert bias == pytest.approx((1.0 - rejected) * total_variation(kept, target), abs=1e-9)


@given(pairs())
@settings(max_examples=50)
def test_areas_add_up(pair: Pair) -> None:
    draft, target = pair
    made = tradeoff.areas(draft, target)
    assert list(made.accepted + made.rejected) == near(list(draft))
    assert list(made.overlap + made.residual) == near(list(target))
    assert list(made.accepted) == near(list(made.overlap))
    assert made.residual.sum() == near(total_variation(draft, target))


def test_a_whole_text_is_within_the_sum_of_its_steps() -> None:
    rng = np.random.default_rng(3)
    draft, target = (rng.dirichlet(np.ones(3), (4, 3)) for _ in range(2))

    def emits(step: int, state: int) -> tuple[Distribution, float]:
        pair = draft[step][state], target[step][state]
        accept = tradeoff.over_accept(*pair, 0.08)
        rejected, bias = rejection_and_bias(*pair, accept)
        made = tradeoff.output_distribution(*pair, accept, tradeoff.residual_distribution(*pair))
        assert total_variation(made, pair[1]) == near(bias)
        assert rejected + bias == near(total_variation(*pair))
        return made, bias

    biases, distance = [0.0] * 4, 0.0
    for text in itertools.product(range(3), repeat=4):
        emitted = wanted = 1.0
        for step, token in enumerate(text):
            state = text[step - 1] if step else 0
            made, bias = emits(step, state)
            if set(text[step:]) == {0}:  # visit each prefix once
                biases[step] += emitted * bias
            emitted, wanted = emitted * made[token], wanted * target[step][state][token]
        distance += 0.5 * abs(emitted - wanted)
    assert 0.05 < distance <= sum(biases)


def test_simulation_matches_the_exact_point() -> None:
    accept = tradeoff.over_accept(DRAFT, TARGET, 0.05)
    for recover in (tradeoff.residual_distribution(DRAFT, TARGET), TARGET, DRAFT):
        rng = np.random.default_rng(11)
        halves = [
            tradeoff.simulate(DRAFT, TARGET, accept, recover, trials=100_000, rng=rng)
            for _ in range(2)
        ]
        tally = halves[0] + halves[1]
        exact = tradeoff.output_distribution(DRAFT, TARGET, accept, recover)
        rejected, wide, bias, far = tradeoff.estimate(tally, TARGET, exact)
        expected = rejection_and_bias(DRAFT, TARGET, accept, recover)
        assert tally.trials == tally.emitted.sum() == 200_000
        assert abs(rejected - expected[0]) < 2 * wide < 0.006
        assert abs(bias - expected[1]) < 2 * far < 0.006


def test_no_overlap_and_no_rejection() -> None:
    apart = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert rejection_and_bias(*apart, tradeoff.lossless(*apart)) == (1.0, 0.0)
    assert rejection_and_bias(*apart, np.ones(2)) == (0.0, 1.0)
    assert rejection_and_bias(DRAFT, DRAFT, tradeoff.lossless(DRAFT, DRAFT)) == (0.0, 0.0)
    assert list(tradeoff.residual_distribution(DRAFT, DRAFT)) == list(DRAFT)
    rng = np.random.default_rng(0)
    tally = tradeoff.simulate(*apart, np.ones(2), apart[1], trials=100, rng=rng)
    assert (tally.rejected, list(tally.emitted)) == (0, [100, 0])


@pytest.mark.parametrize(
    "call",
    [
        lambda: tradeoff.distribution_pair([0.5, 0.6], [0.5, 0.5]),
        lambda: tradeoff.distribution_pair([0.5, 0.5], [1.0]),
        lambda: tradeoff.distribution_pair([], []),
        lambda: tradeoff.distribution_pair([1.5, -0.5], [0.5, 0.5]),
        lambda: tradeoff.distribution_pair([np.nan, 1.0], [0.5, 0.5]),
        lambda: tradeoff.over_accept(DRAFT, TARGET, -0.1),
        lambda: tradeoff.lenient(DRAFT, TARGET, 0.0),
        lambda: tradeoff.hard_threshold(DRAFT, TARGET, 1.1),
        lambda: tradeoff.optimum(DRAFT, TARGET, [0.5, 0.5]),
        lambda: tradeoff.optimum(DRAFT, TARGET, [0.5, 0.5, 0.5, 0.5, 1.5]),
    ],
)
def test_rejects_invalid_distributions_and_rules(call: object) -> None:
    assert callable(call)
    with pytest.raises(TheoryError, match=r"\. [A-Z]"):
        call()
