"""The JSON of a run's figures is public: keys, their order and values stay as recorded.

The record was written by version 0.1.0 and is never written again.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.figures.metrics import metrics
from specviz.record.trace import Baseline, Forecast, Slice, Trace
from specviz.store import load_trace
from tests.figures.test_roofline import COSTS
from tests.traces import BODY, make_trace, with_bodies

ROOT = Path(__file__).parents[2]
RECORD = json.loads((Path(__file__).parent / "recorded_metrics.json").read_text(encoding="utf-8"))


def trace_with_every_figure() -> Trace:
    slices = tuple(
        Slice(first=i, last=i + 1, target=(0.03, 0.031 + i % 3 / 1000), speculative=(0.02, 0.021))
        for i in range(16)
    )
    trace = make_trace(
        ["aar", "aaa"] * 8,
        step_costs=replace(COSTS, draft_errors=(0.03, 0.02), target_errors=(0.04,) * 17),
        forecast=Forecast(speedup=1.4, tau=2.5, kind="story", num_texts=4),
        baseline=Baseline(slices=slices, prefill=0.02),
    )
    return with_bodies(trace, target=BODY, bandwidth=24e9)


def trace_of(name: str) -> Trace:
    built = {"every figure": trace_with_every_figure, "nothing measured": make_trace}
    return built[name]() if name in built else load_trace(ROOT / name)


def has_value(now: Any, recorded: Any) -> bool:
    """Return whether two JSON values are equal, floats up to rounding."""
    if isinstance(recorded, dict):
        return list(now) == list(recorded) and has_value([*now.values()], [*recorded.values()])
    if isinstance(recorded, list):
        return len(now) == len(recorded) and all(map(has_value, now, recorded))
    if isinstance(recorded, float):
        return now == pytest.approx(recorded, rel=1e-12)
    return type(now) is type(recorded) and now == recorded


@pytest.mark.parametrize("name", RECORD["runs"])
def test_figures_are_those_of_the_record(name: str) -> None:
    now = json.loads(json.dumps(metrics(trace_of(name)).as_dict(), allow_nan=False))
    recorded = dict(zip(RECORD["keys"], RECORD["runs"][name], strict=True))
    assert [key for key in now if key in recorded] == RECORD["keys"]
    assert [key for key in recorded if not has_value(now[key], recorded[key])] == []


def test_the_record_has_every_figure() -> None:
    assert None not in RECORD["runs"]["every figure"]
