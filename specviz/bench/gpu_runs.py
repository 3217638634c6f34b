"""Make runs on a GPU, and return their acceptance, step costs and speedups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from specviz.bench.gpu_goals import GpuFigure
from specviz.bench.gpu_plan import GpuPlan
from specviz.bench.timing import Text
from specviz.figures.arithmetic import known_ratio
from specviz.figures.metrics import Metrics, metrics
from specviz.measure.measured_run import measured_run
from specviz.record.trace import StepCosts

if TYPE_CHECKING:
    from specviz.engine import Pair

_METRICS = {  # figure: field of the metrics
    "alpha": "alpha_observed",
    "tau": "tau",
    "speedup_accounted": "speedup_accounted",
    "c": "c",
    "v": "v",
    "share_draft_step": "draft_bandwidth_share",
    "share_verification": "verify_bandwidth_share",
    "free_gamma": "free_gamma",
}


def measured_costs(pair: Pair, plan: GpuPlan, bandwidth: float) -> StepCosts | None:
    """Measure step costs at the contexts of the plan, without storing them."""
    from specviz.engine.decoding.costs import measure_step_costs
    from specviz.engine.model.pass_bytes import draft_bytes, pass_bytes

    config = replace(plan.config, gamma=max(plan.gammas))
    costs = measure_step_costs(pair, config, contexts=plan.contexts, seconds=plan.costs_seconds)
    return costs and replace(
        costs,
        bandwidth=bandwidth,
        draft_reads=draft_bytes(pair, config),
        target_reads=pass_bytes(pair.target),
    )


def run_figures(
    pair: Pair, text: Text, gamma: int, costs: StepCosts | None, plan: GpuPlan
) -> Iterator[GpuFigure]:
    found = _measured(pair, text, gamma, costs, plan)
    observed, accounted = found.speedup_observed, found.speedup_accounted
    yield GpuFigure(
        name="speedup_observed", value=observed, low=found.speedup_low, high=found.speedup_high
    )
    for name, field in _METRICS.items():
        yield GpuFigure(name=name, value=getattr(found, field))
    yield GpuFigure(name="accounting", value=known_ratio(observed, accounted))
    if costs is not None and costs.draft_reads is not None and costs.target_reads is not None:
        middle = plan.middle(len(text.ids))
        ratio = costs.draft_reads.at(middle) / costs.target_reads.at(middle)
        yield GpuFigure(name="bytes_ratio", value=ratio)
        yield GpuFigure(name="c_over_bytes", value=None if found.c is None else found.c / ratio)


def _measured(
    pair: Pair, text: Text, gamma: int, costs: StepCosts | None, plan: GpuPlan
) -> Metrics:
    config = replace(plan.config, gamma=gamma)
    run = measured_run(pair, text.ids, config, budget=plan.accounting_seconds)
    for _ in run:
        pass
    for _ in run.timed():
        pass
    return metrics(replace(run.trace(), step_costs=costs))
