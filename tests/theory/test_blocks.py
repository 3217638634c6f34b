"""Block verification: lossless by enumeration, printed counts, never worse in the mean."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings

from specviz.errors import TheoryError
from specviz.theory import blocks
from specviz.theory.examples import REF5, SWAPPED, Example
from specviz.theory.tradeoff import total_variation
from tests.theory.distributions import Distribution, Pair, pairs

# gamma: candidates accepted by token verification, by block verification, and the bound.
SWAPPED_COUNTS = {
    1: (2 / 3, 2 / 3, 2 / 3),
    2: (10 / 9, 11 / 9, 12 / 9),
    3: (38 / 27, 45 / 27, 50 / 27),
}
REF5_COUNTS = {
    1: (0.7, 0.7, 0.7),
    2: (1.19, 1.27, 1.35),
    3: (1.533, 1.74225, 1.91275),
    4: (1.7731, 2.14525, 2.42975),
}
CASES = [(SWAPPED, gamma, row) for gamma, row in SWAPPED_COUNTS.items()] + [
    (REF5, gamma, row) for gamma, row in REF5_COUNTS.items()
]


def counts(draft: Distribution, target: Distribution, gamma: int) -> tuple[float, float, float]:
    return (
        blocks.token_accepted(draft, target, gamma),
        blocks.expected_accepted(draft, target, gamma),
        blocks.accepted_curves(draft, target, gamma).bound[-1] if gamma else 0.0,
    )


@pytest.mark.parametrize(("example", "gamma", "row"), CASES)
def test_counts_as_printed(example: Example, gamma: int, row: tuple[float, ...]) -> None:
    assert counts(np.array(example.draft), np.array(example.target), gamma) == pytest.approx(
        row, abs=1e-12
    )


def test_curves_are_the_counts_for_each_gamma() -> None:
    curves = blocks.accepted_curves(REF5.draft, REF5.target, 4)
    for gamma, row in REF5_COUNTS.items():
        at = gamma - 1
        assert (curves.token[at], curves.block[at], curves.bound[at]) == pytest.approx(row)


@given(pairs(2, 4))
@settings(max_examples=40)
def test_token_block_bound_in_order(pair: Pair) -> None:
    for gamma in (1, 2, 5):
        token, block, bound = counts(*pair, gamma)
        assert token <= block + 1e-10
        assert block <= bound + 1e-10
        if gamma == 1:
            assert token == pytest.approx(bound, abs=1e-12)


@given(pairs(2, 3))
@settings(max_examples=25)
def test_the_bound_is_the_overlap_of_whole_blocks(pair: Pair) -> None:
    overlaps = 0.0
    for length in range(1, 5):
        distributions = [
            [float(np.prod(each[list(word)])) for word in words(len(each), length)] for each in pair
        ]
        overlaps += 1.0 - total_variation(*distributions)
    assert blocks.accepted_curves(*pair, 4).bound[-1] == pytest.approx(overlaps, abs=1e-10)


def words(vocabulary: int, length: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(vocabulary), repeat=length))


@pytest.mark.parametrize("verifier", ["token", "block"])
@pytest.mark.parametrize("seed", range(4))
def test_both_rules_emit_the_target_distribution(verifier: blocks.Verifier, seed: int) -> None:
    draft, target = (tree(np.random.default_rng([seed, side])) for side in range(2))
    emitted = blocks.emitted_distribution(draft.__getitem__, target.__getitem__, 3, 3, verifier)
    for text in words(3, 4):
        got = sum(
            chance * along(target, text, start=len(key))
            for key, chance in emitted.items()
            if key == text[: len(key)]
        )
        assert got == pytest.approx(along(target, text), abs=1e-12)


def test_block_verification_accepts_more_on_context_dependent_models() -> None:
    means = {}
    for verifier in ("token", "block"):
        draft, target = (tree(np.random.default_rng([9, side])) for side in range(2))
        emitted = blocks.emitted_distribution(draft.__getitem__, target.__getitem__, 3, 3, verifier)
        assert sum(emitted.values()) == pytest.approx(1.0, abs=1e-12)
        means[verifier] = sum((len(key) - 1) * chance for key, chance in emitted.items())
    assert means["block"] > means["token"] + 0.01


def tree(rng: np.random.Generator) -> dict[tuple[int, ...], Distribution]:
    """Return a distribution for each text of up to three tokens; some tokens are impossible."""
    made = {}
    for length in range(4):
        for text in words(3, length):
            probs = rng.dirichlet(np.ones(3))
            probs[probs < 0.1] = 0.0
            made[text] = probs / probs.sum()
    return made


def along(
    distributions: dict[tuple[int, ...], Distribution], text: tuple[int, ...], start: int = 0
) -> float:
    places = range(start, len(text))
    return float(np.prod([distributions[text[:place]][text[place]] for place in places]))


def test_a_later_candidate_rescues_an_earlier_one() -> None:
    distributions = [SWAPPED.draft] * 2, [SWAPPED.target] * 3
    assert blocks.block_weights([0, 1], *distributions) == (1.0, 0.5, 1.0)


def test_block_verification_may_accept_fewer_of_a_single_draft() -> None:
    """Both drafted tokens are half as likely under the target; the weights are 1/2 and 1/4."""
    distributions = [SWAPPED.draft] * 2, [SWAPPED.target] * 3
    assert blocks.accepted_given((0, 0), *distributions, "token") == pytest.approx(0.5 + 0.25)
    assert blocks.accepted_given((0, 0), *distributions, "block") == pytest.approx(2 * 0.25)
    over_all = {
        each: sum(
            SWAPPED.draft[one]
            * SWAPPED.draft[two]
            * blocks.accepted_given((one, two), *distributions, each)
            for one, two in words(2, 2)
        )
        for each in ("token", "block")
    }
    assert (over_all["token"], over_all["block"]) == pytest.approx((10 / 9, 11 / 9), abs=1e-12)


def test_a_long_round_is_fast() -> None:
    rng = np.random.default_rng(2)
    draft, target = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))
    began = time.process_time()
    token, block, bound = counts(draft, target, 12)
    assert time.process_time() - began < 2.0
    assert token < block < bound


def test_refuses_instances_too_large_to_enumerate() -> None:
    rng = np.random.default_rng(2)
    with pytest.raises(TheoryError, match="smaller"):
        blocks.expected_accepted(rng.dirichlet(np.ones(60)), rng.dirichlet(np.ones(60)), 8)
    with pytest.raises(TheoryError, match="smaller"):
        blocks.emitted_distribution(lambda _: [0.5, 0.5], lambda _: [0.5, 0.5], 30, 2, "block")


def test_equal_disjoint_and_empty_drafts() -> None:
    same = np.array([0.25, 0.75])
    assert counts(same, same, 6) == pytest.approx((6, 6, 6), abs=1e-12)
    assert counts(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 6) == (0, 0, 0)
    assert counts(same, same[::-1], 0) == (0, 0, 0)
