"""Whole sweeps over real sockets: the order of blocks, totals, fresh starts, ceilings, failures."""

from __future__ import annotations

import io
import logging
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from specviz.errors import ConfigError, ServerError, TraceError
from specviz.figures.load_figures import load_figures
from specviz.load.load_job import LoadJob, LoadOrder, was_restarted
from specviz.load.order import check_settings, lanes_of, levels_of, stages_of, unit_of
from specviz.load.planning import check_budget, units_planned
from specviz.load.restarting import EngineStarter, words_of
from specviz.load.stored import load_sweep, sweep_from_json, sweep_to_json
from specviz.record.load_run import EngineGauges, LoadLane, LoadSettings, LoadSweep
from specviz.record.prompts import SuiteItem
from specviz.record.server_run import Counters, ServerInfo
from tests.load.scripted_engine import Fault, ScriptedEngine, info_at, running
from tests.servers.hostile_engines import KEY

ITEMS = tuple(SuiteItem(prompt=f"A secret prompt of some length, {each}") for each in range(9))
STEP = 0.015
QUICK = LoadSettings(
    levels=(1, 4), seconds=0.5, ramp=0.0, max_new_tokens=6, budget=100.0, request_limit=30.0
)

SHORT = replace(QUICK, seconds=0.25)  # a window below the limit, for sweeps of short answers


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))


def slowing(users: int) -> float:
    return 1.5 * STEP * (1 + users / 4)


@contextmanager
def engines(
    settings: LoadSettings = SHORT, fault: Fault = "", *, every: int = 1
) -> Iterator[tuple[LoadOrder, ScriptedEngine]]:
    """Start an engine that speculates, whose fault meets every n-th request, and one without."""
    fast = ScriptedEngine(
        step=slowing, per_step=3, fault=fault,
        failing=lambda number: number % every == every - 1,
    )  # fmt: skip
    plain = ScriptedEngine(step=lambda _: STEP)
    with (
        pytest.MonkeyPatch.context() as patch,
        running(fast) as first,
        running(plain) as second,
    ):
        patch.setattr("specviz.load.order.check_settings", lambda _: None)
        yield (
            LoadOrder(
                servers=(info_at(first.address),),
                alone=info_at(second.address, speculates=False),
                items=ITEMS,
                settings=settings,
            ),
            fast,
        )


def smallest(order: LoadOrder, monkeypatch: pytest.MonkeyPatch, units: int = 1) -> LoadOrder:
    """Return the order with a pilot of this many units, and no units after it."""
    monkeypatch.setattr("specviz.load.planning.PILOT", units)
    monkeypatch.setattr("specviz.load.planning.MOST_UNITS", units)
    return order


def carried_out(order: LoadOrder) -> LoadJob:
    job = LoadJob(order)
    job.carry_out()
    return job


def test_a_sweep_runs_a_b_b_a_and_its_totals_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    with engines() as (order, fast):
        job = carried_out(smallest(order, monkeypatch))
        counted = fast.generated
    assert (job.state, job.error, job.sweep.complete) == ("done", None, True)
    unit = [(level, lane) for level in (1, 4) for lane in (0, 1, 1, 0)]
    assert [(each.level, each.lane) for each in job.sweep.blocks] == unit
    assert job.progress == (8, 8)
    figures = load_figures(job.sweep)
    assert all(each.totals.agree for each in figures.blocks)
    received = sum(each.totals.received for each in figures.blocks if each.block.lane == 1)
    assert counted - received == SHORT.max_new_tokens  # the warm-up, which no block contains
    assert {each.acceptance.tau for each in figures.blocks if each.block.lane == 1} == {3.0}
    # It is stored, and a file of it is read back without loss; prompts are in neither.
    text = sweep_to_json(job.sweep)
    assert "secret" not in text
    assert sweep_from_json(text, "it") == job.sweep == load_sweep(job.sweep.id)


