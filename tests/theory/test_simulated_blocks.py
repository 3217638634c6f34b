"""Simulated block verification: the target's distribution, exact counts, and a known bug found."""

from __future__ import annotations

import numpy as np
import pytest

from specviz.errors import TheoryError
from specviz.theory.alias import Indices
from specviz.theory.chains import Chains, Floats, random_chains
from specviz.theory.examples import SWAPPED
from specviz.theory.rejections import lower_bound, total_rejections
from specviz.theory.simulated_blocks import BlockSimulator
from tests.theory.counting import block_rejections, deviation, worst_deviation
from tests.theory.small_chains import context_free_chains, steady_chains

STICKY = random_chains(4, 3, 6, 0.5)
SWAPPED_12 = context_free_chains(SWAPPED.draft, SWAPPED.target, 12)
TEXTS = 40_000


class Forgetful(BlockSimulator):
    """A known bug: recover from the plain residual, ignoring the accepted block's weight."""

    def _recovered(self, weight: Floats, row: Indices, rng: np.random.Generator) -> Indices:
        return super()._recovered(np.ones_like(weight), row, rng)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_emits_the_target_distribution() -> None:
    found = BlockSimulator(STICKY).run(TEXTS, rng())
    assert worst_deviation(found, STICKY) < 4.5


def test_detects_a_forgotten_weight() -> None:
    source = rng(3)
    uneven = np.full(4, 0.5)
    chains = steady_chains(source.dirichlet(uneven, 4), source.dirichlet(uneven, 4), 8)
    forgetful, sound = Forgetful(chains), BlockSimulator(chains)
    assert worst_deviation(forgetful.run(2 * TEXTS, rng()), chains) > 8
    assert worst_deviation(sound.run(2 * TEXTS, rng()), chains) < 4.5


def test_rejections_match_the_exact_count() -> None:
    found = BlockSimulator(STICKY).run(TEXTS, rng(6))
    assert deviation(found.rejections, block_rejections(STICKY)) < 4


def test_goes_below_the_bound_of_class_f() -> None:
    """The bound applies to verdicts that do not depend on later candidates."""
    found = BlockSimulator(SWAPPED_12).run(TEXTS, rng())
    assert lower_bound(SWAPPED_12) == pytest.approx(4)
    assert found.rejections.interval[1] < 2.5
    assert deviation(found.rejections, block_rejections(SWAPPED_12)) < 4
    assert worst_deviation(found, SWAPPED_12) < 4.5


def test_extreme_distributions() -> None:
    cases: list[tuple[Chains, float]] = [
        (context_free_chains([1.0, 0.0], [0.0, 1.0], 6), 6),
        (context_free_chains([0.3, 0.7], [0.3, 0.7], 6), 0),
        (context_free_chains([1.0], [1.0], 6), 0),
        (context_free_chains([0.5, 0.5, 0.0], [0.5, 0.0, 0.5], 6), -1),
    ]
    for chains, count in cases:
        found = BlockSimulator(chains).run(500, rng())
        assert worst_deviation(found, chains) < 4.8
        if count >= 0:
            assert found.rejections.mean == count == total_rejections(chains)


def test_counts_are_consistent() -> None:
    found = BlockSimulator(STICKY).run(1_000, rng()) + BlockSimulator(STICKY).run(500, rng(1))
    assert found.texts == 1_500
    assert found.rejected_at.sum() == found.rejections.total
    assert found.transitions.sum() == 1_500 * STICKY.horizon


def test_rejects_zero_texts() -> None:
    with pytest.raises(TheoryError):
        BlockSimulator(STICKY).run(0, rng())
