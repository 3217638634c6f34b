"""Token-level simulation against exact values: counts, distributions, and wrong rules found."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from specviz.errors import TheoryError
from specviz.theory.alias import alias_table
from specviz.theory.chains import Chains, random_chains
from specviz.theory.examples import REF5
from specviz.theory.rejections import rejections_by_step, total_rejections
from specviz.theory.simulation import (
    Estimate,
    Simulator,
    lossless_rule,
    over_accepting_rule,
)
from specviz.theory.tradeoff import (
    output_distribution,
    over_accept,
    reject_chance,
    residual_distribution,
)
from tests.theory.counting import deviation, worst_deviation
from tests.theory.small_chains import context_free_chains

FIGURE_2 = random_chains(10, 7, 50)
STICKY = random_chains(4, 5, 12, 0.7)
TEXTS = 60_000


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("num_drafts", [1, 2, 4, 5, 16])
@pytest.mark.parametrize("chains", [FIGURE_2, STICKY], ids=["figure 2", "sticky"])
def test_rejections_match_the_theorems(chains: Chains, num_drafts: int) -> None:
    found = Simulator(chains, lossless_rule(chains, num_drafts)).run(TEXTS, rng(num_drafts))
    assert deviation(found.rejections, total_rejections(chains, num_drafts)) < 4
    chances = rejections_by_step(chains, num_drafts)
    spread = np.sqrt(chances * (1 - chances) / TEXTS)
    assert np.all(np.abs(found.rejection_chances - chances) < 4.5 * spread + 1e-12)
    assert worst_deviation(found, chains) < 4.8


def test_detects_a_wrong_recovery_distribution() -> None:
    """The check has enough power: recovering from the target itself fails it clearly."""
    rule = replace(lossless_rule(FIGURE_2), recover=FIGURE_2.target_kernels)
    assert worst_deviation(Simulator(FIGURE_2, rule).run(TEXTS, rng()), FIGURE_2) > 10
    batch = lossless_rule(FIGURE_2, 4)
    early = replace(batch, recover_at_root=batch.recover)  # recovers from the first residual
    assert worst_deviation(Simulator(FIGURE_2, early).run(TEXTS, rng()), FIGURE_2) > 10
    same = replace(batch, accept=np.stack([batch.accept[0]] * 4))  # each against the target
    assert worst_deviation(Simulator(FIGURE_2, same).run(TEXTS, rng()), FIGURE_2) > 10


@pytest.mark.parametrize("epsilon", [0.0, 0.02, 0.1, 0.25])
@pytest.mark.parametrize("recovery", ["residual", "target"])
def test_over_acceptance_at_one_position(epsilon: float, recovery: str) -> None:
    chains = context_free_chains(REF5.draft, REF5.target, 1)
    rule = over_accepting_rule(chains, epsilon, "residual" if recovery == "residual" else "target")
    found = Simulator(chains, rule).run(TEXTS, rng(3))
    accept = over_accept(REF5.draft, REF5.target, epsilon)
    chance = reject_chance(REF5.draft, accept)
    assert found.rejections.mean == pytest.approx(
        chance, abs=4 * math.sqrt(chance * (1 - chance) / TEXTS) + 1e-12
    )
    after = (
        residual_distribution(REF5.draft, REF5.target) if recovery == "residual" else REF5.target
    )
    probs = output_distribution(REF5.draft, REF5.target, accept, after)
    assert np.all(
        np.abs(found.transitions[0].sum(axis=0) / TEXTS - probs) < 4.5 * np.sqrt(probs / TEXTS)
    )


def test_over_acceptance_saves_rejections_and_is_biased() -> None:
    rule = over_accepting_rule(FIGURE_2, 0.1, "residual")
    found = Simulator(FIGURE_2, rule).run(TEXTS, rng())
    assert found.rejections.mean < 0.7 * total_rejections(FIGURE_2)
    assert worst_deviation(found, FIGURE_2) > 10


def test_batches_add_up() -> None:
    simulator = Simulator(STICKY, lossless_rule(STICKY, 3))
    one, two = simulator.run(1_000, rng(1)), simulator.run(500, rng(2))
    both = one + two
    assert both.texts == 1_500
    assert both.rejections.mean == pytest.approx(
        (1_000 * one.rejections.mean + 500 * two.rejections.mean) / 1_500
    )
    assert both.rejections.standard_error < one.rejections.standard_error
    assert np.array_equal(both.transitions, one.transitions + two.transitions)


def test_equal_seeds_give_equal_results() -> None:
    simulator = Simulator(STICKY, lossless_rule(STICKY))
    assert simulator.run(500, rng(9)).rejections == simulator.run(500, rng(9)).rejections
    assert simulator.run(500, rng(9)).rejections != simulator.run(500, rng(8)).rejections


def test_mean_and_error() -> None:
    values = np.array([1.0, 2.0, 4.0, 9.0])
    found = Estimate(count=4, total=values.sum(), squares=float(values @ values))
    assert found.mean == values.mean()
    assert found.standard_error == pytest.approx(values.std(ddof=1) / 2)
    assert Estimate(count=1, total=3, squares=9).interval == (-math.inf, math.inf)


def test_intervals_have_nominal_coverage() -> None:
    simulator, exact = Simulator(STICKY, lossless_rule(STICKY)), total_rejections(STICKY)
    source = rng(5)
    intervals = [simulator.run(200, source).rejections.interval for _ in range(400)]
    inside = sum(low <= exact <= high for low, high in intervals)
    assert 0.95 * 400 - 4 * math.sqrt(400 * 0.95 * 0.05) < inside


def test_extreme_distributions() -> None:
    for draft, target, count in [
        ([1.0, 0.0], [0.0, 1.0], 6),
        ([0.3, 0.7], [0.3, 0.7], 0),
        ([1.0], [1.0], 0),
    ]:
        chains = context_free_chains(draft, target, 6)
        found = Simulator(chains, lossless_rule(chains, 3)).run(100, rng())
        assert found.rejections.mean == count
        assert worst_deviation(found, chains) < 4.8


def test_alias_draws_follow_their_distribution() -> None:
    distributions = rng().dirichlet(np.full(6, 0.3), 4)
    distributions[0] = [0, 0, 1, 0, 0, 0]
    table = alias_table(distributions)
    for row, probs in enumerate(distributions):
        drawn = table.draw(np.full(100_000, row, np.intp), rng(row))
        share = np.bincount(drawn, minlength=6) / 100_000
        assert np.all(np.abs(share - probs) <= 4.5 * np.sqrt(probs / 100_000))


@pytest.mark.parametrize(
    "refused",
    [
        lambda: lossless_rule(STICKY, 0),
        lambda: over_accepting_rule(STICKY, -1, "target"),
        lambda: Simulator(STICKY, lossless_rule(STICKY)).run(0, rng()),
    ],
)
def test_rejects_settings_out_of_range(refused: Callable[[], object]) -> None:
    with pytest.raises(TheoryError):
        refused()


def test_a_million_rejections_a_second() -> None:
    """Several million are usual on one core; one million is the required minimum."""
    simulator, source = Simulator(FIGURE_2, lossless_rule(FIGURE_2)), rng()
    speeds = list[float]()
    for _ in range(3):
        begun = time.process_time()
        rejections = simulator.run(16_384, source).rejections.total
        speeds.append(rejections / (time.process_time() - begun))
    assert max(speeds) > 1e6, speeds
