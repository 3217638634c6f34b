"""Measured step costs: shape, timing, limits, progress and errors of the table."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from specviz.engine import decode_plainly
from specviz.engine.decoding.cost_columns import MAX_TOKENS, Cell, Column
from specviz.engine.decoding.costs import _drift, measure_step_costs
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Draws
from specviz.engine.decoding.target_pass import TargetPass
from specviz.engine.model.pair import Pair
from specviz.engine.model.steps import Step
from specviz.record.pairs import Progress, ProgressCallback
from specviz.record.trace import RunConfig, StepCosts
from tests.engine.models import noisy_copy, pair_of, tiny_model
from tests.engine.spies import watch

CONTEXTS = (8, 40, 100)


def measured(
    pair: Pair,
    config: RunConfig,
    *,
    contexts: tuple[int, ...],
    repeats: int = 12,
    seconds: float = 60.0,
    on_progress: ProgressCallback | None = None,
) -> StepCosts:
    table = measure_step_costs(
        pair, config, contexts=contexts, repeats=repeats, seconds=seconds, on_progress=on_progress
    )
    assert table is not None
    return table


@pytest.mark.parametrize(
    ("step", "temperature"),
    [
        pytest.param("lean", 0.0, marks=pytest.mark.thorough),
        ("lean", 1.0),
        pytest.param("library", 0.0, marks=pytest.mark.thorough),
        pytest.param("library", 1.0, marks=pytest.mark.thorough),
    ],
)
def test_a_row_for_each_count_and_a_column_for_each_context(step: str, temperature: float) -> None:
    target = tiny_model("llama")
    pair = pair_of(target, noisy_copy(target), step=step)
    settings = RunConfig(temperature=temperature, max_new_tokens=10, ignore_eos=True)
    before = list(decode_plainly(pair, (5, 6, 7), settings))
    table = measured(pair, settings, contexts=CONTEXTS, repeats=2)
    assert table.contexts == CONTEXTS
    assert (len(table.draft), len(table.target)) == (2, MAX_TOKENS)
    for row in (*table.draft, table.draft_next, *table.target):
        assert len(row) == len(CONTEXTS)
        assert all(0.0 < seconds < 1.0 for seconds in row)
    assert list(decode_plainly(pair, (5, 6, 7), settings)) == before


def test_without_a_draft_there_are_no_draft_rows() -> None:
    pair = pair_of(tiny_model("llama"), None)
    settings = RunConfig(drafter="prompt-lookup")
    table = measured(pair, settings, contexts=(8,), repeats=1)
    assert table.draft == table.draft_next == ()
    assert table.target[0][0] > 0.0


@pytest.mark.parametrize("step", ["library", "lean"])
def test_an_early_exit_has_steps_of_its_own(step: str) -> None:
    pair = replace(pair_of(tiny_model("llama"), tiny_model("llama"), step=step), draft=None)
    table = measured(pair, RunConfig(drafter="early-exit:1"), contexts=(8, 40), repeats=1)
    assert (len(table.draft), len(table.draft_next)) == (2, 2)
    assert all(seconds > 0.0 for row in (*table.draft, table.draft_next) for seconds in row)
    assert table.shape is None


@pytest.mark.parametrize(
    ("step", "settings", "shape"),
    [
        ("lean", RunConfig(branching=(3, 2, 1)), (3, 2, 1)),
        pytest.param(
            "lean", RunConfig(branching=(6, 4), temperature=0.0), (6, 4), marks=pytest.mark.thorough
        ),
        ("lean", RunConfig(num_drafts=4, gamma=2), (4, 1)),
        ("lean", RunConfig(gamma=3, dynamic_tree=(3, 8)), (1, 1, 1)),
        pytest.param(
            "library", RunConfig(branching=(3, 2, 1)), (3, 2, 1), marks=pytest.mark.thorough
        ),
        pytest.param(
            "library",
            RunConfig(branching=(6, 4), temperature=0.0),
            (6, 4),
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "library", RunConfig(num_drafts=4, gamma=2), (4, 1), marks=pytest.mark.thorough
        ),
    ],
)
def test_trees_have_their_own_costs(
    monkeypatch: pytest.MonkeyPatch,
    clock: list[float],
    slowed: Callable[[float], Pair],
    step: str,
    settings: RunConfig,
    shape: tuple[int, ...],
) -> None:
    """Its rows under their mask take longer than any chain of 17 tokens shows."""
    rows, a_row = list[int](), 0.003
    check = TargetPass.check

    def by_row(self: TargetPass, pending: int, proposal: Proposal, draws: Draws) -> Any:
        if proposal.parents is not None:
            rows.append(len(proposal.token_ids) + 1)
            clock[0] += a_row * rows[-1]
        return check(self, pending, proposal, draws)

    monkeypatch.setattr(TargetPass, "check", by_row)
    slowed(0.001)
    target = tiny_model("llama")
    pair = pair_of(target, noisy_copy(target), step=step)
    table = measured(pair, settings, contexts=(8, 40), repeats=2)
    assert set(rows) == {settings.most_candidates + 1}
    assert table.shape is not None
    assert (table.shape.shape, table.shape.dynamic) == (shape, settings.dynamic_tree)
    longest_chain = max(max(row) for row in table.target)
    assert min(table.shape.verify) > longest_chain
    assert all(seconds > 0.0 for seconds in table.shape.draft)
    assert (table.samples, table.interpolated) == (None, ())


def test_each_step_is_timed_at_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that grew during the measurement would time the wrong context."""
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
    table = measured(pair, RunConfig(), contexts=(64 - MAX_TOKENS,), repeats=1)
    assert table.target[-1][0] > 0.0
    assert torch.tensor(table.target).isfinite().all()


