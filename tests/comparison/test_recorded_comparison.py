"""Compare's recorded comparison."""

from __future__ import annotations

import pytest

from specviz.comparison import compare
from specviz.comparison.recorded_comparison import comparison_from_record, comparison_to_record
from specviz.ui.compare.current import JobName
from specviz.ui.compare.example import RECORDED
from tests.comparison.synthetic import make_plan, runs_of


def test_a_recorded_comparison_is_the_same_after_reading() -> None:
    plan = make_plan(2, 8)
    runs = tuple(runs_of(plan, lambda job: {"seconds": 0.01 * (1 + job.lane)}))
    record = comparison_to_record(plan, runs)
    assert comparison_from_record(record) == (plan, runs)
    assert comparison_to_record(plan, runs) == record  # without the time of day


@pytest.mark.parametrize("name", RECORDED)
def test_the_shipped_comparisons_have_a_verdict(name: JobName) -> None:
    plan, runs = comparison_from_record(RECORDED[name].read_bytes())
    assert len(runs) == len(list(plan.runs()))
    found = compare(plan, runs)
    assert [lane.speedup_ratio is not None for lane in found.lanes] == [True] * len(plan.lanes)
    assert found.verdict.text
    assert len(found.kinds) == (0 if name == "prompt" else 5)
