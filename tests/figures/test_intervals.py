"""The intervals of α: values by hand, coverage, and when there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specviz.figures.metrics import Metrics, metrics
from specviz.record.trace import Trace
from tests.paper_trace import close, paper_trace
from tests.traces import make_round, make_trace


@pytest.fixture
def figures() -> Metrics:
    return metrics(paper_trace())


def test_coins_by_hand(figures: Metrics) -> None:
    coins = figures.intervals.coins
    assert coins is not None
    half = 1.96 * math.sqrt(0.09 + 0.16 + 0.21 + 3 * 0.25 + 0.16 + 0.24) / 8
    assert (coins.low, coins.high) == (close(0.5625 - half), close(0.5625 + half))
    assert coins.label == "sampling noise"


def test_coins_stay_within_zero_and_one() -> None:
    coins = metrics(make_trace([make_round("a", expected=0.9)])).intervals.coins
    assert coins is not None
    assert (coins.low, coins.high) == (close(0.9 - 1.96 * 0.3), 1.0)


def drawn_trace(rng: np.random.Generator, alpha: float, rounds: int = 60) -> Trace:
    runs = [min(int(rng.geometric(1 - alpha)) - 1, 3) for _ in range(rounds)]
    spelt = ["a" * run + "r" * (run < 3) + "d" * max(0, 2 - run) for run in runs]
    return make_trace([make_round(each, expected=alpha) for each in spelt])


def test_coins_and_prompt_intervals_cover_as_often_as_stated() -> None:
    rng = np.random.default_rng(7)
    runs = [metrics(drawn_trace(rng, 0.7)) for _ in range(200)]
    coins = prompt = 0
    for figures in runs:
        within, around = figures.intervals.coins, figures.intervals.prompt
        assert within is not None
        assert around is not None
        assert figures.alpha_observed is not None
        coins += within.low <= figures.alpha_observed <= within.high
        prompt += around.low <= 0.7 <= around.high
    assert 182 <= coins <= 199
    assert 172 <= prompt <= 199


def test_prompt_interval_is_wider_where_acceptance_clusters() -> None:
    def width(spelt: list[str]) -> float:
        found = metrics(make_trace(spelt)).intervals.prompt
        assert found is not None
        assert found.label == "this prompt"
        return found.high - found.low

    clustered = width(["aaa"] * 32 + ["rdd"] * 32)
    assert clustered > 1.5 * width(["aaa", "rdd"] * 32)
    assert width(["aar"] * 20) == 0.0


def test_prompt_interval_has_the_quantiles_of_95_percent() -> None:
    rounds, size = ["aaa", "rdd"] * 20, 3  # blocks of round(40 ** (1 / 3)) rounds
    counts = np.array([(3, 3), (0, 1)] * 20)
    rng, shares = np.random.default_rng(1), []
    for _ in range(4000):
        starts = rng.integers(40, size=14)
        picked = counts[(starts[:, None] + np.arange(size)) % 40].sum(axis=(0, 1))
        shares.append(picked[0] / picked[1])
    found = metrics(make_trace(rounds)).intervals.prompt
    assert found is not None
    low, inner_low, inner_high, high = np.percentile(shares, [2.5, 5, 95, 97.5])
    assert abs(found.low - low) < (inner_low - low) / 2
    assert abs(found.high - high) < (high - inner_high) / 2


def test_prompt_interval_needs_rounds_and_is_deterministic() -> None:
    assert metrics(make_trace(["aar"] * 5 + ["rdd"] * 4)).intervals.prompt is None
    trace = make_trace(["aar"] * 5 + ["rdd"] * 5)
    first = metrics(trace).intervals.prompt
    assert first is not None
    assert first == metrics(trace).intervals.prompt
    assert first.low < 10 / 20 < first.high
