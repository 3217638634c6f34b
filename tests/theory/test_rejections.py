"""Exact rejections: the papers' closed forms, reference values, and invariants."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.errors import TheoryError
from specviz.theory.chains import Chains, random_chains
from specviz.theory.rejections import (
    batch_floor,
    batch_improvement,
    bernoulli_improvement,
    lower_bound,
    rejections_by_step,
    scaling,
    total_rejections,
    uniform_improvement,
)
from specviz.theory.tradeoff import total_variation
from tests.theory.counting import draft_chances
from tests.theory.small_chains import context_free_chains, steady_chains

DRAFT, TARGET = (0.50, 0.20, 0.15, 0.10, 0.05), (0.25, 0.30, 0.10, 0.25, 0.10)
SMALL = steady_chains(
    [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4]],
    [[0.3, 0.4, 0.3], [0.4, 0.3, 0.3], [0.1, 0.6, 0.3]],
    10,
)
FIVE_TOKENS = {  # drafts: all rejected, improvement, in 20 tokens
    1: (0.3, 0.0, 6.0),
    2: (0.195, 0.105, 5.360640),
    4: (0.1067375, 0.1932625, 4.906989),
    8: (0.05571764, 0.24428236, 4.673067),
    math.inf: (0.0, 0.3, 4.437870),
}

seeds = st.integers(0, 2**32 - 1)
shapes = st.tuples(st.integers(1, 6), st.integers(1, 12))
coins = st.floats(0, 1).map(lambda chance: round(chance, 6))
stickiness = st.sampled_from([0.0, 0.3, 0.9, 1.0])


def random_pair(seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(size, 0.5)), rng.dirichlet(np.full(size, 0.5))


def by_enumeration(chains: Chains, num_drafts: int) -> float:
    """Sum forward over (token, fresh): every text and every position where a round may begin."""
    state = {(x, True): float(chains.start[x]) for x in range(chains.size)}
    total = 0.0
    for step in range(chains.horizon):
        following = dict.fromkeys(itertools.product(range(chains.size), (True, False)), 0.0)
        for (before, fresh), chance in state.items():
            draft, probs = chains.draft_kernels[step, before], chains.target_kernels[step, before]
            alive = chance
            for _ in range(num_drafts if fresh else 1):
                kept = np.minimum(draft, probs)
                for token in range(chains.size):
                    following[token, False] += alive * kept[token]
                left = probs - kept
                alive *= left.sum()
                probs = left / left.sum() if left.sum() > 0 else probs
            for token in range(chains.size):
                following[token, True] += alive * probs[token]
            total += alive
        state = following
    return total


@pytest.mark.parametrize("num_drafts", FIVE_TOKENS)
def test_one_position_and_context_free_texts(num_drafts: float) -> None:
    _, improvement, count = FIVE_TOKENS[num_drafts]
    assert batch_improvement(DRAFT, TARGET, num_drafts) == pytest.approx(improvement, abs=5e-9)
    chains = context_free_chains(DRAFT, TARGET, 20)
    assert total_rejections(chains, num_drafts) == pytest.approx(count, abs=5e-7)


def test_sixteen_drafts() -> None:
    assert batch_improvement(DRAFT, TARGET, 16) == pytest.approx(0.27692696, abs=5e-9)


def test_chances_of_the_drafts_in_turn() -> None:
    chances = draft_chances(DRAFT, TARGET, 8)
    assert chances[:5] == pytest.approx([0.3, 0.65, 0.65, 0.842105, 0.85], abs=6e-6)
    for num_drafts in (1, 2, 4, 8):
        expected = FIVE_TOKENS[num_drafts][0]
        assert chances[:num_drafts].prod() == pytest.approx(expected, abs=5e-9)


def test_the_small_chain() -> None:
    counts = scaling(SMALL, [1, 2, 3, 4, 8, math.inf])
    reference = [2.71440771, 2.38347401, 2.21371753, 2.14142474, 2.02958844, 1.97342740]
    assert counts == pytest.approx(reference, abs=5e-9)
    single = [0.266667, 0.273333, 0.271667, 0.271833, 0.271817, 0.271818]
    assert rejections_by_step(SMALL)[:6] == pytest.approx(single, abs=5e-7)
    four = [0.071767, 0.259229, 0.220517, 0.228276, 0.226716, 0.227027]
    assert rejections_by_step(SMALL, 4)[:6] == pytest.approx(four, abs=5e-7)


def test_the_family_of_the_papers_figure() -> None:
    chains = random_chains(10, 7, 50)
    counts = scaling(chains, [1, 2, 3, 4, 5, 8, 16, 32, 1000])
    reference = [
        16.40489, 15.00235, 14.42183, 14.09008, 13.86845, 13.47528, 13.02636, 12.69669, 12.11878,
    ]  # fmt: skip
    assert counts == pytest.approx(reference, abs=5e-6)
    family = [total_rejections(random_chains(1000 + seed, 7, 50)) for seed in range(60)]
    assert (np.mean(family), np.std(family)) == pytest.approx((16.334, 0.292), abs=5e-4)


def test_infinitely_many_drafts_are_proposition_1() -> None:
    """The limit's own recursion, in which nothing is rejected at the root."""
    chains = random_chains(10, 7, 50)
    gain = np.maximum(chains.target_kernels - chains.draft_kernels, 0.0)
    reached, rejected, total = chains.start, chains.start, 0.0
    for step in range(50):
        total += float((reached - rejected) @ gain[step].sum(axis=1))
        rejected = (reached - rejected) @ gain[step]
        reached = reached @ chains.target_kernels[step]
    assert total_rejections(chains, math.inf) == pytest.approx(total, abs=1e-12)
    assert total_rejections(chains, 10**9) == pytest.approx(total, abs=1e-9)


