"""A round's time includes everything that a plain step's time includes.

The clock advances only by a tick per reading and where a test slows a function down, so the
results do not depend on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import pytest
import torch

from specviz.engine.decoding import cost_columns, costs
from specviz.engine.decoding.clock import EventClock
from specviz.engine.decoding.costs import measure_step_costs
from specviz.engine.decoding.plain_decoding import PlainLane
from specviz.engine.decoding.sampling import Uniforms
from specviz.engine.decoding.step_timer import LocalStepTimer
from specviz.engine.decoding.target_pass import TargetPass
from specviz.engine.decoding.timed_replay import TimedReplay
from specviz.engine.model.text import TokenTable
from specviz.record.trace import RoundTimes
from tests.engine.playing import PROMPT, config, llama_pair, play

SLOW, TICK = 0.02, 1e-4  # seconds


class Clock:
    now = 0.0

    def read(self) -> float:
        self.now += TICK
        return self.now

    def slowed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function so that it takes ``SLOW`` seconds."""

        def slow(*given: Any, **named: Any) -> Any:
            self.now += SLOW
            return work(*given, **named)

        return slow


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "perf_counter", made.read)
    return made


def times(*, record: bool = False) -> list[RoundTimes]:
    settings = config(gamma=2, max_new_tokens=8, record=record)
    return [entry.times for entry in play(llama_pair("lean"), settings)]


def test_a_draw_counts_in_rounds_as_in_plain_steps(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Uniforms, "of_round", clock.slowed(Uniforms.of_round))
    rounds = times()
    assert all(each.draft >= SLOW > each.verify > 0 for each in rounds)
    pair, settings = llama_pair("lean"), config(gamma=2, max_new_tokens=8)
    timed_replay = TimedReplay(pair, PROMPT, settings, play(pair, settings))
    assert all(step >= SLOW for step in timed_replay.alone(0, 2))


def test_step_costs_include_draws_as_a_round_does(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once per draft phase, so that c and v account for the time of a round."""
    monkeypatch.setattr(LocalStepTimer, "_draws", clock.slowed(LocalStepTimer._draws))
    for module in (costs, cost_columns):
        monkeypatch.setattr(module, "MAX_TOKENS", 4)
    table = measure_step_costs(llama_pair("lean"), config(), contexts=(8,), repeats=4)
    assert table is not None
    without_draws = max(table.draft_next[0], *(row[0] for row in table.target))
    assert all(row[0] >= SLOW > without_draws for row in table.draft)


def test_plain_steps_are_counted_after_a_cache_warm_up(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first step after a verification is slow, unlike those of the target alone."""
    step, check = PlainLane.step, TargetPass.check
    cold = False

    def verifying(*given: Any) -> Any:
        nonlocal cold
        cold = True
        return check(*given)

    def stepping(*given: Any) -> int:
        nonlocal cold
        clock.now += SLOW if cold else 0.0
        cold = False
        return step(*given)

    monkeypatch.setattr(TargetPass, "check", verifying)
    monkeypatch.setattr(PlainLane, "step", stepping)
    for module in (costs, cost_columns):
        monkeypatch.setattr(module, "MAX_TOKENS", 4)
    table = measure_step_costs(llama_pair("lean"), config(), contexts=(8,), repeats=1)
    assert table is not None
    assert table.target[0][0] < SLOW / 2


@pytest.mark.parametrize("record", [True, False])
def test_creating_a_round_is_part_of_its_time(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, record: bool
) -> None:
    """With the record on, it is part of the time of the record."""
    monkeypatch.setattr(TokenTable, "text", clock.slowed(TokenTable.text))
    rounds = times(record=record)
    slow = "record" if record else "other"
    assert all(getattr(each, slow) >= SLOW for each in rounds)
    for phase in {"draft", "verify", "other", "record"} - {slow}:
        # another program may slow a single round
        assert median(getattr(each, phase) for each in rounds) < SLOW


class Event:
    """A fake CUDA event that covers only part of the wall time."""

    now = 0.0
    seen = 0.9

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, _stream: object) -> None:
        self.at = Event.now

    def elapsed_time(self, later: Event) -> float:
        return 1e3 * Event.seen * (later.at - self.at)


def test_events_divide_the_wall_time_and_report_their_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, fallback in (("synchronize", None), ("current_stream", None)):
        monkeypatch.setattr(torch.cuda, name, lambda _device, given=fallback: given)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(time, "perf_counter", lambda: Event.now)
    clock = EventClock(torch.device("cuda"))
    assert clock.share is None
    clock.start()
    for seconds in (3.0, 1.0):
        Event.now += seconds
        clock.mark()
    assert clock.seconds() == pytest.approx([3.0, 1.0])
    assert clock.share == pytest.approx(0.9)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_events_cover_nearly_all_of_the_wall_time() -> None:
    clock = EventClock(torch.device("cuda"))
    work = torch.randn(2048, 2048, device="cuda")
    shares = []
    for _ in range(8):
        clock.start()
        for _ in range(20):
            work = (work @ work).tanh()
        clock.mark()
        clock.seconds()
        shares.append(clock.share or 0.0)
    assert median(shares) == pytest.approx(1.0, abs=0.02)