def test_drift_is_that_of_the_slowest_part() -> None:
    assert _drift([1.0] * 48) == 0.0
    assert _drift([1.0] * 12 + [1.3] * 12 + [1.0] * 24) == pytest.approx(0.3)
    assert _drift([1.0, 1.0, 9.0] * 16) == 0.0  # a few long steps are no drift


# The time limit


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the engine reads. Only what a test adds passes, so it is exact."""
    now = [0.0]

    def read() -> float:
        now[0] += 1e-6
        return now[0]

    monkeypatch.setattr(time, "perf_counter", read)
    return now


@pytest.fixture
def slowed(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> Callable[[float, float], Pair]:
    """A pair whose feeds take a fixed time plus a time per token."""

    def made(seconds: float, seconds_a_token: float = 0.0) -> Pair:
        class SlowStep:
            def __init__(self, step: Step) -> None:
                self._step = step

            def __getattr__(self, name: str) -> Any:
                return getattr(self._step, name)

            def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
                clock[0] += seconds + seconds_a_token * len(token_ids)
                return self._step.feed(token_ids, num_logits)

        for name in ("target_step", "draft_step"):
            fresh = getattr(Pair, name)
            monkeypatch.setattr(Pair, name, lambda *given, fresh=fresh: SlowStep(fresh(*given)))
        target = tiny_model("llama", num_hidden_layers=1)
        return pair_of(target, noisy_copy(target), step="lean")

    return made


def took(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def test_a_whole_table_is_measured_in_time(slowed: Any) -> None:
    table = measured(slowed(0.001), RunConfig(), contexts=(8,), repeats=2)
    assert (table.samples, table.interpolated) == (None, ())
    assert not table.sparse


def test_a_short_measurement_is_a_whole_table_of_few_samples(slowed: Any) -> None:
    pair = slowed(0.002)
    began = time.perf_counter()
    table = measured(pair, RunConfig(), contexts=(8, 40), seconds=1.0)
    assert time.perf_counter() - began < 1.1
    assert (table.contexts, len(table.target), table.interpolated) == ((8,), MAX_TOKENS, ())
    half = 0.001  # costs are in units of neighbouring plain steps, which vary
    assert all(cost >= half for row in (*table.draft, *table.target) for cost in row)
    assert table.samples is not None
    assert table.sparse == (table.samples < 6)
    assert measured(pair, RunConfig(), contexts=(8, 40), seconds=6.0).contexts == (8, 40)


def test_with_little_time_a_single_context_gets_enough_samples(slowed: Any) -> None:
    """In the usual rows, a third of the steps are not counted, and the time would not suffice."""
    table = measured(slowed(0.004), RunConfig(), contexts=(8, 40), seconds=2.5)
    assert (table.contexts, table.interpolated) == ((8,), ())
    assert not table.sparse


def test_missing_costs_are_interpolated(slowed: Any) -> None:
    """Steps so slow that a column is incomplete."""
    pair = slowed(0.02, 0.002)
    table = measured(pair, RunConfig(gamma=7), contexts=(8, 40), seconds=0.5)
    assert (table.contexts, table.samples) == ((8,), 0)
    assert table.interpolated
    assert not {2, 8, MAX_TOKENS} & set(table.interpolated)
    costs = [row[0] for row in table.target]
    for tokens in table.interpolated:
        known = [n for n in range(2, MAX_TOKENS + 1) if n not in table.interpolated]
        left, right = max(n for n in known if n < tokens), min(n for n in known if n > tokens)
        share = (tokens - left) / (right - left)
        between = (1 - share) * costs[left - 1] + share * costs[right - 1]
        assert costs[tokens - 1] == pytest.approx(between)


@pytest.mark.parametrize("context", [8, 1000])
def test_without_a_column_there_is_no_table(slowed: Any, context: int) -> None:
    """Neither a step nor reading a long context exceeds the limit by much."""
    pair = slowed(0.0, 0.02)
    seconds = took(lambda: measure_step_costs(pair, RunConfig(), contexts=(context,), seconds=0.2))
    assert seconds < 1.5
    assert measure_step_costs(pair, RunConfig(), contexts=(context,), seconds=0.001) is None
    table = measure_step_costs(pair, RunConfig(), contexts=(8, context), seconds=1.5)
    assert table is None or table.contexts == (8,)


def test_all_costs_have_similar_numbers_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever it is stopped: checked at every tenth of the work."""
    columns: list[Column] = []
    begin = Column.begin
    monkeypatch.setattr(
        Column, "begin", lambda self, order: (columns.append(self), begin(self, order))
    )
    unlike: list[int] = []

    def look(_progress: Progress) -> None:
        counts = [len(cell.counted) for each in columns for cell in each.verifications.values()]
        unlike.append(max(counts, default=0) - min(counts, default=0))

    target = tiny_model("llama", num_hidden_layers=1)
    pair = pair_of(target, noisy_copy(target), step="lean")
    measured(pair, RunConfig(), contexts=(8, 40), repeats=12, on_progress=look)
    assert {len(cell.counted) for cell in columns[0].verifications.values()} == {12}
    assert len(columns[0].plain.counted) == 4 * 16 * 2
    assert len(unlike) >= 10
    assert max(unlike) <= 4


def test_reports_progress_by_tenths_and_can_be_stopped(slowed: Any) -> None:
    reports: list[Progress] = []
    measured(slowed(0.001), RunConfig(), contexts=(8,), repeats=1, on_progress=reports.append)
    texts = [each.text for each in reports]
    assert texts[0] == "measuring step costs: 0 %"
    assert texts == list(dict.fromkeys(texts))
    assert len(texts) >= 9
    assert {each.activity for each in reports} == {"measuring"}

    def stop(_progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured(slowed(0.001), RunConfig(), contexts=(8,), on_progress=stop)


def test_the_interval_of_a_median_covers_it() -> None:
    """In about 95 % of samples of times with rare long ones and median 10.283 ms."""
    draws = np.random.default_rng(5)
    held = 0
    for _ in range(1000):
        times = 0.01 * np.exp(draws.normal(0, 0.2, 24)) * np.where(draws.random(24) < 0.1, 5, 1)
        cell = Cell(counted=times.tolist())
        held += abs(cell.seconds() - 0.010283) <= cell.error * cell.seconds()
    assert 0.90 <= held / 1000 <= 0.995
    assert Cell(counted=[0.01] * 5).error == 1.0
    assert Cell(counted=[0.01] * 6).error == 0.0
