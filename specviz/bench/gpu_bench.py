"""The bench on a GPU: CUDA graphs against transformers, a compiled target and memory bandwidth.

For each pair of simulated sizes and each context length, the bench makes one measured run per γ.
Then it times several engines and methods (lanes) in turn on the same prompts, as in ``timing``.
Contexts may exceed the pair's maximum: step costs remain valid there, but the reported acceptance
is lower than usual.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from statistics import median
from typing import TYPE_CHECKING, Any

from specviz.bench.compiled_target import CompiledTarget
from specviz.bench.gpu_goals import GOALS, GpuFigure, judge_goals
from specviz.bench.gpu_lanes import (
    PLAIN_COMPARISONS,
    SHARES,
    SPECULATIVE_COMPARISONS,
    at_gamma,
    gpu_lanes,
)
from specviz.bench.gpu_plan import Bodies, GpuPlan
from specviz.bench.gpu_runs import measured_costs, run_figures
from specviz.bench.gpu_texts import texts_of
from specviz.bench.paired_ratios import LaneRatio, paired_ratios
from specviz.bench.rivals import Assistance
from specviz.bench.timing import TimedLanes, best_assistance, time_lanes
from specviz.errors import SpecvizError
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair
    from specviz.record.trace import StepCosts

Say = Callable[[str], None]
Load = Callable[[Bodies], "Pair"]


@dataclass(slots=True, kw_only=True)
class _Found:
    """The results so far. Every measurement appends its results."""

    environment: dict[str, Any] = field(default_factory=dict[str, Any])
    pairs: dict[str, Any] = field(default_factory=dict[str, Any])
    figures: list[GpuFigure] = field(default_factory=list[GpuFigure])
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    divergences: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    notices: list[str] = field(default_factory=list[str])


class _Loaded(Value, eq=False):
    """A loaded pair, its simulated sizes, the device's memory bandwidth, and the step costs."""

    pair: Pair
    bodies: Bodies
    bandwidth: float
    costs: StepCosts | None


def run_gpu_bench(
    load: Load, plan: GpuPlan, say: Say, further: Sequence[GpuFigure] = ()
) -> dict[str, Any]:
    """Run the bench and return its JSON values.

    Args:
        further: Values measured elsewhere, which are also checked against the goals.
    """
    found = _Found(figures=list(further))
    for bodies in plan.bodies:
        say(f"simulated sizes {bodies}")
        try:
            _measure_bodies(load, bodies, plan, found, say)
        except SpecvizError as error:
            found.notices.append(f"Left out: simulated sizes {bodies}. {error}")
        _free_memory()
    return {
        "environment": found.environment,
        "pairs": found.pairs,
        "settings": asdict(plan) | {"bodies": [str(each) for each in plan.bodies]},
        "asked": judge_goals(GOALS, found.figures if _on_gpu(found.environment) else ()),
        "figures": [asdict(each) for each in found.figures],
        "rows": found.rows,
        "divergences": found.divergences,
        "notices": list(dict.fromkeys(found.notices)),
    }


def _on_gpu(environment: Mapping[str, Any]) -> bool:
    """Return whether the device is a CUDA device; the goals apply only to CUDA devices."""
    return str(environment.get("device", "")).startswith("cuda")


def _measure_bodies(load: Load, bodies: Bodies, plan: GpuPlan, found: _Found, say: Say) -> None:
    from specviz.engine.loading.hardware import measure_bandwidth
    from specviz.engine.model.memory import memory_errors

    pair = replace(load(bodies), max_context=None)
    found.environment = asdict(pair.environment)
    found.pairs[str(bodies)] = asdict(pair.info)
    found.notices += pair.notices
    with memory_errors(pair.device):
        say("bandwidth and step costs")
        bandwidth = measure_bandwidth(pair.device)
        costs = measured_costs(pair, plan, bandwidth)
    found.figures.append(GpuFigure(name="bandwidth", value=bandwidth, bodies=str(bodies)))
    loaded = _Loaded(pair=pair, bodies=bodies, bandwidth=bandwidth, costs=costs)
    for context in plan.contexts:
        say(f"simulated sizes {bodies}, {context} tokens")
        try:
            with memory_errors(pair.device):
                _measure_context(loaded, context, plan, found, say)
        except SpecvizError as error:
            found.notices.append(f"Left out: simulated sizes {bodies} at {context} tokens. {error}")


