"""The chart of an audit's evidence."""

from __future__ import annotations

import math
from typing import Any

import pytest

from specviz.ui.lossless import charts
from specviz.ui.lossless.charts import Evidence

LEVEL = 0.01
DRAW: Any = charts  # plotly's types are incomplete


def evidence(*log_e: float, label: str = "the unmodified loop") -> Evidence:
    return Evidence(
        label=label, runs=tuple(10 * (place + 1) for place in range(len(log_e))), log_e=log_e
    )


def test_draws_evidence_in_powers_of_ten_from_zero() -> None:
    drawn = DRAW.evidence_chart([evidence(math.log(10), math.log(1000))], LEVEL)
    (line,) = drawn.data
    assert list(line.x) == [0, 10, 20]
    assert list(line.y) == [pytest.approx(each) for each in (0.0, 1.0, 3.0)]
    assert line.line.shape == "hv"


def test_alarm_line_is_at_the_level() -> None:
    (alarm,) = DRAW.evidence_chart([evidence(0.0)], LEVEL).layout.shapes
    assert alarm.y0 == alarm.y1 == pytest.approx(2.0)


def test_clips_infinite_evidence_to_the_top_of_the_chart() -> None:
    """An impossible token makes the evidence infinite."""
    drawn = DRAW.evidence_chart([evidence(1.0, math.inf)], LEVEL)
    assert drawn.data[0].y[-1] == 12.0
    low, high = drawn.layout.yaxis.range
    assert low < 0
    assert 12.0 < high < 14.0


def test_axis_includes_the_alarm_with_little_evidence() -> None:
    assert DRAW.evidence_chart([evidence(0.0)], LEVEL).layout.yaxis.range[1] > 2.0


def test_draws_one_line_per_audit() -> None:
    drawn = DRAW.evidence_chart([evidence(1.0), evidence(2.0, label="match")], LEVEL)
    assert [each.name for each in drawn.data] == ["the unmodified loop", "match"]
    assert len({each.line.color for each in drawn.data}) == 2


def test_draws_more_audits_than_colours() -> None:
    assert len(DRAW.evidence_chart([evidence(1.0)] * 9, LEVEL).data) == 9
