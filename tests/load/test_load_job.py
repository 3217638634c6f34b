"""Sweeps over real sockets: a scripted engine that follows a law, and engines that misbehave."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from specviz.figures.load_figures import load_figures
from specviz.figures.load_words import load_words
from specviz.load import planning
from specviz.load.load_job import LoadJob, LoadOrder
from specviz.load.stored import load_sweep
from specviz.record.load_run import LoadSettings, LoadSweep
from specviz.record.prompts import SuiteItem
from tests.load.scripted_engine import Fault, ScriptedEngine, info_at, running

ITEMS = tuple(SuiteItem(prompt=f"secret prompt {each}") for each in range(5))
QUICK: dict[str, Any] = {
    "seconds": 0.5, "ramp": 0.1, "max_new_tokens": 12, "budget": 600.0, "request_limit": 30.0,
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pilot of one A B B A, in an own data folder."""
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    monkeypatch.setattr(planning, "PILOT", 1)


def order_of(fast: str, alone: str, **settings: Any) -> LoadOrder:
    values: dict[str, Any] = QUICK | settings
    return LoadOrder(
        servers=(info_at(fast),), alone=info_at(alone, speculates=False), items=ITEMS,
        settings=LoadSettings(**values),
    )  # fmt: skip


@contextmanager
def engines(fast: ScriptedEngine) -> Iterator[tuple[str, str]]:
    alone = ScriptedEngine(step=lambda _: 0.01)
    with running(fast) as first, running(alone) as second:
        yield first.address, second.address


def carried_out(order: LoadOrder) -> LoadJob:
    job = LoadJob(order)
    job.carry_out()
    return job


def words(sweep: LoadSweep) -> str:
    return " ".join(load_words(sweep, load_figures(sweep)).all)


def test_a_sweep_finds_the_law_and_its_totals_agree() -> None:
    fast = ScriptedEngine(step=lambda users: 0.01 * users, per_step=3)
    with engines(fast) as (first, second):
        job = carried_out(order_of(first, second, levels=(1.0, 6.0)))
    assert job.error is None
    figures = load_figures(job.sweep)
    one, six = (figures.at(1, level) for level in (1.0, 6.0))
    assert one is not None
    assert six is not None
    assert one.speedup is not None
    assert six.speedup is not None
    assert one.speedup.value > 1.5  # three tokens in a step of the same time
    assert six.speedup.value < 0.75  # a step of six times the time
    for each in figures.levels:
        assert each.totals.agree
        assert each.failures == 0
        assert each.most_in_flight == each.level
    assert fast.most == 6
    assert one.acceptance.tau == pytest.approx(3.0)
    # A B B A at each level, and no prompt twice, so that no prefix cache helps.
    assert [each.lane for each in job.sweep.blocks[:4]] == [0, 1, 1, 0]
    assert len(set(fast.prompts)) == len(fast.prompts)
    assert fast.prompts[0] == ITEMS[0].prompt  # the warm-up, which no block counts
    assert load_sweep(job.sweep.id) == job.sweep


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("429", "too many requests"),
        ("stall", "3 s"),
        ("closes", "ended the stream"),
    ],
)
def test_some_bad_answers_are_failures_and_no_fast_responses(fault: Fault, says: str) -> None:
    fast = ScriptedEngine(
        step=lambda _: 0.01, per_step=3, fault=fault, failing=lambda number: number % 4 == 3
    )
    with engines(fast) as (first, second):
        limit = 3.0 if fault == "stall" else 30.0
        job = carried_out(order_of(first, second, levels=(4.0,), request_limit=limit))
    assert job.error is None
    sweep = job.sweep
    failed = [each for block in sweep.blocks for each in block.requests if each.failed]
    assert failed
    assert all(says in each.failure for each in failed)
    assert "failed" in words(sweep)
    assert "secret" not in words(sweep)
    for block in load_figures(sweep).blocks:
        assert block.ttft is None or block.ttft.count <= len(block.block.requests) - block.failures


def test_an_engine_that_fails_always_ends_the_sweep_with_its_message() -> None:
    fast = ScriptedEngine(step=lambda _: 0.01, per_step=3, fault="quotes")
    with engines(fast) as (first, second):
        job = carried_out(order_of(first, second, levels=(1.0,)))
    assert job.error is not None
    assert "Every request failed" in str(job.error)
    assert len(str(job.error).splitlines()) == 1


@pytest.mark.thorough
def test_tokens_of_other_clients_are_named() -> None:
    fast = ScriptedEngine(step=lambda _: 0.01, per_step=3, fault="strangers")
    with engines(fast) as (first, second):
        job = carried_out(order_of(first, second, levels=(1.0,)))
    assert "other clients" in words(job.sweep)


def test_a_restart_during_a_block_spoils_only_that_block() -> None:
    fast = ScriptedEngine(
        step=lambda _: 0.01, per_step=3, fault="restarts", failing=lambda number: number == 3
    )
    with engines(fast) as (first, second):
        job = carried_out(order_of(first, second, levels=(1.0,)))
    assert job.error is None
    found = load_figures(job.sweep)
    assert [each.block.restarted for each in found.blocks].count(True) <= 1
    assert all(each.problem for each in found.blocks if each.block.restarted)


def test_stop_ends_within_a_second_and_keeps_the_blocks() -> None:
    fast = ScriptedEngine(step=lambda _: 0.05, per_step=3)
    with engines(fast) as (first, second):
        job = LoadJob(order_of(first, second, levels=(2.0,), max_new_tokens=2000))
        thread = Thread(target=job.carry_out)
        thread.start()
        until = time.monotonic() + 20
        while job.now is None or job.now.in_flight < 2:
            assert time.monotonic() < until
            time.sleep(0.01)
        began = time.monotonic()
        job.stop()
        thread.join(20)
        assert time.monotonic() - began < 2.0  # twice the bound
    assert job.state == "stopped"
    assert job.error is None


def test_an_open_loop_counts_latency_from_the_scheduled_send() -> None:
    slow = ScriptedEngine(step=lambda _: 0.05, per_step=3)
    with engines(slow) as (first, second):
        settings = {"mode": "open", "levels": (20.0,), "most_in_flight": 2, "max_new_tokens": 12}
        job = carried_out(order_of(first, second, **settings))
    assert slow.most <= 2
    speculative = [each for each in job.sweep.blocks if each.lane == 1]
    assert sum(each.unsent for each in speculative) > 0
    for block in speculative:
        gaps = [each.scheduled for each in block.requests]
        assert gaps == sorted(gaps)
        assert all(each.sent >= each.scheduled for each in block.requests)
