"""The charts of the Speed page match the library."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from specviz.theory.speed import best_gamma, expected_tokens, speedup
from specviz.ui.theory.speed.charts import (
    MAP_COSTS,
    SpeedupPoint,
    expected_and_measured,
    speedup_map,
    speedup_over_gamma,
    tokens_over_gamma,
)

POINTS = [
    SpeedupPoint(label="first", alpha=0.7, c=0.1, speedup=1.8, run_id="a", expected=2.0),
    SpeedupPoint(label="second", alpha=0.5, c=0.2, speedup=0.9, run_id="b"),
]


def trace(made: Any, name: str) -> Any:
    (found,) = [each for each in made.data if (each.name or "").startswith(name)]
    return found


def test_both_curves_over_gamma() -> None:
    made: Any = speedup_over_gamma(0.8, 0.05, 1.3, 6)
    assert trace(made, "verification").y == pytest.approx(
        [speedup(0.8, gamma, 0.05, 1.3) for gamma in range(25)]
    )
    assert trace(made, "ideal").y == pytest.approx(
        [speedup(0.8, gamma, 0.05) for gamma in range(25)]
    )
    gamma, value = best_gamma(0.8, 0.05, 1.3)
    assert (trace(made, "best").x[0], trace(made, "best").y[0]) == (gamma, value)
    assert trace(made, "chosen").y[0] == speedup(0.8, 6, 0.05, 1.3)


@pytest.mark.parametrize("verify_cost", [1.0, 1.7])
def test_map_shows_the_best_speedup(verify_cost: float) -> None:
    made: Any = speedup_map(verify_cost, (0.7, 0.1), POINTS[:1], POINTS[1:])
    heat = made.data[0]
    for row, column in ((0, 0), (20, 30), (45, 10), (59, 59)):
        gamma, value = best_gamma(heat.y[row], MAP_COSTS[column], verify_cost, 40)
        assert heat.customdata[row, column] == pytest.approx([gamma, value])
        assert heat.z[row, column] == pytest.approx(np.log(min(value, 8.0)))
    assert heat.z.shape == (60, 60)


def test_boundaries_are_where_the_best_gamma_changes() -> None:
    made: Any = speedup_map(1.0, (0.7, 0.1))
    for name, level in (("break-even", 1), ("best γ reaches", 2)):
        line = next(each for each in made.data if (each.name or "").startswith(name))
        for column in (5, 30, 50):
            alpha, cost, step = line.y[column], MAP_COSTS[column], 1 / 472
            assert best_gamma(alpha, cost)[0] >= level
            assert best_gamma(max(0.0, alpha - step), cost)[0] < level
    equal = trace(made, "α = c")
    assert list(equal.x) == list(equal.y)


def test_points_carry_their_ids() -> None:
    made: Any = speedup_map(1.0, (0.7, 0.0), POINTS[:1], POINTS[1:])
    assert trace(made, "papers").customdata[0][0] == "a"
    runs = trace(made, "runs (measured")
    assert (runs.customdata[0][0], runs.x[0], runs.y[0]) == ("b", 0.2, 0.5)
    assert trace(made, "these settings").x[0] == MAP_COSTS[0]  # no draft cost: at the edge
    bare: Any = speedup_map(1.0, (0.7, 0.1))
    assert not [
        each for each in bare.data if (each.name or "").startswith(("runs (measured", "papers"))
    ]


def test_map_is_fast() -> None:
    spent = []
    for _ in range(5):
        began = time.process_time()
        speedup_map(1.2, (0.7, 0.1), POINTS, POINTS)
        spent.append(time.process_time() - began)
    assert min(spent) < 0.15


def test_tokens_over_gamma_with_their_limit() -> None:
    made: Any = tokens_over_gamma(0.75, 5)
    assert made.data[0].y == pytest.approx([expected_tokens(0.75, gamma) for gamma in range(25)])
    assert made.layout.shapes[0].y0 == 4.0
    endless: Any = tokens_over_gamma(1.0, 5)
    assert not endless.layout.shapes


def test_measured_over_expected() -> None:
    made: Any = expected_and_measured(POINTS)
    points = trace(made, "papers")
    assert (list(points.x), list(points.y)) == ([2.0], [1.8])  # the second has no expectation
    assert expected_and_measured([]).data


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("cost", [0.0, 1.0])
def test_draws_extreme_values(alpha: float, cost: float) -> None:
    for made in (
        speedup_over_gamma(alpha, cost, 1.0, 0),
        speedup_map(3.0, (alpha, cost)),
        tokens_over_gamma(alpha, 24),
    ):
        assert made.to_json()
