"""Read and write comparisons as compressed JSON. The example on the Compare page is such a file."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass, fields

from specviz.comparison.lane_run import LaneRun
from specviz.comparison.plan import Plan, plan_from_json, plan_to_json
from specviz.store.dataclass_json import from_json
from specviz.store.files import to_json


@dataclass(frozen=True, kw_only=True)
class _Record:
    plan: str  # JSON
    runs: tuple[LaneRun, ...]


def comparison_to_record(plan: Plan, runs: Sequence[LaneRun]) -> bytes:
    parts = [{each.name: getattr(run, each.name) for each in fields(run)} for run in runs]
    text = to_json({"plan": plan_to_json(plan), "runs": parts})
    return gzip.compress(text.encode(), mtime=0)


def comparison_from_record(record: bytes) -> tuple[Plan, tuple[LaneRun, ...]]:
    found = from_json(gzip.decompress(record).decode(), _Record)
    return plan_from_json(found.plan), found.runs