def test_ten_thousand_drafts_are_fast() -> None:
    chains = random_chains(10, 7, 50)
    begun = time.process_time()
    total_rejections(chains, 10_000)
    assert time.process_time() - begun < 0.1


@settings(max_examples=40, deadline=None)
@given(seeds, shapes, stickiness, st.integers(1, 6))
def test_recursion_equals_enumeration(
    seed: int, shape: tuple[int, int], sticky: float, num_drafts: int
) -> None:
    chains = random_chains(seed, *shape, sticky)
    expected = by_enumeration(chains, num_drafts)
    assert total_rejections(chains, num_drafts) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(seeds, shapes, stickiness)
def test_more_drafts_never_hurt_and_never_halve(
    seed: int, shape: tuple[int, int], sticky: float
) -> None:
    chains = random_chains(seed, *shape, sticky)
    counts = scaling(chains, [1, 2, 3, 5, 8, 50, 10_000, math.inf])
    assert np.all(np.diff(counts) <= 1e-9)
    assert counts[-1] >= batch_floor(counts[0]) - 1e-12
    assert counts[0] == lower_bound(chains) <= chains.horizon


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(2, 9), st.integers(1, 300))
def test_jumps_equal_single_drafts(seed: int, size: int, num_drafts: int) -> None:
    draft, target = random_pair(seed, size)
    left = draft_chances(draft, target, num_drafts).prod()
    improvement = total_variation(draft, target) - left
    assert batch_improvement(draft, target, num_drafts) == pytest.approx(improvement, abs=1e-12)


@pytest.mark.parametrize(("num_drafts", "value"), [(2, 0.04), (4, 0.1084), (8, 0.208681)])
def test_coins_as_tabulated(num_drafts: int, value: float) -> None:
    assert bernoulli_improvement(0.9, 0.5, num_drafts) == pytest.approx(value, abs=5e-7)


@pytest.mark.parametrize(("num_drafts", "value"), [(2, 0.1875), (4, 0.433594), (8, 0.649887)])
def test_uniform_distributions_as_tabulated(num_drafts: int, value: float) -> None:
    assert uniform_improvement(4, num_drafts) == pytest.approx(value, abs=5e-7)
    general = batch_improvement([1 / 8] * 8, [0.5, 0.5, *[0.0] * 6], num_drafts)
    assert general == pytest.approx(value, abs=5e-7)


@settings(max_examples=60, deadline=None)
@given(coins, coins, st.integers(1, 500) | st.just(math.inf))
def test_coins_equal_the_general_form(draft: float, target: float, num_drafts: float) -> None:
    general = batch_improvement([draft, 1 - draft], [target, 1 - target], num_drafts)
    assert bernoulli_improvement(draft, target, num_drafts) == pytest.approx(general, abs=1e-9)


def test_limits() -> None:
    assert bernoulli_improvement(1.0, 0.2, math.inf) == 0.0  # a deterministic draft
    assert bernoulli_improvement(0.9, 0.5, math.inf) == pytest.approx(0.4)
    assert uniform_improvement(1, 5) == 0.0
    assert uniform_improvement(1e9, 3) == pytest.approx(0.0, abs=1e-8)
    assert uniform_improvement(4, math.inf) == 0.75
    apart = context_free_chains([1, 0], [0, 1], 8)
    assert scaling(apart, [1, 2, math.inf]) == pytest.approx([8, 8, 8])
    alike = context_free_chains(DRAFT, DRAFT, 8)
    assert scaling(alike, [1, 2, math.inf]) == pytest.approx([0, 0, 0], abs=1e-12)
    assert batch_floor(0.4) == 0.0


@pytest.mark.parametrize("num_drafts", [0, -1, 2.5, math.nan])
def test_rejects_an_invalid_number_of_drafts(num_drafts: float) -> None:
    for refused in (
        lambda: total_rejections(SMALL, num_drafts),
        lambda: uniform_improvement(4, num_drafts),
        lambda: bernoulli_improvement(0.5, 0.5, num_drafts),
    ):
        with pytest.raises(TheoryError, match="number of drafts is"):
            refused()
