"""The charts of rejections match the library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from specviz.theory.chains import random_chains
from specviz.theory.rejections import (
    batch_floor,
    bernoulli_improvement,
    rejections_by_step,
    scaling,
    total_rejections,
    uniform_improvement,
)
from specviz.theory.simulation import Estimate, Simulator, lossless_rule
from specviz.ui.theory.rejections import charts

CHAINS = random_chains(10, 7, 20)


def trace(made: Any, name: str) -> Any:
    (found,) = [each for each in made.data if each.name == name]
    return found


def grown(num_drafts: int) -> list[Estimate]:
    simulator, rng = Simulator(CHAINS, lossless_rule(CHAINS, num_drafts)), np.random.default_rng(0)
    known = [simulator.run(30, rng).rejections]
    for size in (30, 60, 120):
        known.append(known[-1] + simulator.run(size, rng).rejections)
    return known


def test_running_mean_with_its_band() -> None:
    exact, estimates = total_rejections(CHAINS), grown(1)
    made: Any = charts.running_means(
        [charts.MeanCurve(name="M 1", exact=exact, estimates=estimates)]
    )
    mean = trace(made, "M 1, simulated")
    assert list(mean.x) == [30, 60, 120, 240]
    assert list(mean.y) == [each.mean for each in estimates]
    band = trace(made, "M 1, 95 % interval")
    assert list(band.y[:4]) == [each.interval[1] for each in estimates]
    assert list(band.y[4:]) == [each.interval[0] for each in estimates[::-1]]
    assert set(trace(made, f"M 1, exact {exact:.3f}").y) == {exact}


def test_several_means_have_different_colours() -> None:
    curves = [
        charts.MeanCurve(name=f"M {num}", exact=total_rejections(CHAINS, num), estimates=grown(num))
        for num in (2, 4)
    ]
    made: Any = charts.running_means(curves)
    colours = [trace(made, f"M {num}, simulated").line.color for num in (2, 4)]
    assert len(set(colours)) == 2


def test_draws_the_exact_mean_before_the_simulation() -> None:
    made: Any = charts.running_means([charts.MeanCurve(name="M 1", exact=3.0, estimates=[])])
    assert list(trace(made, "M 1, exact 3.000").y) == [3.0, 3.0]
    once = Estimate(count=1, total=4, squares=16)
    lone: Any = charts.running_means([charts.MeanCurve(name="M 1", exact=3.0, estimates=[once])])
    assert not trace(lone, "M 1, 95 % interval").x


def test_curve_over_drafts() -> None:
    nums = [1, 2, 4, 8]
    counts = scaling(CHAINS, [*nums, math.inf]).tolist()
    floor, four = batch_floor(counts[0]), grown(4)[-1]
    made: Any = charts.drafts_curve(
        nums, counts[:-1], limit=counts[-1], floor=floor, simulated={4: four}
    )
    assert list(trace(made, "exact (theorem 3)").y) == counts[:-1]
    point = trace(made, "simulated, 95 %")
    assert (list(point.x), list(point.y)) == ([4], [four.mean])
    assert point.error_y.array[0] == pytest.approx(1.96 * four.standard_error)
    assert [each.y0 for each in made.layout.shapes] == [counts[-1], floor]


def test_improvements_match_the_closed_forms() -> None:
    coins: Any = charts.coin_improvements([(0.9, 0.5), (0.2, 0.5)])
    for line, (draft, target) in zip(coins.data, [(0.9, 0.5), (0.2, 0.5)], strict=True):
        values = [bernoulli_improvement(draft, target, num) for num in line.x]
        assert list(line.y) == values
    uniform: Any = charts.uniform_improvements([2, 4])
    for line, ratio in zip(uniform.data, [2, 4], strict=True):
        assert list(line.y) == [uniform_improvement(ratio, num) for num in line.x]


def test_rejection_probabilities_by_step() -> None:
    chances = rejections_by_step(CHAINS, 4)
    made: Any = charts.rejection_by_step({"M 4": chances}, {"M 4": chances + 0.01})
    assert list(trace(made, "M 4, exact").y) == list(chances)
    assert list(trace(made, "M 4, simulated").y) == list(chances + 0.01)
    assert list(trace(made, "M 4, exact").x) == list(range(1, 21))


def test_rules_rejections_and_bound() -> None:
    estimate = grown(1)[-1]
    made: Any = charts.rejections_and_bound(6.5, {"token by token": estimate})
    assert list(made.data[0].x) == [estimate.mean]
    assert made.data[0].error_x.array[0] == pytest.approx(1.96 * estimate.standard_error)
    assert {each.x1 for each in made.layout.shapes} == {6.5}