def _measure_context(loaded: _Loaded, context: int, plan: GpuPlan, found: _Found, say: Say) -> None:
    pair, texts = loaded.pair, texts_of(loaded.pair, context, plan.prompts, plan.num_tokens)
    here = partial(replace, bodies=str(loaded.bodies), context=context)
    say("measured runs")
    for gamma in plan.gammas:
        made = run_figures(pair, texts[0], gamma, loaded.costs, plan)
        found.figures += [here(each, gamma=gamma) for each in made]
    grid = [Assistance(gamma=g, threshold=t) for g, t in product(plan.gammas, plan.thresholds)]
    best = best_assistance(pair, texts[:1], grid, say)
    compiled = _compiled(pair, context, plan, found, say)
    if compiled is not None:
        found.figures.append(here(GpuFigure(name="compile_seconds", value=compiled.seconds)))
    write = compiled and compiled.write
    lanes = gpu_lanes(pair, plan.gammas, plan.config, best, write)
    timed = time_lanes(pair, lanes, texts, plan.repeats, say)
    found.figures += [here(each) for each in _ratios(timed, plan.gammas)]
    shares = _shares(timed, loaded, plan.middle(context))
    found.figures += [
        here(GpuFigure(name=SHARES[key], value=value)) for key, value in shares.items()
    ]
    place = {"bodies": str(loaded.bodies), "context": context}
    found.rows += [
        {**place, **row, "share_of_bandwidth": shares.get(key)}
        for key, row in zip(timed.names, timed.rows(), strict=True)
    ]
    found.divergences += [place | asdict(each) for each in timed.parted]
    found.notices += timed.notices


def _compiled(
    pair: Pair, context: int, plan: GpuPlan, found: _Found, say: Say
) -> CompiledTarget | None:
    """Return the compiled target, or None with a notice if it is not available."""
    from specviz.bench.static_llama import cannot_compile

    reason = cannot_compile(pair.target_weights)
    if not reason:
        say("compiling the target")
        try:
            made = CompiledTarget(pair, context + plan.num_tokens + 1, plan.backend)
        except (RuntimeError, ImportError, OSError) as error:
            reason = f"compiling failed ({type(error).__name__})"
        else:
            if made.graphs_left_out and pair.device.type == "cuda":
                found.notices.append("The compiled target runs without CUDA graphs.")
            return made
    found.notices.append(f"No compiled target for comparison: {reason}.")
    return None


def _ratios(timed: TimedLanes, gammas: Sequence[int]) -> list[GpuFigure]:
    made = _paired(PLAIN_COMPARISONS, timed, None)
    for gamma in gammas:
        made += _paired(SPECULATIVE_COMPARISONS, timed, gamma)
    return made


def _paired(
    comparisons: Sequence[LaneRatio], timed: TimedLanes, gamma: int | None
) -> list[GpuFigure]:
    seconds = timed.seconds if gamma is None else at_gamma(timed.seconds, gamma)
    return [
        GpuFigure(
            name=name,
            value=ratio and ratio.value,
            low=ratio and ratio.low,
            high=ratio and ratio.high,
            gamma=gamma,
        )
        for name, ratio in paired_ratios(comparisons, seconds).items()
    ]


def _shares(timed: TimedLanes, loaded: _Loaded, length: float) -> dict[str, float]:
    """Return which share of the memory bandwidth each lane without a draft uses, by lane key."""
    from specviz.engine.model.pass_bytes import pass_bytes

    reads = pass_bytes(loaded.pair.target)
    if reads is None:
        return {}
    tokens = sum(text.num_tokens for text in timed.texts)
    return {
        key: reads.at(length) * tokens / median(timed.seconds[key]) / loaded.bandwidth
        for key in SHARES
        if key in timed.seconds
    }


def _free_memory() -> None:
    """Free the memory of models that are no longer used."""
    import torch

    torch._dynamo.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
