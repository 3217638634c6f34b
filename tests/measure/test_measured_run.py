"""Measured runs: costs and forecast before the run, the target alone after it."""

from __future__ import annotations

import gc
import math
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.engine.decoding import speculation
from specviz.engine.model.pair import Pair
from specviz.errors import ConfigError
from specviz.figures.metrics import metrics
from specviz.figures.stopping_reach import drafting_costs
from specviz.measure.forecast import measure_profile
from specviz.measure.machine_watch import RecentLoad
from specviz.measure.measured_run import finish, measured_run
from specviz.measure.slice_timing import undisturbed
from specviz.measure.step_costs import step_costs
from specviz.record.prompts import read_presets
from specviz.record.trace import RunConfig, StepCosts, Trace
from specviz.store import load_trace, save_trace
from tests.engine.models import pair_of, tiny_model
from tests.traces import make_costs

CONFIG = RunConfig(gamma=3, max_new_tokens=24, temperature=0.7, ignore_eos=True)
STORIES = [preset.text for preset in read_presets() if preset.kind == "story"]


def run_through(pair: Pair, prompt: str, config: RunConfig, *, baseline: bool = True) -> Trace:
    return finish(measured_run(pair, prompt, config, baseline=baseline))


def test_step_costs_are_measured_after_the_run_or_before_it_on_request(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    monkeypatch.setattr(speculation, "_BATCH", 0.0)
    done: list[str] = []

    def noted(
        _pair: Pair, _config: RunConfig, *, fresh: bool = False, on_progress: object
    ) -> StepCosts:
        done.append("fresh" if fresh else "missing")
        return make_costs()

    monkeypatch.setattr("specviz.measure.measured_run.step_costs", noted)
    run = measured_run(pair, STORIES[0], CONFIG)
    tuple(run)
    assert (done, run.trace().step_costs) == ([], None)
    run.complete()
    run.complete()
    assert (done, run.trace().step_costs) == (["missing"], make_costs())
    measured_run(pair, STORIES[0], CONFIG, fresh_costs=True)
    assert done == ["missing", "fresh"]
    stopped = measured_run(pair, STORIES[0], CONFIG)
    next(stopped)
    stopped.stop()
    assert finish(stopped).step_costs is None


def test_a_run_that_drafts_while_it_pays_measures_costs_first(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, empty_home: Path, tmp_path: Path
) -> None:
    """The trace stores the costs used, and its timed slices replay the same rounds."""
    monkeypatch.setattr("specviz.measure.measured_run.step_costs", lambda *_, **__: make_costs())
    config = replace(CONFIG, draft_until="cost", gamma=5)
    trace = run_through(pair, STORIES[0], config)
    context = len(trace.prompt.token_ids) + config.max_new_tokens / 2
    assert trace.drafting_costs == drafting_costs(make_costs(), context, 5)
    assert len({entry.num_drafted for entry in trace.rounds if entry.whole}) > 1
    assert trace.baseline is not None  # else the timed rounds differed
    assert len(trace.baseline.slices) >= 2
    save_trace(trace, tmp_path / "trace.json")
    assert load_trace(tmp_path / "trace.json") == trace
    assert run_through(pair, STORIES[0], CONFIG, baseline=False).drafting_costs is None


def test_an_early_exit_drafts_while_it_pays(empty_home: Path) -> None:
    """Its own steps are measured before the run."""
    target, prompt = tiny_model("llama"), (5, 17, 101, 42)
    pair = replace(pair_of(target, target, step="lean"), draft=None)
    config = replace(CONFIG, drafter="early-exit:1", draft_until="cost", gamma=5)
    trace = finish(measured_run(pair, prompt, config, baseline=False))
    assert trace.step_costs is not None
    assert trace.drafting_costs is not None
    assert len(trace.step_costs.draft) == 2
    context = len(trace.prompt.token_ids) + config.max_new_tokens / 2
    assert trace.drafting_costs == drafting_costs(trace.step_costs, context, 5)
    greedy = replace(config, temperature=0.0)
    texts = [
        finish(measured_run(pair, prompt, each, baseline=False)).token_ids
        for each in (greedy, replace(greedy, draft_until="count"))
    ]
    assert texts[0] == texts[1]


def test_the_rounds_of_a_tree_have_costs(pair: Pair, empty_home: Path) -> None:
    config = replace(CONFIG, branching=(3, 2, 1))
    costs = run_through(pair, STORIES[0], config, baseline=False).step_costs
    assert costs is not None
    assert costs.shape is not None
    assert costs.shape.shape == (3, 2, 1)
    again = run_through(pair, STORIES[0], config, baseline=False)
    assert again.step_costs == costs
    assert metrics(again).speedup_accounted is not None


@pytest.mark.parametrize("costs", [None, replace(make_costs(), draft=())])
def test_drafting_while_it_pays_needs_costs(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, empty_home: Path, costs: StepCosts | None
) -> None:
    monkeypatch.setattr("specviz.measure.measured_run.step_costs", lambda *_, **__: costs)
    with pytest.raises(ConfigError, match="needs the step costs"):
        measured_run(pair, STORIES[0], replace(CONFIG, draft_until="cost"))


def test_a_run_begun_without_a_forecast_has_none(pair: Pair, empty_home: Path) -> None:
    """Costs and acceptance that become known later do not create a forecast."""
    greedy = replace(CONFIG, temperature=0.0)
    run = measured_run(pair, STORIES[0], greedy, baseline=False)
    measure_profile(pair, greedy, "story")
    trace = finish(run)
    assert trace.step_costs is not None
    assert trace.forecast is None
    assert finish(measured_run(pair, STORIES[0], greedy, baseline=False)).forecast is not None


@pytest.mark.parametrize("step", ["lean", "library"])
def test_each_slice_times_both_lanes_twice(pair: Pair, library_pair: Pair, step: str) -> None:
    chosen = pair if step == "lean" else library_pair
    assert chosen.info.target.step == step
    trace = run_through(chosen, STORIES[0], CONFIG)
    assert trace.baseline is not None
    assert len(trace.token_ids) == 24
    assert len(trace.baseline.slices) >= 2
    for each in trace.baseline.slices:
        assert 0 <= each.first < each.last <= len(trace.rounds)
        assert len(each.target) == len(each.speculative) == 2
        assert all(seconds > 0 for seconds in (*each.target, *each.speculative))
    assert trace.baseline.prefill > 0


def test_the_trace_has_the_yielded_rounds(pair: Pair) -> None:
    expected = step_costs(pair, CONFIG)
    run = measured_run(pair, STORIES[0], CONFIG)
    yielded = tuple(run)
    run.complete()
    trace = run.trace()
    assert trace.rounds == yielded
    assert len(yielded) > 3
    assert (trace.config, trace.finish) == (CONFIG, "length")
    assert (trace.pair, trace.environment) == (pair.info, pair.environment)
    assert (trace.prompt.text, trace.prompt.kind) == (STORIES[0], "story")
    assert trace.prompt.token_ids == tuple(pair.tokenizer(STORIES[0])["input_ids"])
    assert trace.text == pair.token_table.join(trace.token_ids)
    assert trace.step_costs == expected
    assert trace.prefill.target > 0
    assert trace.prefill.draft > 0


def test_any_other_prompt_has_no_kind(pair: Pair) -> None:
    assert measured_run(pair, "My own words", CONFIG).prompt.kind is None
    assert measured_run(pair, [5, 6, 7], CONFIG).prompt.token_ids == (5, 6, 7)


def test_a_stopped_run_has_no_baseline(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speculation, "_BATCH", 0.0)
    run = measured_run(pair, STORIES[0], CONFIG)
    first = next(run)
    run.stop()
    rounds = (first, *run)
    assert len(rounds) == 2  # the second round was under way
    trace = run.trace()
    assert trace.rounds == rounds
    assert (trace.finish, trace.baseline) == ("stopped", None)


def test_a_trace_taken_during_the_run_has_no_baseline(pair: Pair) -> None:
    run = measured_run(pair, STORIES[0], CONFIG)
    rounds = (next(run), next(run))
    trace = run.trace()
    assert (trace.rounds, trace.finish, trace.baseline) == (rounds, "stopped", None)
    assert trace.text == pair.token_table.join(trace.token_ids)


def test_a_stop_after_the_last_round_skips_the_baseline(pair: Pair) -> None:
    run = measured_run(pair, STORIES[0], CONFIG)
    rounds = tuple(run)
    run.stop()
    trace = run.trace()
    assert (trace.rounds, trace.finish, trace.baseline) == (rounds, "length", None)


def test_the_baseline_can_be_left_out(pair: Pair) -> None:
    trace = run_through(pair, STORIES[0], CONFIG, baseline=False)
    assert trace.baseline is None
    assert trace.step_costs is not None
    assert metrics(trace).speedup_observed is None


def test_a_forecast_is_made_before_the_run_from_other_texts(pair: Pair, empty_home: Path) -> None:
    greedy = replace(CONFIG, temperature=0.0)
    step_costs(pair, greedy)
    profile = measure_profile(pair, greedy, "story")
    long = [text for text in profile.texts if len(text.odds) > greedy.gamma]
    run = measured_run(pair, STORIES[0], greedy)
    made = run.forecast
    assert made is not None
    assert (made.kind, made.num_texts) == (
        "story",
        len([t for t in long if t.prompt != STORIES[0]]),
    )
    assert 1.0 <= made.tau <= greedy.gamma + 1
    tuple(run)
    trace = run.trace()
    assert trace.forecast == made
    assert metrics(trace).speedup_forecast == made.speedup


def test_a_forecast_uses_the_load_before_the_run(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[float | None] = []
    monkeypatch.setattr(RecentLoad, "others", lambda _: 0.75)
    monkeypatch.setattr(
        "specviz.measure.measured_run.forecast", lambda *_, load: loads.append(load)
    )
    measured_run(pair, STORIES[0], CONFIG)
    assert loads == [0.75]


def test_no_profile_no_forecast(pair: Pair) -> None:
    run = measured_run(pair, STORIES[0], replace(CONFIG, temperature=0.9))
    next(run)
    assert run.forecast is None
    assert metrics(run.trace()).speedup_forecast is None


@pytest.mark.parametrize("drafter", ["model", "prompt-lookup"])
def test_every_figure_is_known_and_the_trace_round_trips(
    pair: Pair, tmp_path: Path, drafter: str
) -> None:
    config = replace(CONFIG, drafter=drafter)
    step_costs(pair, config)  # on a slow machine, the slices may not cover a whole round
    trace = run_through(pair, STORIES[0], config)
    figures = metrics(trace)
    known = (
        figures.v,
        figures.tau,
        figures.tokens_per_second,
        figures.baseline_tokens_per_second,
        figures.speedup_observed,
        figures.speedup_end_to_end,
        figures.speedup_accounted,
        figures.ttft_ms,
        figures.baseline_ttft_ms,
    )
    assert all(value is not None and math.isfinite(value) and value > 0 for value in known)
    assert figures.c is not None
    assert (figures.c > 0) == (drafter == "model")
    assert figures.speedup_low is not None
    save_trace(trace, tmp_path / "trace.json")
    assert load_trace(tmp_path / "trace.json") == trace


def test_timed_blocks_disable_garbage_collection() -> None:
    assert gc.isenabled()
    with undisturbed():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), undisturbed():
        _ = 1 // 0
    assert gc.isenabled()
