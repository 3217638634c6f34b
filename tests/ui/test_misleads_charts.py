"""The charts of the page When the formula misleads match the library."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specviz.theory.clustering import StickyText, tokens_per_round
from specviz.theory.roofline import DRAFT_HALF_B, GPUS, TARGET_8B, Serving
from specviz.theory.runtime import rounds_distribution, rounds_distributions
from specviz.theory.speed import expected_tokens
from specviz.theory.temperature import overlap
from specviz.ui.theory.misleading import charts

TEXT = StickyText(easy=0.95, hard=0.45, easy_share=0.6, stickiness=0.8)
DRAFT, TARGET = np.log([0.4, 0.3, 0.15, 0.1, 0.05]), np.log([0.6, 0.15, 0.1, 0.1, 0.05])


def trace(made: Any, name: str) -> Any:
    (found,) = [each for each in made.data if (each.name or "").startswith(name)]
    return found


def test_clustering() -> None:
    made: Any = charts.tokens_over_stickiness(TEXT, 5)
    exact = [tokens_per_round(replace(TEXT, stickiness=each), 5) for each in charts.STICKINESS]
    assert trace(made, "exact").y == pytest.approx(exact)
    assert set(trace(made, "formula").y) == {expected_tokens(0.75, 5)}
    assert trace(made, "chosen").y[0] == pytest.approx(3.0527, abs=5e-5)


def test_mean_and_tail() -> None:
    made: Any = charts.mean_and_tail(rounds_distributions(0.7, 8, 128), 0.1, 1.0, 4)
    assert trace(made, "mean").y[3] == pytest.approx(1.961, abs=5e-4)
    assert trace(made, "1 text in 100").y[3] == pytest.approx(1.633, abs=5e-4)
    assert trace(made, "1 text in 10 ").y[3] == pytest.approx(128 / (52 * 1.4))
    assert list(trace(made, "mean").x) == list(range(1, 9))


def test_rounds_spread() -> None:
    rounds = rounds_distribution(0.7, 4, 128)
    made: Any = charts.rounds_spread(rounds)
    bars = made.data[0]
    assert sum(bars.y) == pytest.approx(1.0, abs=0.02)
    for x, y in zip(bars.x, bars.y, strict=True):
        assert y == rounds.chances[x]
    assert [shape.x0 for shape in made.layout.shapes] == [rounds.mean, 56.0]
    sure: Any = charts.rounds_spread(rounds_distribution(1.0, 4, 10))
    assert list(sure.data[0].y) == [1.0]


def test_batch_and_context() -> None:
    costs: Any
    speeds: Any
    costs, speeds = charts.over_batch(GPUS[2], TARGET_8B, DRAFT_HALF_B, (1024, 16384), 0.75, 5)
    assert trace(speeds, "1,024").y[charts.BATCHES.index(128)] == pytest.approx(1.501, abs=5e-4)
    assert list(trace(speeds, "16,384").x) == [batch for batch in charts.BATCHES if batch <= 52]
    serving = Serving(gpu=GPUS[2], target=TARGET_8B, draft=DRAFT_HALF_B, batch=128, context=1024)
    assert trace(costs, "1,024").y[charts.BATCHES.index(128)] == serving.verify_cost(5)
    assert expected_tokens(0.75, 5) in [shape.y0 for shape in speeds.layout.shapes]


def test_context_that_does_not_fit_draws_an_empty_line() -> None:
    costs: Any
    costs, _ = charts.over_batch(GPUS[0], TARGET_8B, DRAFT_HALF_B, (10_000_000,), 0.75, 5)
    assert list(costs.data[0].x) == []


def test_terabyte_line_is_labelled() -> None:
    made: Any = charts.bytes_a_pass(TARGET_8B, (1024,), 64)
    (name,) = made.layout.annotations
    heights = {shape.y0 for shape in made.layout.shapes if shape.y0 == shape.y1}
    assert (name.text, {10**name.y}) == ("1 TB", heights)
    assert (made.layout.yaxis.type, made.layout.yaxis.dtick) == ("log", 1)


def test_temperature() -> None:
    made: Any = charts.alpha_over_temperature(DRAFT, TARGET, 1.0)
    shared, own = trace(made, "the same"), trace(made, "draft at its best")
    assert shared.y == pytest.approx([overlap(DRAFT, TARGET, each) for each in charts.TEMPERATURES])
    assert all(best >= same for best, same in zip(own.y, shared.y, strict=True))
    assert trace(made, "chosen").y[0] == pytest.approx(0.8)
    assert charts.alpha_over_temperature(DRAFT, TARGET, 0.0).data


def test_estimates() -> None:
    made: Any = charts.alpha_estimates(
        [
            charts.AlphaEstimate(label="one", value=0.6),
            charts.AlphaEstimate(label="two", value=0.8, low=0.7, high=0.95),
        ]
    )
    dots = made.data[0]
    assert (list(dots.x), list(dots.y)) == ([0.6, 0.8], ["one", "two"])
    assert list(dots.error_x.array) == pytest.approx([0.0, 0.15])
    assert list(dots.error_x.arrayminus) == pytest.approx([0.0, 0.1])
