"""Student's t and paired log-ratios, against closed forms and tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.figures.paired import (
    PromptRepeat,
    mean_of,
    ratio,
    ratio_of,
    spread,
    t_quantile,
)


@pytest.mark.parametrize("probability", [0.6, 0.95, 0.975, 0.995])
def test_one_and_two_degrees_of_freedom_have_closed_forms(probability: float) -> None:
    assert t_quantile(probability, 1) == pytest.approx(
        math.tan(math.pi * (probability - 0.5)), rel=1e-12
    )
    spread_ = 4 * probability * (1 - probability)
    closed = (2 * probability - 1) * math.sqrt(2 / spread_)
    assert t_quantile(probability, 2) == pytest.approx(closed, rel=1e-12)


@pytest.mark.parametrize(
    ("probability", "freedom", "tabulated"),
    [
        (0.975, 3, 3.1824),
        (0.975, 4, 2.7764),
        (0.975, 9, 2.2622),
        (0.975, 30, 2.0423),
        (0.975, 120, 1.9799),
        (0.95, 10, 1.8125),
        (0.995, 5, 4.0321),
        (0.975, 10**5, 1.9600),
    ],
)
def test_quantiles_match_the_tables(probability: float, freedom: int, tabulated: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(tabulated, abs=6e-5)


def test_a_ratio_over_seeds_by_hand() -> None:
    logs: dict[PromptRepeat, float] = {(0, 0): 0.1, (0, 1): 0.2, (0, 2): 0.3}
    found = ratio_of(logs)
    assert found is not None
    half = t_quantile(0.975, 2) * 0.1 / math.sqrt(3)
    assert (found.over, found.count) == ("seeds", 3)
    assert found.value == pytest.approx(math.exp(0.2), rel=1e-12)
    assert found.low == pytest.approx(math.exp(0.2 - half), rel=1e-12)
    assert found.high == pytest.approx(math.exp(0.2 + half), rel=1e-12)


def test_prompts_weigh_the_same_regardless_of_their_seeds() -> None:
    found = mean_of({(0, 0): 1.0, (0, 1): 3.0, (1, 0): 4.0})
    assert found is not None
    assert (found.over, found.count, found.value) == ("prompts", 2, 3.0)
    assert found.high == pytest.approx(3 + t_quantile(0.975, 1) * 1.0, rel=1e-12)


def test_pairs_only_runs_that_both_have() -> None:
    found = ratio({(0, 0): 1.0, (0, 1): 2.0}, {(0, 1): 1.5, (0, 2): 9.0})
    assert found is not None
    assert (found.value, found.low, found.count) == (math.exp(0.5), None, 1)
    assert not found.differs
    assert ratio({(0, 0): 1.0}, {(0, 1): 1.0}) is None


def test_spread_is_median_lowest_and_highest() -> None:
    found = spread([3.0, None, 1.0, 10.0])
    assert found is not None
    assert (found.median, found.low, found.high) == (3.0, 1.0, 10.0)
    assert spread([None]) is None


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12))
@settings(max_examples=50, deadline=None)
def test_swapping_the_sides_inverts_the_ratio(logs: list[float]) -> None:
    there = ratio_of({(0, place): value for place, value in enumerate(logs)})
    back = ratio_of({(0, place): -value for place, value in enumerate(logs)})
    assert there is not None
    assert back is not None
    assert there.low is not None
    assert back.high is not None
    assert there.value * back.value == pytest.approx(1, rel=1e-9)
    assert there.low * back.high == pytest.approx(1, rel=1e-9)
    assert there.differs == back.differs


# Machines of several kinds


def test_pairs_only_runs_on_the_same_kind_of_machine() -> None:
    first: dict[PromptRepeat, float] = {(0, 0, "a"): 1.0, (1, 0, "b"): 3.0, (2, 0, "a"): 1.2}
    second: dict[PromptRepeat, float] = {(0, 0, "a"): 0.5, (1, 0, "a"): 0.1, (2, 0, "a"): 0.5}
    found = ratio(first, second)
    assert found is not None
    assert (found.over, found.count) == ("prompts", 2)
    assert found.value == pytest.approx(math.exp(0.6), rel=1e-12)


def test_removing_the_effects_of_machines_costs_a_degree_of_freedom() -> None:
    values: dict[PromptRepeat, float] = {
        (0, 0, "a"): 1.0, (1, 0, "a"): 1.2, (2, 0, "b"): 5.0, (3, 0, "b"): 5.2
    }  # fmt: skip
    found = mean_of(values)
    assert found is not None
    assert (found.over, found.count) == ("prompts", 4)
    assert found.value == pytest.approx(3.1)
    within = math.sqrt(4 * 0.1**2 / 2)  # around the mean of each kind; four values less two kinds
    assert found.high == pytest.approx(3.1 + t_quantile(0.975, 2) * within / 2, rel=1e-9)
    few = mean_of({(0, 0, "a"): 1.0, (1, 0, "b"): 2.0})
    assert few is not None
    assert (few.low, few.high) == (None, None)


def test_the_interval_over_kinds_of_machine_covers_as_often_as_stated() -> None:
    rng = np.random.default_rng(5)
    covered, tries = 0, 2000
    for _ in range(tries):
        effects = {"a": 0.4, "b": -0.2}
        kinds = ["a"] * 5 + ["b"] * 4
        true = (5 * effects["a"] + 4 * effects["b"]) / 9
        values: dict[PromptRepeat, float] = {
            (item, 0, kind): effects[kind] + rng.normal(0, 0.1) for item, kind in enumerate(kinds)
        }
        found = mean_of(values)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= true <= found.high
    assert 0.935 < covered / tries < 0.965
