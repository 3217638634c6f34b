"""The charts of batches show the forecast's own numbers."""

from __future__ import annotations

from typing import Any

import pytest

from specviz.figures.batch_forecast import batch_map
from specviz.record.numbers import UNKNOWN
from specviz.ui.theory.misleading.batch_charts import (
    EnginePoint,
    experts_over_rows,
    speedup_map,
    speedup_over_batch,
    verification_cost,
)
from specviz.ui.theory.misleading.machine_batch import map_sentence, measured_sentence
from tests.batch_forecasts import batch_forecast

FOUND = batch_forecast()


def trace(made: Any, name: str) -> Any:
    (found,) = [each for each in made.data if (each.name or "").startswith(name)]
    return found


def test_forecast_and_measurement_share_a_chart() -> None:
    engine = EnginePoint(engine="vLLM", users=32, speedup=0.9)
    made: Any = speedup_over_batch(FOUND.points, [engine])
    assert list(trace(made, "forecast").y) == [each.forecast for each in FOUND.points]
    measured = trace(made, "measured")
    assert list(measured.x) == [1, 2, 4, 8, 16]
    assert measured.error_y.array[0] == pytest.approx(
        (FOUND.points[0].high or 0) - FOUND.points[0].speedup
    )
    assert list(trace(made, "whole batch, padded").y) == [each.padded for each in FOUND.points]
    assert trace(made, "vLLM").y == (0.9,)


def test_the_map_marks_what_does_not_fit_and_where_it_breaks_even() -> None:
    rows = batch_map(FOUND)
    made: Any = speedup_map(rows, 5)
    cells = made.data[0]
    assert cells.z[0][0] == rows[0][0].speedup
    assert cells.text[-1][-1] == UNKNOWN
    assert cells.text[0][0].startswith(f"γ {rows[0][0].gamma}")
    faster = sum((each.fixed or 0.0) >= 1.0 for each in rows[0])
    assert trace(made, "break-even").x[0] == faster - 0.5


def test_verification_cost_has_a_line_per_context() -> None:
    made: Any = verification_cost(FOUND.costs, 5)
    assert [each.name for each in made.data] == ["256 tokens", "1,024 tokens", "2,016 tokens"]
    assert len(made.data[2].x) == 5, "two batches do not fit"


def test_experts() -> None:
    assert FOUND.experts is not None
    made: Any = experts_over_rows(FOUND.experts)
    assert trace(made, "independent").y[0] == pytest.approx(2.0)
    assert trace(made, "measured").y[-1] == FOUND.experts.points[-1].experts


def test_sentences() -> None:
    said = measured_sentence(FOUND.points)
    assert "within 5.0 % of" in said
    assert "Every text is the same" in said
    rows = batch_map(FOUND)
    assert "at 256 tokens from" in map_sentence(rows, 5)
    assert map_sentence(rows[:1], 5).count("tokens") == 1
