"""Build the JSON objects that ``run``, ``show`` and ``attach`` print."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from specviz.figures.paired import Ratio
from specviz.figures.server_figures import pooled_metrics, server_metrics
from specviz.record.server_run import ServerInfo, ServerTrace
from specviz.record.trace import Round, StepCosts, Trace

if TYPE_CHECKING:
    from specviz.figures.metrics import Metrics


def report(trace: Trace, metrics: dict[str, Any], bodies: dict[str, Any] | None) -> dict[str, Any]:
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
        "bodies": bodies,
        "metrics": metrics | _how_costs_were_measured(trace.step_costs),
    }


def body_report(trace: Trace, metrics: Metrics, own_speedup: float | None) -> dict[str, Any] | None:
    """Return the report on simulated sizes as JSON values; None if no size is simulated."""
    if not trace.pair.has_bodies:
        return None
    from specviz.figures.body_words import body_sentences, is_weak_baseline

    return {
        "own_speedup": own_speedup,
        "flattered": is_weak_baseline(metrics),
        "bandwidth": trace.step_costs and trace.step_costs.bandwidth,
        "sentences": body_sentences(trace, metrics, own_speedup),
    }


def speedup_of_answers(traces: Sequence[ServerTrace]) -> Ratio | None:
    from specviz.servers.baseline import speedup_against

    return speedup_against(traces)


def answers_report(info: ServerInfo, traces: Sequence[ServerTrace]) -> dict[str, Any]:
    """Return the answers of an engine as JSON values.

    For a single answer, its text, token ids and rounds are also at the top level.
    """
    runs = [_answer(each) for each in traces]
    only = runs[0] if len(runs) == 1 else {}
    speedup = speedup_of_answers(traces)
    return {
        "engine": info.engine,
        "version": info.version,
        "model": info.model,
        "address": info.address,
        "gamma": info.gamma,
        "capabilities": asdict(info.capabilities),
        "text": only.get("text"),
        "token_ids": only.get("token_ids"),
        "rounds": only.get("rounds"),
        "metrics": asdict(pooled_metrics(traces)),
        "speedup": speedup and asdict(speedup),
        "runs": runs,
    }


def _answer(trace: ServerTrace) -> dict[str, Any]:
    return {
        "prompt": trace.prompt,
        "text": trace.text,
        "token_ids": trace.token_ids,
        "finish": trace.finish,
        "grounds": trace.grounds,
        "notices": trace.notices,
        "rounds": [asdict(each) for each in trace.rounds],
        "totals": asdict(trace.totals),
        "blocks": [asdict(each) for each in trace.baseline],
        "metrics": asdict(server_metrics(trace)),
    }


def to_json(value: object) -> str:
    """Return one line of strict JSON; numbers that are not finite become null."""
    return json.dumps(_finite(value), allow_nan=False)


def _how_costs_were_measured(costs: StepCosts | None) -> dict[str, Any]:
    """Return how step costs were measured; the number of samples is given only if time ran out."""
    return {
        "step_costs_drift": costs and costs.drift,
        "step_costs_other_processes": costs and costs.others,
        "step_costs_bandwidth": costs and costs.bandwidth,
        "step_costs_samples": costs and costs.samples,
        "step_costs_interpolated": costs and costs.interpolated,
        "step_costs_runs": costs and costs.runs,
        "step_costs_processes": costs and costs.processes,
        "step_costs_of_this_run": costs and costs.of_this_run,
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
