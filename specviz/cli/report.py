"""The JSON object that ``run`` and ``show`` print."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from specviz.record.trace import Round, StepCosts, Trace


def report(trace: Trace, metrics: dict[str, Any]) -> dict[str, Any]:
    return {
        "pair": trace.pair.name,
        "models": asdict(trace.pair),
        "device": trace.environment.device,
        "dtype": trace.environment.dtype,
        "environment": asdict(trace.environment),
        "config": asdict(trace.config),
        "prompt": trace.prompt.text,
        "prompt_ids": trace.prompt.token_ids,
        "text": trace.text,
        "token_ids": trace.token_ids,
        "finish": trace.finish,
        "notices": trace.notices,
        "rounds": [_round(entry) for entry in trace.rounds],
        "metrics": metrics | _how_costs_were_measured(trace.step_costs),
    }


def to_json(value: object) -> str:
    """One line of strict JSON; what is not finite becomes null."""
    return json.dumps(_finite(value), allow_nan=False)


def _how_costs_were_measured(costs: StepCosts | None) -> dict[str, Any]:
    """``step_costs_samples`` is None if there was time for all of them."""
    return {
        "step_costs_drift": costs and costs.drift,
        "step_costs_samples": costs and costs.samples,
        "step_costs_interpolated": costs and costs.interpolated,
    }


def _round(entry: Round) -> dict[str, Any]:
    return {**asdict(entry), "extra_kind": entry.extra_kind}


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
