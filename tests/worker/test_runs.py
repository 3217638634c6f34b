"""Runs in the worker process: their rounds; stopped, failed and complete runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from specviz.engine import load_pair, speculate
from specviz.engine.decoding import speculation
from specviz.engine.model.pair import Pair
from specviz.errors import PromptError
from specviz.figures.metrics import metrics
from specviz.measure.measured_run import measured_run
from specviz.player.round_values import prompt_texts
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.store import load_trace, save_trace
from specviz.worker.child.process import Process
from specviz.worker.messages import Event, RunRequest, RunRound
from specviz.worker.parent.client import Worker
from tests.engine.models import CHAT_TEMPLATE, write_pair
from tests.step_costs import place_step_costs
from tests.traces import make_costs
from tests.worker.waiting import finish, untimed, wait_for_rounds, wait_until

pytestmark = pytest.mark.timeout(180)

PROMPT = "Tom had a big red ball and"
CONFIG = RunConfig(gamma=4, max_new_tokens=48, ignore_eos=True)
LONG = replace(CONFIG, max_new_tokens=1000)


def test_rounds_arrive_once_and_in_order(worker: Worker, spec: PairSpec, pair: Pair) -> None:
    expected = speculate(pair, PROMPT, CONFIG)
    rounds = [untimed(entry) for entry in expected]
    run = finish(worker.submit("a", spec, PROMPT, CONFIG))
    assert (run.state, run.error, run.detail, run.place) == ("done", None, "", 0)
    assert [untimed(entry) for entry in run.rounds] == rounds
    assert len(rounds) > 5
    assert all(entry.times.decode > 0 for entry in run.rounds)
    assert run.trace is not None
    assert run.trace.text == expected.text


@pytest.mark.parametrize("template", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_a_template_that_the_caller_does_not_know_is_used(
    worker: Worker, tmp_path: Path, template: bool
) -> None:
    words = CHAT_TEMPLATE if template else None
    folder = write_pair(tmp_path, num_hidden_layers=1, chat_template=words)
    asked = PairSpec(draft=str(folder / "draft"), target=str(folder / "target"), threads=1)
    config = replace(CONFIG, max_new_tokens=8)
    place_step_costs(load_pair(asked))  # otherwise they are measured
    prompts: list[str] = []
    for detects in (True, False):
        run = finish(worker.submit("a", asked, PROMPT, config, detects_chat=detects))
        assert run.trace is not None
        assert run.config == run.trace.config == replace(config, chat=detects and template)
        prompts.append("".join(run.trace.prompt.token_texts))
    assert (prompts[0] != prompts[1]) is template


def test_joins_characters_split_over_tokens(worker: Worker, spec: PairSpec) -> None:
    prompt = "Der Fuchs springt über ’n Bach 🙂"
    run = finish(worker.submit("a", spec, prompt, replace(CONFIG, max_new_tokens=8)))
    trace = run.trace
    assert trace is not None
    assert "\ufffd" in "".join(trace.prompt.token_texts)
    assert "".join(prompt_texts(trace)) == prompt
    assert {"128", "121"} <= set(trace.pieces)
    assert len(trace.pieces) < 128  # only those in the trace, not the whole vocabulary


def test_trace_is_complete(worker: Worker, spec: PairSpec, pair: Pair, tmp_path: Path) -> None:
    run = finish(worker.submit("a", spec, PROMPT, CONFIG))
    trace = run.trace
    assert trace is not None
    save_trace(trace, tmp_path / "trace.json")
    assert load_trace(tmp_path / "trace.json") == trace
    assert trace.rounds == tuple(run.rounds)
    assert (trace.config, trace.finish, trace.pair) == (CONFIG, "length", pair.info)
    assert trace.prompt == run.prompt
    assert trace.environment.threads == 1
    assert trace.step_costs is not None
    assert (trace.step_costs.table, trace.step_costs.contexts) == (True, make_costs().contexts)
    assert trace.baseline is not None
    assert {each.first for each in trace.baseline.slices} >= {0}
    assert len(trace.baseline.slices) >= 2


def test_baseline_can_be_left_out(worker: Worker, spec: PairSpec) -> None:
    run = finish(worker.submit("a", spec, PROMPT, CONFIG, baseline=False))
    assert run.state == "done"
    assert run.trace is not None
    assert (run.trace.baseline, run.trace.finish) == (None, "length")


def test_state_before_the_first_round(worker: Worker, spec: PairSpec) -> None:
    run = worker.submit("a", spec, PROMPT, LONG)
    wait_for_rounds(run, 1)
    assert (run.state, run.place, run.trace) == ("running", 0, None)
    assert run.prompt is not None
    assert run.prompt.text == PROMPT
    known = run.so_far()
    assert known is not None
    assert known.environment.threads == 1
    assert known.step_costs is not None
    assert (known.step_costs.table, known.step_costs.contexts) == (True, make_costs().contexts)


def test_stop_takes_effect_within_a_round(worker: Worker, spec: PairSpec) -> None:
    run = worker.submit("a", spec, PROMPT, LONG)
    wait_for_rounds(run, 3)
    run.stop()
    assert wait_until(lambda: run.finished) < 2.0
    assert (run.state, run.error) == ("stopped", None)
    assert run.trace is not None
    assert run.trace.rounds == tuple(run.rounds)
    assert (run.trace.finish, run.trace.baseline) == ("stopped", None)


def test_stopped_run_ends_with_its_current_round(
    spec: PairSpec, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speculation, "_BATCH", 0.0)
    sent: list[Event] = []
    process = SimpleNamespace(
        _send=sent.append, _inbox=SimpleNamespace(stopped=lambda _id: len(sent) >= 3)
    )
    request = RunRequest(id="own", spec=spec, prompt=PROMPT, config=LONG, baseline=False)
    run = measured_run(pair, PROMPT, LONG, baseline=False)
    Process._play(cast("Process", process), request, run)
    trace = run.trace()
    assert sent == [RunRound(run_id="own", entry=entry) for entry in trace.rounds]
    assert (len(sent), trace.finish) == (4, "stopped")  # one round was being recorded


def test_timing_is_reported_while_it_runs_and_kept_after_a_stop(
    worker: Worker, spec: PairSpec
) -> None:
    run = worker.submit("a", spec, PROMPT, CONFIG, budget=60)
    seen: list[int] = []

    def pairs() -> int:
        so_far = run.so_far()
        timed = so_far.baseline.slices if so_far and so_far.baseline else ()
        seen.append(len(timed))
        return len(timed)

    wait_until(lambda: pairs() >= 3)
    assert (run.state, run.detail) == ("running", "timing the target alone")
    known = run.so_far()
    assert known is not None
    assert (known.finish, len(known.token_ids)) == ("length", 48)
    run.stop()
    assert wait_until(lambda: run.finished) < 2.0
    assert (run.state, run.error) == ("done", None)
    assert run.trace is not None
    assert run.trace.baseline is not None
    assert len(run.trace.baseline.slices) >= 3
    figures = metrics(run.trace)
    assert figures.speedup_low is not None
    assert set(range(1, 4)) <= set(seen)


def test_step_costs_report_progress_and_end_with_a_stop(worker: Worker, spec: PairSpec) -> None:
    """A run too short for costs of its own is followed by a table; a stop loses nothing else."""
    unmeasured = replace(CONFIG, top_k=7, max_new_tokens=4)
    run = worker.submit("a", spec, PROMPT, unmeasured)

    def timed() -> bool:
        """Return whether costs are measured for this run, not for one before it."""
        return (so_far := run.so_far()) is not None and so_far.baseline is not None

    wait_until(lambda: timed() and run.detail.startswith("measuring step costs: "))
    run.stop()
    assert wait_until(lambda: run.finished) < 2.0
    assert run.state == "done"
    assert run.trace is not None
    assert run.trace.baseline is not None
    assert run.trace.step_costs is None
    other = worker.submit("a", spec, PROMPT, CONFIG, baseline=False)
    assert wait_until(lambda: other.rounds) < 3.0  # of a measurement of up to ten seconds
    assert finish(other).state == "done"


def test_finished_run_does_not_change(worker: Worker, spec: PairSpec) -> None:
    run = finish(worker.submit("a", spec, PROMPT, CONFIG, baseline=False))
    trace = run.trace
    run.stop()
    assert (run.state, run.trace) == ("done", trace)


def test_passes_user_errors_unchanged(worker: Worker, spec: PairSpec) -> None:
    run = finish(worker.submit("a", spec, "", CONFIG))
    assert run.state == "failed"
    assert isinstance(run.error, PromptError)
    assert (run.error.culprit, run.trace) == ("The prompt is empty.", None)
    assert worker.status().state == "ready"


def test_names_unexpected_errors_and_continues(worker: Worker, spec: PairSpec) -> None:
    finish(worker.submit("a", spec, PROMPT, CONFIG, baseline=False))
    pid = worker.pid
    run = finish(worker.submit("a", spec, cast("str", 7), CONFIG))
    assert run.state == "failed"
    assert run.error is not None
    assert "AttributeError: " in run.error.culprit
    assert run.error.remedy.startswith("Run again.")
    assert finish(worker.submit("a", spec, PROMPT, CONFIG, baseline=False)).state == "done"
    assert worker.pid == pid


def test_calls_return_at_once(worker: Worker, spec: PairSpec) -> None:
    run = worker.submit("a", spec, PROMPT, LONG)
    wait_for_rounds(run, 1)
    again = worker.submit("a", spec, PROMPT, CONFIG)
    worker.status()
    again.stop()
    worker.prepare(spec)
    assert not run.finished  # it takes several seconds
