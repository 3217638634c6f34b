"""Loaded pairs: prepared, evicted, unloaded, cancelled, rejected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specviz.engine import load_pair
from specviz.engine.model.pair import Pair
from specviz.errors import PairError
from specviz.measure.forecast import stored_profile
from specviz.measure.step_costs import costs_key, step_costs
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig, StepCosts
from specviz.store import data_folder, load_value, save_value
from specviz.worker.parent.client import Worker
from tests.traces import make_costs
from tests.worker.waiting import finish, wait_for_rounds, wait_until

pytestmark = pytest.mark.timeout(180)

PROMPT = "The dog ran to"
SHORT = RunConfig(gamma=3, max_new_tokens=16, ignore_eos=True)
LONG = replace(SHORT, max_new_tokens=400)


def test_another_pair_replaces_the_first(
    worker: Worker, spec: PairSpec, other_spec: PairSpec
) -> None:
    for asked in (spec, other_spec, spec):
        run = finish(worker.submit("a", asked, PROMPT, SHORT, baseline=False))
        assert (run.state, run.error) == ("done", None)
        status = worker.status()
        assert (status.state, status.spec) == ("ready", asked)
        assert run.trace is not None
        assert run.trace.pair.name == asked.label
        assert status.memory_bytes is not None
        assert status.memory_bytes > 10**8


def test_missing_pair_fails_only_its_run(worker: Worker, spec: PairSpec) -> None:
    pid_before = finish(worker.submit("a", spec, PROMPT, SHORT)) and worker.pid
    run = finish(worker.submit("a", PairSpec(name="no such pair"), PROMPT, SHORT))
    status = worker.status()
    assert (run.state, status.state) == ("failed", "failed")
    assert isinstance(run.error, PairError)
    assert status.error is not None
    assert status.error.culprit == run.error.culprit == "There is no embedded pair 'no such pair'."
    assert finish(worker.submit("a", spec, PROMPT, SHORT)).state == "done"
    assert worker.pid == pid_before


def test_unloads_and_loads_again_for_the_next_run(worker: Worker, spec: PairSpec) -> None:
    finish(worker.submit("a", spec, PROMPT, SHORT))
    worker.unload()
    wait_until(lambda: worker.status().state == "none")
    assert worker.status().spec is None
    assert finish(worker.submit("a", spec, PROMPT, SHORT)).state == "done"


def has_profile(pair: Pair) -> bool:
    return stored_profile(pair, RunConfig(), "story") is not None


def test_preparing_measures_what_first_runs_need(
    worker: Worker, other_spec: PairSpec, home: Path
) -> None:
    pair = load_pair(PairSpec(draft=other_spec.draft, target=other_spec.target, threads=1))
    worker.prepare(other_spec)
    wait_until(lambda: worker.status().spec == other_spec and worker.status().state == "ready")
    wait_until(lambda: worker.status().progress is not None or has_profile(pair))
    interrupting = worker.submit("a", other_spec, PROMPT, SHORT, baseline=False)
    assert finish(interrupting).state == "done"
    wait_until(lambda: has_profile(pair))
    kept = set(data_folder().glob("step-costs/*"))
    for temperature in (0.0, 0.7):
        assert step_costs(pair, RunConfig(temperature=temperature))
    assert set(data_folder().glob("step-costs/*")) == kept


def test_prepares_a_pair_only_when_no_run_waits(
    worker: Worker, spec: PairSpec, other_spec: PairSpec
) -> None:
    run = worker.submit("a", spec, PROMPT, LONG)
    wait_for_rounds(run, 1)
    worker.prepare(other_spec)
    waiting = worker.submit("b", spec, PROMPT, SHORT)
    run.stop()
    assert finish(waiting).state == "done"
    wait_until(lambda: worker.status().spec == other_spec)


def test_cancels_a_loading(new_worker: Worker, spec: PairSpec) -> None:
    run = new_worker.submit("a", spec, PROMPT, SHORT)
    wait_until(lambda: run.detail)
    assert (run.state, new_worker.status().state) == ("loading", "loading")
    new_worker.cancel_loading()
    assert run.state == "stopped"
    wait_until(lambda: new_worker.status().state != "loading")
    assert new_worker.status().state == "none"
    new_worker.prepare(spec)
    wait_until(lambda: new_worker.status().progress)
    run = new_worker.submit("a", spec, PROMPT, SHORT)
    assert run.detail.startswith("loading ")  # shown from the beginning
    assert finish(run).state == "done"


@pytest.mark.thorough
def test_measures_step_costs_again_on_request(worker: Worker, spec: PairSpec, pair: Pair) -> None:
    key = costs_key(pair, RunConfig())
    worker.prepare(spec, fresh=True)
    wait_until(lambda: worker.status().calibrating)
    run = finish(worker.submit("a", spec, PROMPT, SHORT))
    assert run.state == "done"
    assert worker.status().calibrating  # a run interrupts it, and it continues after the run
    wait_until(lambda: load_value("step-costs", key, StepCosts) != make_costs(), seconds=150)
    worker.unload()  # drops the remaining measurements
    wait_until(lambda: worker.status().state == "none" and worker.status().progress is None)
    for temperature in (0.0, 0.7):  # as the other tests found them
        again = costs_key(pair, RunConfig(temperature=temperature))
        assert save_value("step-costs", again, make_costs())


def test_ending_a_calibration_keeps_stored_costs(
    worker: Worker, spec: PairSpec, pair: Pair
) -> None:
    worker.prepare(spec, fresh=True)
    wait_until(lambda: worker.status().calibrating)
    worker.end_calibration()
    wait_until(lambda: not worker.status().calibrating)
    assert load_value("step-costs", costs_key(pair, RunConfig()), StepCosts) == make_costs()
    worker.end_calibration()  # nothing is left to end
    assert finish(worker.submit("a", spec, PROMPT, SHORT)).state == "done"


def test_measures_the_room_for_bodies(worker: Worker, spec: PairSpec) -> None:
    """With a body or without, it is the room for the pair without bodies."""
    asked = worker.room(replace(spec, target_body="90M"))
    assert asked.wait(60)
    assert asked.error is None
    room = asked.result
    assert room is not None
    assert room.target is not None
    assert room.draft is not None
    assert (room.target.shape.layers, room.draft.shape.layers) == (12, 1)
    assert 1e8 < room.bandwidth < 1e13
    assert room.memory_free is not None
    assert room.itemsize == 4
    refused = worker.room(PairSpec(name="no such pair"))
    assert refused.wait(60)
    assert isinstance(refused.error, PairError)


def test_cancels_enlarging_and_loads_the_pair_without_bodies(
    new_worker: Worker, spec: PairSpec
) -> None:
    grown = replace(spec, target_body="300M")
    new_worker.prepare(grown)
    growing = "enlarging target tinystories/target to 307 M"
    wait_until(lambda: _doing(new_worker) == growing)
    new_worker.prepare(spec)
    new_worker.cancel_preparing(grown)
    wait_until(lambda: new_worker.status().state == "ready")
    assert new_worker.status().spec == spec
    new_worker.cancel_preparing(grown)  # another pair: nothing to cancel
    assert finish(new_worker.submit("a", spec, PROMPT, SHORT, baseline=False)).state == "done"
    memory = new_worker.status().memory_bytes
    assert memory is not None
    assert memory < 1.2e9  # the enlarged weights are freed


def _doing(worker: Worker) -> str:
    progress = worker.status().progress
    return progress.text if progress else ""
