"""The forecast of batches agrees with the speedup formula, and the map with the forecast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specviz.figures.batch_forecast import (
    batch_map,
    batch_speedup,
    best_gamma,
    break_even_batch,
    independent_experts,
)
from specviz.record.batch_costs import BatchAcceptance
from specviz.theory.speed import expected_tokens, speedup
from tests.batch_forecasts import ACCEPTANCE, BATCHES, CONTEXTS, batch_costs, batch_forecast


@pytest.mark.parametrize("batch", BATCHES[:5])
def test_with_independent_acceptance_it_is_the_formula(batch: int) -> None:
    costs, alpha = batch_costs(), 0.8
    reached = tuple(alpha**place for place in range(1, 6))
    acceptance = BatchAcceptance(alpha=alpha, reached=reached, rounds=1, other=0.0)
    assert acceptance.tokens(5) == pytest.approx(expected_tokens(alpha, 5))
    plain = costs.plain_step(batch, 256)
    c = costs.draft_phase(batch, 256, 5, fed_more=alpha**5) / 5 / plain
    expected = speedup(alpha, 5, c, costs.v(batch, 256, 5))
    assert batch_speedup(costs, acceptance, batch, 256, 5) == pytest.approx(expected)


def test_overhead_counts_once_per_sequence() -> None:
    costs = batch_costs()
    without, slow = (replace(ACCEPTANCE, other=seconds) for seconds in (0.0, 1e-3))
    for batch in (1, 8):
        round_seconds = (
            ACCEPTANCE.tokens(5)
            * costs.plain_step(batch, 256)
            / batch_speedup(costs, without, batch, 256, 5)
        )
        ratio = batch_speedup(costs, without, batch, 256, 5) / batch_speedup(
            costs, slow, batch, 256, 5
        )
        assert ratio == pytest.approx(1.0 + batch * 1e-3 / round_seconds)


def test_a_batch_of_one_sequence_has_free_rows_and_a_large_one_has_none() -> None:
    costs = batch_costs()
    assert costs.v(1, 256, 5) == pytest.approx(1.0)
    assert costs.v(64, 256, 5) > 3.0
    speeds = [batch_speedup(costs, ACCEPTANCE, batch, 256, 5) for batch in BATCHES]
    assert speeds[0] > 2.0
    assert speeds == sorted(speeds, reverse=True)


def test_the_best_number_of_candidates_falls_with_the_batch() -> None:
    costs = batch_costs()
    found = [best_gamma(costs, ACCEPTANCE, batch, 256) for batch in BATCHES]
    assert [gamma for gamma, _ in found] == sorted((gamma for gamma, _ in found), reverse=True)
    assert all(value >= 1.0 for _, value in found)


def test_without_a_faster_number_of_candidates_none_is_best() -> None:
    nothing = BatchAcceptance(alpha=0.0, reached=(0.0,) * 5, rounds=9, other=0.0)
    assert best_gamma(batch_costs(), nothing, 4, 256) == (0, 1.0)


def test_the_map_has_every_point_that_fits() -> None:
    rows = batch_map(batch_forecast())
    assert [row[0].context for row in rows] == list(CONTEXTS)
    assert all(each.speedup is not None for each in rows[0])
    assert [each.batch for each in rows[-1] if each.speedup is None] == [32, 64]
    assert break_even_batch(rows[0]) == next(e.batch for e in rows[0] if (e.fixed or 1.0) < 1.0)


def test_independent_experts_match_a_simulation() -> None:
    generator = np.random.default_rng(0)
    assert independent_experts(8, 2, 1) == pytest.approx(2.0)
    distinct = [
        len({int(e) for _ in range(6) for e in generator.choice(8, 2, replace=False)})
        for _ in range(4000)
    ]
    assert independent_experts(8, 2, 6) == pytest.approx(np.mean(distinct), abs=0.06)
