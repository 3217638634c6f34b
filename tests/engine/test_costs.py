"""Step costs: the table has its shape, and measuring leaves the pair as it was."""

from __future__ import annotations

import pytest
import torch

from specviz.engine import plain
from specviz.engine.costs import MAX_TOKENS, _drift, measure_step_costs
from specviz.trace import RunConfig
from tests.engine.models import noisy_copy, pair_of, tiny_model
from tests.engine.spies import watch

CONTEXTS = (8, 40, 100)


@pytest.mark.parametrize("step", ["library", "lean"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_for_each_count_and_a_column_for_each_context(step: str, temperature: float) -> None:
    target = tiny_model("llama")
    pair = pair_of(target, noisy_copy(target), step=step)
    settings = RunConfig(temperature=temperature, max_new_tokens=10, ignore_eos=True)
    before = list(plain(pair, (5, 6, 7), settings))
    table = measure_step_costs(pair, settings, contexts=CONTEXTS, repeats=2)
    assert table.contexts == CONTEXTS
    assert (len(table.draft), len(table.target)) == (2, MAX_TOKENS)
    for row in (*table.draft, table.draft_next, *table.target):
        assert len(row) == len(CONTEXTS)
        assert all(0.0 < seconds < 1.0 for seconds in row)
    assert list(plain(pair, (5, 6, 7), settings)) == before


def test_without_a_draft_there_are_no_draft_rows() -> None:
    pair = pair_of(tiny_model("llama"), None)
    settings = RunConfig(drafter="prompt-lookup")
    table = measure_step_costs(pair, settings, contexts=(8,), repeats=1)
    assert table.draft == table.draft_next == ()
    assert table.target[0][0] > 0.0


def test_each_step_is_timed_at_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that grew while it was measured would price the wrong context."""
    notes = watch(monkeypatch)
    target = tiny_model("llama")
    pair = pair_of(target, noisy_copy(target), step="lean")
    measure_step_costs(pair, RunConfig(), contexts=(30,), repeats=2)
    plain_lane, verifier = notes.targets
    assert {(len(f.before), len(f.fed)) for f in plain_lane.feeds[1:]} == {(30, 1)}
    verified = {(len(f.before), len(f.fed), f.num_logits) for f in verifier.feeds[1:]}
    assert verified == {(30, n, n) for n in range(2, MAX_TOKENS + 1)}
    (draft,) = notes.drafts
    fed = {(len(f.before), len(f.fed)) for f in draft.feeds[1:]}
    assert fed == {(30, 1), (30, 2), (31, 1), (32, 1), (33, 1)}  # later steps follow the first


def test_a_table_up_to_the_end_of_the_context() -> None:
    target = tiny_model("gpt2", n_positions=64)
    pair = pair_of(target, noisy_copy(target), max_context=64)
    table = measure_step_costs(pair, RunConfig(), contexts=(64 - MAX_TOKENS,), repeats=1)
    assert table.target[-1][0] > 0.0
    assert torch.tensor(table.target).isfinite().all()


def test_drift_is_that_of_the_slowest_part() -> None:
    assert _drift([1.0] * 48) == 0.0
    assert _drift([1.0] * 12 + [1.3] * 12 + [1.0] * 24) == pytest.approx(0.3)
    assert _drift([1.0, 1.0, 9.0] * 16) == 0.0  # a few long steps are no drift
