"""The figures as JSON, and the rounds as a table."""

from __future__ import annotations

import json
import math

import pytest

from specviz.figures.frames import rounds_frame
from specviz.figures.metrics import Metrics, metrics
from tests.changed_metrics import with_costs
from tests.paper_trace import paper_trace
from tests.traces import make_trace


@pytest.fixture
def figures() -> Metrics:
    return metrics(paper_trace())


def test_as_dict_is_json(figures: Metrics) -> None:
    record = json.loads(json.dumps(figures.as_dict(), allow_nan=False))
    assert record["alpha_by_position"] == [0.75, 1.0, 0.5]
    assert record["intervals"]["coins"]["label"] == "sampling noise"
    assert record["intervals"]["prompt"] is None
    assert record["speedup_low"] < record["speedup_observed"] < record["speedup_high"]
    assert record["speedup_pairs"] == 1
    assert {
        "num_rounds", "num_drafted", "num_tested", "num_accepted", "alpha_observed",
        "alpha_expected", "draft_acceptance_rate", "tau", "alpha_by_position", "c", "v",
        "tokens_per_second", "baseline_tokens_per_second", "speedup_observed",
        "speedup_end_to_end", "speedup_ideal", "speedup_accounted", "speedup_forecast",
        "ttft_ms",
    } <= record.keys()  # fmt: skip


def test_as_dict_replaces_infinity_and_nan_by_none(figures: Metrics) -> None:
    record = with_costs(figures, gamma=3, c=math.inf, v=math.nan).as_dict()
    assert (record["c"], record["v"]) == (None, None)


def test_rounds_frame() -> None:
    frame = rounds_frame(paper_trace())
    assert frame["round"].tolist() == [0, 1, 2, 3]
    assert frame["context_length"].tolist() == [4, 7, 11, 12]
    assert frame["drafted"].tolist() == [3, 3, 3, 2]
    assert frame["tested"].tolist() == [3, 3, 1, 1]
    assert frame["accepted"].tolist() == [2, 3, 0, 1]
    assert frame["emitted"].tolist() == [3, 4, 1, 1]
    assert frame["alpha_expected"].tolist() == pytest.approx([0.8, 0.5, 0.2, 0.4])
    assert frame["extra_kind"].tolist()[:3] == ["recovered", "bonus", "recovered"]
    assert frame["extra_kind"].isna().tolist() == [False, False, False, True]
    assert frame["cut"].tolist()[3] == "eos"
    assert frame["whole"].tolist() == [True, True, True, False]
    assert frame["decode_seconds"].tolist() == pytest.approx([0.015, 0.015, 0.015, 1.5])
    assert frame["verify_seconds"].tolist() == [0.010, 0.011, 0.010, 0.5]


def test_an_empty_frame_has_all_columns() -> None:
    empty, full = make_trace([]), make_trace()
    assert rounds_frame(empty).columns.tolist() == rounds_frame(full).columns.tolist()
    assert len(rounds_frame(empty)) == 0
