"""A comparison as JSON values: lanes, verdict, prompts and machines."""

from __future__ import annotations

import dataclasses
from typing import Any

from specviz.comparison.lane_results import LaneResult, TargetResult, median_of
from specviz.comparison.results import Comparison, KindResult
from specviz.comparison.verdict import ComparisonVerdict
from specviz.figures.paired import Ratio, Spread

KIND = "specviz.comparison"
SCHEMA = 1

_MEDIANS = (
    "alpha_observed", "alpha_expected", "tau", "c", "v", "tokens_per_second",
    "target_tokens_per_second", "speedup", "end_to_end", "wasted_share", "memory_bytes", "ttft_ms",
)  # fmt: skip


def comparison_to_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as JSON values; the verdict refers to lanes by label."""
    labels = [lane.label for lane in comparison.lanes]
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "lanes": [_lane(lane) for lane in comparison.lanes],
        "target": _target(comparison.target),
        "verdict": _verdict(comparison.verdict, labels),
        "kinds": [_kind(each) for each in comparison.kinds],
        "prompts": [dataclasses.asdict(item) for item in comparison.plan.items],
        "repeats": comparison.plan.repeats,
        "order": comparison.plan.order,
        "complete": comparison.complete,
        "machines": [dataclasses.asdict(each) for each in comparison.machines],
    }


def _lane(lane: LaneResult) -> dict[str, Any]:
    run = lane.representative
    return {
        "label": lane.label,
        "pair": dataclasses.asdict(lane.lane.spec),
        "settings": dataclasses.asdict(lane.lane.config),
        "environment": dataclasses.asdict(run.trace.environment) if run else None,
        "count": lane.count,
        "medians": {name: median_of(getattr(lane, name)) for name in _MEDIANS},
        "spreads": {name: _spread(getattr(lane, name)) for name in _MEDIANS},
        "intervals": {
            "alpha_observed": _ratio(lane.alpha),
            "alpha_expected": _ratio(lane.expected),
            "speedup": _ratio(lane.speedup_ratio),
        },
        "cost_warnings": lane.cost_warnings,
    }


def _target(target: TargetResult | None) -> dict[str, Any] | None:
    if target is None:
        return None
    names = ("tokens_per_second", "ttft_ms")
    return {
        "label": target.label,
        "count": target.count,
        "medians": {name: median_of(getattr(target, name)) for name in names},
        "spreads": {name: _spread(getattr(target, name)) for name in names},
    }


def _verdict(verdict: ComparisonVerdict, labels: list[str]) -> dict[str, Any]:
    return {
        "text": verdict.text,
        "winner": None if verdict.winner is None else labels[verdict.winner],
        "ranking": [labels[lane] for lane in verdict.ranking],
        "same_question": verdict.same_question,
        "notes": list(verdict.notes),
        "ratios": [
            {"lane": labels[i], "over": labels[j], "ratio": _ratio(found)}
            for (i, j), found in sorted(verdict.ratios.items())
        ],
    }


def _kind(result: KindResult) -> dict[str, Any]:
    return {
        "kind": result.kind,
        "num_prompts": result.num_prompts,
        "lanes": [
            {
                "label": lane.label,
                "count": lane.count,
                "alpha_observed": _ratio(lane.alpha),
                "alpha_expected": _ratio(lane.expected),
                "tau": _spread(lane.tau),
                "speedup": _ratio(lane.speedup_ratio),
                "tokens_per_second": _spread(lane.tokens_per_second),
                "over_first": _ratio(over_first),
            }
            for lane, over_first in zip(result.lanes, result.over_first, strict=True)
        ],
    }


def _spread(value: Spread | None) -> dict[str, float] | None:
    return None if value is None else dataclasses.asdict(value)


def _ratio(value: Ratio | None) -> dict[str, Any] | None:
    return None if value is None else dataclasses.asdict(value)
