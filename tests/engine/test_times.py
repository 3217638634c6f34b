"""What the time of a round holds: all that a plain step's holds too, and nothing is left out."""

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
from specviz.engine.decoding.step_timer import StepsFromHere
from specviz.engine.decoding.target_pass import TargetPass
from specviz.engine.decoding.timed_replay import TimedReplay
from specviz.engine.model.text import TokenTable
from specviz.record.trace import RoundTimes
from tests.engine.playing import PROMPT, config, llama_pair, play

SLOW = 0.02  # seconds, far more than anything else a tiny pair does


def slowed(work: Callable[..., Any]) -> Callable[..., Any]:
    def slow(*given: Any, **named: Any) -> Any:
        time.sleep(SLOW)
        return work(*given, **named)

    return slow


def times(*, record: bool = False) -> list[RoundTimes]:
    settings = config(gamma=2, max_new_tokens=8, record=record)
    return [entry.times for entry in play(llama_pair("lean"), settings)]


def test_a_draw_costs_a_round_what_it_costs_a_plain_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Uniforms, "of_round", slowed(Uniforms.of_round))
    assert all(each.draft >= SLOW > each.verify for each in times())
    pair, settings = llama_pair("lean"), config(gamma=2, max_new_tokens=8)
    timed_replay = TimedReplay(pair, PROMPT, settings, play(pair, settings))
    assert all(step >= SLOW for step in timed_replay.alone(0, 2))


def test_step_costs_hold_the_draw_where_a_round_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a draft phase, so c and v account for what a round takes."""
    monkeypatch.setattr(StepsFromHere, "_draws", slowed(StepsFromHere._draws))
    for module in (costs, cost_columns):
        monkeypatch.setattr(module, "MAX_TOKENS", 4)
    table = measure_step_costs(llama_pair("lean"), config(), contexts=(8,), repeats=4)
    assert table is not None
    half = SLOW / 2  # a cost is counted in the plain steps around it, which differ
    assert all(row[0] >= half for row in table.draft)
    assert max(table.draft_next[0], *(row[0] for row in table.target)) < half


def test_plain_steps_count_when_the_weights_are_back_in_the_caches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a verification the first three are slow; a run of the target alone is not."""
    step, check = PlainLane.step, TargetPass.check
    cold = 0

    def verifying(*given: Any) -> Any:
        nonlocal cold
        cold = 3
        return check(*given)

    def stepping(*given: Any) -> int:
        nonlocal cold
        time.sleep(SLOW / 6 if cold > 0 else 0.0)
        cold -= 1
        return step(*given)

    monkeypatch.setattr(TargetPass, "check", verifying)
    monkeypatch.setattr(PlainLane, "step", stepping)
    for module in (costs, cost_columns):
        monkeypatch.setattr(module, "MAX_TOKENS", 4)
    table = measure_step_costs(llama_pair("lean"), config(), contexts=(8,), repeats=1)
    assert table is not None
    assert table.target[0][0] < SLOW / 6


@pytest.mark.parametrize("record", [True, False])
def test_the_making_of_a_round_is_part_of_its_time(
    monkeypatch: pytest.MonkeyPatch, record: bool
) -> None:
    monkeypatch.setattr(TokenTable, "text", slowed(TokenTable.text))
    rounds = times(record=record)
    assert all(each.other >= SLOW for each in rounds)
    assert all(max(each.draft, each.verify, each.record) < SLOW for each in rounds)


class Event:
    """A CUDA event on a device that sees only some of the wall clock's time."""

    now = 0.0
    seen = 0.9

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, _stream: object) -> None:
        self.at = Event.now

    def elapsed_time(self, later: Event) -> float:
        return 1e3 * Event.seen * (later.at - self.at)


def test_events_share_out_the_wall_clock_and_say_how_much_they_saw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, stand_in in (("synchronize", None), ("current_stream", None)):
        monkeypatch.setattr(torch.cuda, name, lambda _device, given=stand_in: given)
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
def test_events_see_nearly_all_of_the_wall_clock() -> None:
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
