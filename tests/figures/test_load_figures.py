"""The figures of a load sweep and the sentences that follow from them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from specviz.figures.load_advice import advice, vllm_schedule
from specviz.figures.load_blocks import block_figures
from specviz.figures.load_figures import curves_of, load_figures
from specviz.figures.load_words import load_words
from specviz.record.load_run import EngineGauges, LoadBlock, LoadRequest, LoadSettings, LoadSweep
from specviz.record.server_run import Counters
from tests.load.sweeps import BREAK_EVEN, TAU, halving, sweep_of

SETTINGS = LoadSettings(levels=(2,), seconds=4.0, ramp=1.0)


def request(number: int, sent: float, *arrivals: float, failure: str = "") -> LoadRequest:
    """Return a request whose chunks have two tokens each."""
    return LoadRequest(
        number=number, user=number, prompt=0, scheduled=sent - 0.5, sent=sent,
        ended=arrivals[-1], arrivals=arrivals, chunk_tokens=(2.0,) * len(arrivals),
        tokens=2 * len(arrivals), failure=failure,
    )  # fmt: skip


def block(*requests: LoadRequest) -> LoadBlock:
    before = Counters(at=0.0, drafts=5.0, drafted=20.0, accepted=9.0, accepted_at=(6.0, 3.0),
                      generated=100.0)  # fmt: skip
    after = Counters(at=6.0, drafts=105.0, drafted=420.0, accepted=209.0, generated=112.0,
                     accepted_at=(86.0, 43.0))  # fmt: skip
    gauges = tuple(
        EngineGauges(at=at, kv_use=0.1 * at, waiting=at, preemptions=2 * at, prefix_hits=at,
                     prefix_queries=4 * at)
        for at in (1.0, 3.0)
    )  # fmt: skip
    return LoadBlock(
        lane=0, level=2, begin=1.0, end=5.0, seconds=6.0, requests=requests, before=before,
        after=after, gauges=gauges,
    )  # fmt: skip


WINDOW = block(
    request(0, 0.5, 0.9, 1.0, 4.0, 5.0),  # two chunks inside; due before the window
    request(1, 2.0, 3.0, 3.5),  # due at 1.5
)


def test_tokens_count_by_their_arrival_and_latencies_by_when_they_were_due() -> None:
    found = block_figures(WINDOW, SETTINGS)
    assert found.tokens_per_second == pytest.approx(8 / 4)
    assert found.tokens_per_second_per_user == pytest.approx(1)
    assert found.requests == 1
    assert found.ttft is not None
    assert found.ttft.p50 == pytest.approx(1.5)  # from when it was due, not from its send
    assert found.tpot is not None
    assert found.tpot.p50 == pytest.approx(0.25)
    assert found.chunk_latency is not None
    assert found.chunk_latency.count == 3


def test_overlap_comes_from_timestamps() -> None:
    found = block_figures(WINDOW, SETTINGS)
    assert found.most_in_flight == 2
    assert found.mean_in_flight == pytest.approx((4 + 1.5) / 4)


def test_failed_requests_add_no_tokens_and_no_latencies() -> None:
    failing = block(*WINDOW.requests, request(2, 2.0, 2.1, failure="It broke off."))
    before, after = block_figures(WINDOW, SETTINGS), block_figures(failing, SETTINGS)
    assert (after.tokens_per_second, after.ttft) == (before.tokens_per_second, before.ttft)
    assert after.failures == 1
    assert "It broke off." in after.problem


def test_acceptance_and_totals_come_from_the_engine_s_counters() -> None:
    found = block_figures(WINDOW, SETTINGS)
    assert found.acceptance.tau == pytest.approx(3)
    assert found.acceptance.draft_acceptance_rate == pytest.approx(0.5)
    assert found.acceptance.alpha_by_position == pytest.approx((0.8, 0.5))
    assert (found.totals.received, found.totals.counted, found.totals.agree) == (12, 12, True)
    assert (found.engine.preemptions, found.engine.prefix_hits) == (4, 0.25)


def test_a_block_with_a_restart_counts_for_no_speedup() -> None:
    sweep = sweep_of((1, 4))
    odd = replace(sweep.blocks[1], restarted=True)
    assert block_figures(odd, sweep.settings).problem
    kept = load_figures(replace(sweep, blocks=(odd, *sweep.blocks[2:])))
    assert all(each.unusable <= 1 for each in kept.levels)
    assert sum(each.unusable for each in kept.levels) == 1


def test_the_speedup_follows_the_law_and_its_interval_contains_it() -> None:
    figures = load_figures(sweep_of(units=4))
    for each in figures.of_lane(1):
        assert each.speedup is not None
        assert (each.speedup.over, each.speedup.count) == ("units", 4)
        assert each.speedup.value == pytest.approx(halving(each.level), rel=0.06)
    (lane,) = figures.lanes
    assert lane.break_even is not None
    assert lane.break_even.contains(BREAK_EVEN)


def with_starts(sweep: LoadSweep) -> LoadSweep:
    """Return the sweep with each unit as a fresh start of its own."""
    blocks = (replace(each, start=each.unit, repetition=each.unit, unit=0) for each in sweep.blocks)
    return replace(sweep, blocks=tuple(blocks), starts=3)


def test_with_fresh_starts_the_interval_covers_starts() -> None:
    figures = load_figures(with_starts(sweep_of()))
    assert {each.speedup.over for each in figures.of_lane(1) if each.speedup} == {"starts"}


def test_advice_for_several_gammas() -> None:
    """γ 4 is best up to 5.2 users, γ 6 up to 16.3."""
    sweep = sweep_of(
        (1, 2, 4, 8, 16, 32), (lambda n: 2.4 / n**0.4, lambda n: 1.7 / n**0.19), noise=0.0
    )
    found = advice(sweep.lanes, curves_of(sweep), {})
    assert [each.gamma for each in found] == [4, 6, 0]
    ends = [each.until for each in found[:-1] if each.until is not None]
    assert [math.floor(each) for each in ends] == [5, 16]
    schedule = vllm_schedule(found, 32)
    assert schedule is not None
    assert "[[1, 5, 4], [6, 16, 6], [17, 32, 0]]" in schedule


def test_a_loss_without_falling_acceptance_is_put_down_to_rounds() -> None:
    sweep = sweep_of()
    said = load_words(sweep, load_figures(sweep))
    assert any(each.startswith("Acceptance does not fall") for each in said.causes)
    assert any("the speedup falls because rounds cost more" in each for each in said.causes)
    costs = {each.level: each.round_cost for each in load_figures(sweep).of_lane(1)}
    assert costs[1] == pytest.approx(TAU / 2, rel=0.1)


def test_falling_acceptance_is_named() -> None:
    sweep = sweep_of()
    changed = tuple(
        replace(each, after=replace(each.after, accepted=each.after.accepted / each.level**0.3))
        if each.after is not None and each.after.accepted
        else each
        for each in sweep.blocks
    )
    falling = replace(sweep, blocks=changed)
    said = load_words(falling, load_figures(falling))
    assert any(each.startswith("Acceptance falls") for each in said.causes)


def test_failures_and_totals_that_differ_are_one_line_each() -> None:
    sweep = sweep_of((8, 16), failures=1)
    first = sweep.blocks[0]
    assert first.after is not None
    more = replace(first, after=replace(first.after, generated=(first.after.generated or 0) + 5))
    odd = replace(sweep, blocks=(more, *sweep.blocks[1:]))
    said = load_words(odd, load_figures(odd))
    assert sum("failed" in each and "429" in each for each in said.warnings) == 1
    assert sum("+5" in each for each in said.checks) == 1
    assert sum("the engine's counters confirm" in each for each in said.checks) == 1


def test_overlap_is_stated_from_the_least_and_the_most_requests_in_flight() -> None:
    sweep = sweep_of((4,), units=1)
    assert "on average, all users" in load_words(sweep, load_figures(sweep)).checks[0]
    block = sweep.blocks[0]
    half = replace(block, requests=tuple(each for each in block.requests if each.user in (0, 1)))
    twice = replace(block, requests=(*block.requests, *block.requests))
    changed = replace(sweep, blocks=(half, twice))
    first, second, *_ = load_words(changed, load_figures(changed)).checks
    assert "at least 50 % of the users" in first
    assert "100 % more requests than users" in second