@pytest.mark.thorough
def test_a_sweep_finds_the_known_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long steps, because this process is client and engine at once."""
    monkeypatch.setattr(f"{__name__}.STEP", 0.05)
    settings = replace(
        QUICK, levels=(1, 4, 8), seconds=2.5, ramp=0.5, max_new_tokens=15, budget=200.0
    )
    with engines(settings) as (order, _):
        job = carried_out(smallest(order, monkeypatch, units=2))
    for each in load_figures(job.sweep).of_lane(1):
        assert each.speedup is not None
        assert each.speedup.value == pytest.approx(2 / (1 + each.level / 4), rel=0.15)


def test_a_stop_keeps_the_finished_blocks() -> None:
    with engines(replace(QUICK, seconds=0.5)) as (order, _):
        job = LoadJob(order)
        thread = Thread(target=job.carry_out)
        thread.start()
        while len(job.sweep.blocks) < 1 or job.now is None:
            time.sleep(0.01)
        began = time.monotonic()
        job.stop()
        thread.join(10)
        assert time.monotonic() - began < 3
    assert job.state == "stopped"
    assert job.sweep.blocks
    assert not job.sweep.complete


def test_an_engine_that_answers_nothing_ends_the_sweep_with_one_line() -> None:
    with engines(fault="429") as (order, _):
        job = carried_out(order)
    assert job.state == "failed"
    assert job.error is not None
    assert "429" in job.error.culprit
    assert [each.lane for each in job.sweep.blocks] == [0, 1]  # kept


def test_a_block_during_which_the_engine_restarts_is_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with engines(replace(SHORT, levels=(2,)), "restarts") as (order, fast):
        fast.generated, fast.failing = 1000, lambda number: number == 1  # after the warm-up
        job = carried_out(smallest(order, monkeypatch))
    assert [each.restarted for each in job.sweep.blocks] == [False, True, False, False]
    figures = load_figures(job.sweep)
    assert [bool(each.problem) for each in figures.blocks][1]


@pytest.mark.parametrize(
    ("read", "last", "restarted"),
    [((10, 20, 30), 40, False), ((10, 3, 90), 99, True), ((10, 20), 5, True), ((), 40, False)],
)
def test_a_restart_is_found_even_if_the_counters_have_grown_past_their_old_values(
    read: tuple[int, ...], last: int, restarted: bool
) -> None:
    gauges = [EngineGauges(at=at, prompt_tokens=each) for at, each in enumerate(read)]
    before, after = Counters(at=0, generated=10), Counters(at=9, generated=last)
    assert was_restarted(before, after, gauges) is restarted


def test_the_ceiling_ends_a_sweep() -> None:
    with engines(replace(SHORT, most_requests=12)) as (order, _):
        job = carried_out(order)
    warm_ups = 2
    assert sum(len(each.requests) for each in job.sweep.blocks) == 12 - warm_ups
    assert (job.state, job.sweep.complete) == ("done", False)
    assert any("after 12 requests" in each for each in job.sweep.notices)


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What any logger of this process writes, down to the debug level."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.removeHandler(handler)
    root.setLevel(level)


def test_keys_and_prompts_are_in_no_log_and_no_record(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], logged: io.StringIO
) -> None:
    for name in ("SPECVIZ_SERVER_KEY", "SPECVIZ_BASELINE_KEY"):
        monkeypatch.setenv(name, KEY)
        monkeypatch.setenv(f"{name}_FOR", "127.0.0.1")
    with engines(replace(SHORT, levels=(2,)), "quotes", every=2) as (order, _):
        job = carried_out(smallest(order, monkeypatch))
    assert any(request.failed for each in job.sweep.blocks for request in each.requests)
    printed = capfd.readouterr()
    written = sweep_to_json(job.sweep) + printed.out + printed.err + logged.getvalue()
    assert "secret" not in written
    assert KEY not in written


# Fresh starts


def lane_at(address: str) -> LoadLane:
    return LoadLane(kind="speculative", info=info_at(address))


def test_a_restart_passes_gamma_and_waits_until_the_engine_answers(tmp_path: Path) -> None:
    made = tmp_path / "made"
    code = f"import sys, pathlib; pathlib.Path({str(made)!r}).write_text(sys.argv[1])"
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} {{gamma}}"
    with running(ScriptedEngine(step=lambda _: STEP, per_step=3)) as server:
        starter = EngineStarter(allow_remote=False, within=30)
        info = starter.restart(command, lane_at(server.address), 5)
    assert made.read_text() == "5"
    assert info.model == "tiny"


def test_a_restart_command_that_fails_is_an_error_with_its_last_line() -> None:
    with running(ScriptedEngine(step=lambda _: STEP)) as server:
        command = "sh -c 'echo no such engine >&2; exit 3'"
        with pytest.raises(ServerError, match="exit code 3: no such engine"):
            EngineStarter(allow_remote=False).restart(command, lane_at(server.address), None)


def test_an_engine_that_does_not_come_back_is_an_error() -> None:
    with running(ScriptedEngine(step=lambda _: STEP)) as server:
        lane = lane_at(server.address)
    with pytest.raises(ServerError, match="cannot be reached"):
        EngineStarter(allow_remote=False, within=0.5).wait_for(lane)


def test_a_command_that_restarts_nothing_is_an_error() -> None:
    served = ScriptedEngine(step=lambda _: STEP, generated=7)
    with running(served) as server, pytest.raises(ServerError, match="was not restarted"):
        EngineStarter(allow_remote=False).restart("true", lane_at(server.address), None)


def test_words_of_a_command() -> None:
    assert words_of("run --k {gamma} 'a b'", 4) == ["run", "--k", "4", "a b"]
    with pytest.raises(ConfigError):
        words_of("run 'a", None)


# Planning


ALONE = info_at("http://127.0.0.1:2", speculates=False)


def order_of(settings: LoadSettings = QUICK, *, alone: ServerInfo | None = ALONE) -> LoadOrder:
    servers = (info_at("http://127.0.0.1:1"),)
    return LoadOrder(servers=servers, alone=alone, items=ITEMS, settings=settings)


def test_without_an_address_of_its_own_the_target_alone_is_started_with_gamma_0() -> None:
    order = replace(order_of(alone=None), restart_command="run {gamma}", gammas=(2, 4), starts=2)
    lanes = lanes_of(order)
    assert [(each.kind, each.gamma) for each in lanes] == [
        ("alone", 0), ("speculative", 2), ("speculative", 4),
    ]  # fmt: skip
    stages = [*stages_of(order, lanes, 0), *stages_of(order, lanes, 1)]
    assert [each.gamma for each in stages] == [0, 2, 4, 4, 2, 0]


def test_lanes_of_one_start_are_loaded_in_turn_and_levels_up_and_down() -> None:
    order = order_of()
    (stage,) = stages_of(order, lanes_of(order))
    assert unit_of(stage) == (0, 1, 1, 0)
    assert (levels_of(QUICK, 0), levels_of(QUICK, 1)) == ((1, 4), (4, 1))


def test_a_budget_that_is_too_short_says_what_is_needed() -> None:
    order = order_of(replace(QUICK, seconds=10, ramp=2, budget=60))
    with pytest.raises(ConfigError) as caught:
        check_budget(order)
    # 3 units of 2 levels with 4 blocks of 14 s, and a second for their last answers.
    assert "360 s" in caught.value.remedy


def test_a_noisy_pilot_gets_more_units_as_far_as_the_budget_allows() -> None:
    order = order_of(replace(QUICK, budget=1000))
    quiet, noisy = [[0.30, 0.31, 0.30]], [[0.1, 0.5, 0.3]]
    assert units_planned(order, quiet, 10.0, 0.0) == 3
    assert units_planned(order, noisy, 10.0, 0.0) == 12
    assert units_planned(order, noisy, 200.0, 0.0) == 5
    assert units_planned(order, noisy, 900.0, 0.0) == 3


@pytest.mark.parametrize(
    "settings",
    [
        replace(QUICK, levels=()),
        replace(QUICK, levels=(1, 1)),
        replace(QUICK, levels=(1.5,)),
        replace(QUICK, levels=(float("nan"),)),
        replace(QUICK, levels=(1000,)),
        replace(QUICK, seconds=0.0),
        replace(QUICK, most_requests=0),
        replace(QUICK, most_in_flight=10_000),
    ],
)
def test_settings_outside_their_limits_are_refused(settings: LoadSettings) -> None:
    with pytest.raises(ConfigError):
        check_settings(settings)


def test_a_sweep_of_another_version_is_refused() -> None:
    sweep = LoadSweep(id="x", created="", lanes=(), settings=QUICK)
    with pytest.raises(TraceError, match="version 99"):
        sweep_from_json(sweep_to_json(sweep).replace('"schema":1', '"schema":99'), "it")
