"""Step costs of batches: what is measured, and the contexts that fit."""

from __future__ import annotations

import itertools

import pytest

from specviz.engine.model.pair import Pair
from specviz.engine.model.pass_bytes import pass_bytes
from specviz.measure import batch_costs
from specviz.measure.batch_costs import contexts_of, measure_batch_costs
from specviz.record.run_config import RunConfig


def test_every_row_count_is_measured(pair: Pair) -> None:
    found = measure_batch_costs(
        pair, RunConfig(temperature=0.7), batches=(1, 3), contexts=(16, 40), gammas=(2, 5)
    )
    assert [len(row) for grid in (found.plain, *found.draft, *found.verify) for row in grid] == [
        2
    ] * 10
    assert found.verification(3, 28, 5) == pytest.approx(sum(found.verify[1][1]) / 2)
    assert all(value > 0 for grid in found.verify for row in grid for value in row)


def test_only_the_given_clock_counts(pair: Pair) -> None:
    ticks = itertools.count()
    found = measure_batch_costs(
        pair, RunConfig(), batches=(2,), contexts=(16,), gammas=(1,), clock=lambda: next(ticks)
    )
    assert found.plain == ((1.0,),)
    assert found.draft_phase(2, 16, 1) == 1.0
    assert found.draft_phase(2, 16, 4) == pytest.approx(1.0)  # longer phases took no longer


def test_a_row_ends_at_the_longest_context_that_fits(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = [pass_bytes(each) for each in (pair.target, pair.draft) if each is not None]
    token = sum(each.cache for each in reads if each)
    monkeypatch.setattr(batch_costs, "_free_memory", lambda _: 2 * 50 * token)
    found = measure_batch_costs(
        pair, RunConfig(), batches=(1, 2, 4), contexts=(16, 40), gammas=(1,)
    )
    assert [len(row) for row in found.plain] == [2, 1, 0]
    assert found.fits(1, 40)
    assert not found.fits(2, 40)


def test_contexts_reach_the_longest_of_the_pair(pair: Pair) -> None:
    assert contexts_of(pair)[0] == 256
    assert contexts_of(pair)[-1] == (pair.max_context or 0) - 32
