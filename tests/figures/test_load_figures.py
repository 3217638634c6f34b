"""Figures and words of sweeps that follow a known law."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.figures.load_figures import load_figures
from specviz.figures.load_words import load_words
from tests.load.sweeps import BREAK_EVEN, TAU, halving, sweep_of


def test_speedups_and_the_break_even_follow_the_law() -> None:
    found = load_figures(sweep_of(units=4))
    for each in found.of_lane(1):
        assert each.speedup is not None
        assert each.speedup.low is not None
        assert each.speedup.high is not None
        assert each.speedup.value == pytest.approx(halving(each.level), rel=0.05)
        assert each.acceptance.tau == pytest.approx(TAU, rel=0.02)
        assert each.totals.agree
        assert each.mean_in_flight == pytest.approx(each.level)
    (lane,) = found.lanes
    assert lane.break_even is not None
    assert lane.break_even.contains(BREAK_EVEN)


def test_tokens_count_by_their_arrival_in_the_window() -> None:
    (lane, *_) = load_figures(sweep_of((1,), noise=0.0)).levels
    assert lane.tokens_per_second == pytest.approx(40.0 / (1 + 1 / 16), rel=0.02)
    assert lane.tokens_per_second_per_user == lane.tokens_per_second


def test_failed_requests_are_never_fast_responses() -> None:
    clean, failing = (load_figures(sweep_of((8, 16), failures=each)) for each in (0, 1))
    for one, other in zip(clean.levels, failing.levels, strict=True):
        assert other.failures > 0
        assert other.ttft == one.ttft
        assert other.tpot == one.tpot


def test_advice_changes_gamma_with_the_load_and_then_switches_it_off() -> None:
    sweep = sweep_of((1, 2, 4, 8, 16), (lambda n: 2.4 / n**0.6, lambda n: 3.0 / n**1.2), units=4)
    words = load_words(sweep, load_figures(sweep))
    said = " ".join(words.advice)
    assert said.index("6") < said.index("4")  # γ 6 for few users, then γ 4
    assert "off" in said
    assert "num_speculative_tokens" in said
    assert words.verdict


def test_a_block_with_many_failures_counts_for_no_speedup() -> None:
    sweep = sweep_of((1, 2))
    bad = sweep.blocks[1]
    failed = tuple(replace(each, failure="429", tokens=0) for each in bad.requests)
    blocks = (sweep.blocks[0], replace(bad, requests=failed), *sweep.blocks[2:])
    found = load_figures(replace(sweep, blocks=blocks))
    assert found.blocks[1].problem
    level = found.at(1, 1)
    assert level is not None
    assert level.unusable == 1
