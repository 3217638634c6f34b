"""The chart of an audit's evidence."""

from __future__ import annotations

import math
from typing import Any

import pytest

from specviz.ui.lossless import charts
from specviz.ui.lossless.charts import Evidence

LEVEL = 0.01
DRAW: Any = charts  # plotly tells little of what its figures hold


def evidence(*log_e: float, label: str = "the true rule") -> Evidence:
    return Evidence(
        label=label, runs=tuple(10 * (place + 1) for place in range(len(log_e))), log_e=log_e
    )


def test_evidence_is_drawn_in_powers_of_ten_from_nothing() -> None:
    drawn = DRAW.evidence_chart([evidence(math.log(10), math.log(1000))], LEVEL)
    (line,) = drawn.data
    assert list(line.x) == [0, 10, 20]
    assert list(line.y) == [pytest.approx(each) for each in (0.0, 1.0, 3.0)]
    assert line.line.shape == "hv"


def test_the_alarm_is_at_the_level() -> None:
    (alarm,) = DRAW.evidence_chart([evidence(0.0)], LEVEL).layout.shapes
    assert alarm.y0 == alarm.y1 == pytest.approx(2.0)


def test_certainty_ends_at_the_top_of_the_chart() -> None:
    """A token that the target cannot write makes the evidence infinite."""
    drawn = DRAW.evidence_chart([evidence(1.0, math.inf)], LEVEL)
    assert drawn.data[0].y[-1] == 12.0
    low, high = drawn.layout.yaxis.range
    assert low < 0
    assert 12.0 < high < 14.0


def test_little_evidence_leaves_room_up_to_the_alarm() -> None:
    assert DRAW.evidence_chart([evidence(0.0)], LEVEL).layout.yaxis.range[1] > 2.0


def test_each_audit_has_a_line_of_its_own() -> None:
    drawn = DRAW.evidence_chart([evidence(1.0), evidence(2.0, label="match")], LEVEL)
    assert [each.name for each in drawn.data] == ["the true rule", "match"]
    assert len({each.line.color for each in drawn.data}) == 2


def test_more_audits_than_colours_are_drawn() -> None:
    assert len(DRAW.evidence_chart([evidence(1.0)] * 9, LEVEL).data) == 9
