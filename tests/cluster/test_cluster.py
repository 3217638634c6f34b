"""Runs on a cluster of two nodes: placement, results and killed devices."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from specviz.cluster.cluster_maker import ClusterMaker
from specviz.cluster.connection import Connection
from specviz.cluster.device import Need
from specviz.cluster.pool import Call, DevicePool
from specviz.comparison import LaneRun, basis, compare
from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.plan import Lane, Plan, SuiteItem
from specviz.engine import load_pair
from specviz.errors import DeviceError
from specviz.measure.run_makers import InProcessMaker, StoppedError
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.store import Library
from tests.cluster.two_nodes import TwoNodes, needs_ray
from tests.engine.models import write_pair
from tests.step_costs import place_step_costs

pytestmark = needs_ray
PROMPTS = ("Once upon a time", "The dog ran to", "Lily had a", "One day the ball")


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PairSpec]:
    folder = write_pair(tmp_path_factory.mktemp("pair"), num_hidden_layers=1)
    made = PairSpec(draft=str(folder / "draft"), target=str(folder / "target"), threads=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(tmp_path_factory.mktemp("home")))
        place_step_costs(load_pair(made), "model", "prompt-lookup")
        yield made


@pytest.fixture(scope="module")
def nodes(spec: PairSpec) -> Iterator[TwoNodes]:
    made = TwoNodes()
    yield made
    made.close()


@pytest.fixture(scope="module")
def maker(nodes: TwoNodes) -> Iterator[ClusterMaker]:
    with ClusterMaker(nodes.address, timed=True, threads=1, budget=0.1) as made:
        yield made


def plan_of(spec: PairSpec, **settings: Any) -> Plan:
    config = RunConfig(max_new_tokens=16, ignore_eos=True)
    return Plan(
        lanes=tuple(Lane(spec=spec, config=replace(config, gamma=each)) for each in (2, 4)),
        items=tuple(SuiteItem(prompt=each) for each in PROMPTS),
        **{"repeats": 1, **settings},
    )


def content_of(run: LaneRun) -> object:
    """Return all of a run apart from times and place."""
    trace = run.trace
    rounds = [replace(each, times=None) for each in trace.rounds]  # pyright: ignore
    return run.job, trace.config, trace.prompt, rounds, trace.text, trace.odds


def test_a_block_is_timed_on_one_device_and_the_result_names_the_devices(
    maker: ClusterMaker, spec: PairSpec, tmp_path: Path
) -> None:
    library = Library(tmp_path / "runs.db")
    job = ComparisonJob(plan_of(spec), maker, library, must_keep=True)
    job.carry_out()
    assert job.error is None, job.error
    first, second = maker.devices
    assert not set(first.cores) & set(second.cores)
    places: dict[int, set[str]] = {}
    for run in job.measured:
        assert run.trace.baseline is not None
        assert run.trace.environment.threads == 1
        places.setdefault(run.job.item, set()).add(run.trace.environment.place)
    assert all(len(each) == 1 for each in places.values())
    assert set().union(*places.values()) == {first.place, second.place}
    assert job.comparison is not None
    assert job.comparison.complete
    assert "made on 2 devices: 2 ×" in basis(job.comparison)
    again = ComparisonJob(plan_of(spec), maker, library, must_keep=True)
    again.prepare()
    assert (again.found, again.progress) == (8, (8, 8))
    assert list(again.make_missing()) == []


def test_acceptance_equals_that_of_sequential_runs(maker: ClusterMaker, spec: PairSpec) -> None:
    plan = plan_of(spec, baseline=False, repeats=2)
    pooled = ComparisonJob(plan, maker, None)
    pooled.carry_out()
    in_turn = ComparisonJob(plan, InProcessMaker(lambda _: None), None)
    in_turn.carry_out()
    assert (pooled.error, in_turn.error) == (None, None)
    assert list(map(content_of, pooled.measured)) == list(map(content_of, in_turn.measured))
    mine, theirs = compare(plan, pooled.measured), compare(plan, in_turn.measured)
    assert [each.alpha for each in mine.lanes] == [each.alpha for each in theirs.lanes]
    assert [each.expected for each in mine.lanes] == [each.expected for each in theirs.lanes]
    assert mine.verdict.text.startswith("Only acceptance is compared")


def test_runs_of_a_killed_device_are_made_again_once(
    maker: ClusterMaker, spec: PairSpec, tmp_path: Path
) -> None:
    library = Library(tmp_path / "runs.db")
    plan = plan_of(spec, repeats=2)
    job = ComparisonJob(plan, maker, library, must_keep=True)
    job.prepare()
    killed, made = maker.devices[0].pid, list[LaneRun]()
    for run in job.make_missing():
        made.append(run)
        if len(made) == 2:
            os.kill(killed, signal.SIGKILL)
    assert sorted(run.job.key for run in made) == sorted(job.key for job in plan.runs())
    (row,) = library.comparisons()
    assert row.num_runs == len(plan.runs()) == 16
    assert killed not in {each.pid for each in maker.devices}


def test_a_stop_ends_the_job_and_all_devices(maker: ClusterMaker, spec: PairSpec) -> None:
    job = ComparisonJob(plan_of(spec, repeats=50), maker, None)
    job.prepare()
    pids = [each.pid for each in maker.devices]
    runs = job.make_missing()
    next(runs)
    job.stop()
    with pytest.raises(StoppedError):
        list(runs)
    maker.close()
    assert pids
    deadline = time.monotonic() + 10
    while any(map(psutil.pid_exists, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_call_that_kills_every_device_is_given_up(nodes: TwoNodes) -> None:
    connection = Connection(nodes.address)
    ray = connection.ray
    pool = DevicePool(ray, Need(cores=1, gpu=False, timed=True), lambda: None, lambda _: None)
    with pytest.raises(DeviceError, match="3 devices died while making 'γ 2'"):
        list(pool.results([Call(method="check", arguments=(_Deadly(),), label="γ 2")]))
    pool.close()
    connection.close()


class _Deadly:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (1,)
