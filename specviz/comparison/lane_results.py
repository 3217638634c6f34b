"""Speed, acceptance and other values of a lane, and of the target alone, over their runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from specviz.comparison.lane_run import LaneRun
from specviz.comparison.machines import (
    MachineKind,
    are_mixed,
    kind_of,
    kinds_of,
    several_at_once,
)
from specviz.comparison.plan import Lane, Plan
from specviz.figures.metrics import Metrics
from specviz.figures.paired import (
    PromptRepeat,
    Ratio,
    Spread,
    Values,
    mean_of,
    ratio_of,
    spread,
)
from specviz.figures.step_cost_warnings import step_cost_warning
from specviz.record.trace import Environment, Trace
from specviz.values import Value


class LaneResult(Value):
    """Speed, acceptance and other values of a lane, as medians of its runs.

    A value is None if no run has it. Rates, c, v, ``ttft_ms`` and ``wasted_share`` are also None
    if several kinds of machine made the runs, or if several runs were made at once. ``alpha`` and
    ``expected`` are the observed and the expected acceptance as means with intervals, not medians.
    ``speedup_ratio`` is the mean speedup over the target alone with its interval, computed from
    log-ratios. ``environments`` has no duplicates.
    """

    label: str
    lane: Lane
    count: int
    representative: LaneRun | None  # the run nearest the median rate
    environments: tuple[Environment, ...]
    alpha: Ratio | None
    expected: Ratio | None
    speedup_ratio: Ratio | None
    alpha_observed: Spread | None
    alpha_expected: Spread | None
    tau: Spread | None
    c: Spread | None
    v: Spread | None
    tokens_per_second: Spread | None
    target_tokens_per_second: Spread | None
    speedup: Spread | None
    end_to_end: Spread | None
    wasted_share: Spread | None
    memory_bytes: Spread | None
    ttft_ms: Spread | None
    cost_warnings: tuple[str, ...] = ()  # about the step costs behind c and v


class TargetResult(Value):
    """Speed and time to first token of the target alone, over runs with the first lane's target."""

    label: str
    count: int
    tokens_per_second: Spread | None
    ttft_ms: Spread | None


def median_of(found: Spread | None) -> float | None:
    return None if found is None else found.median


# Figures computed from times, which depend on the machine.
_OF_A_MACHINE = frozenset(
    ("tokens_per_second", "baseline_tokens_per_second", "ttft_ms", "c", "v", "wasted_share")
)


def is_whole(plan: Plan, trace: Trace) -> bool:
    """Return whether a stored run was not stopped and has the baseline that the plan requires."""
    has_baseline = trace.baseline is not None or not plan.baseline or not trace.rounds
    return trace.finish != "stopped" and has_baseline


def lane_result(label: str, lane: Lane, runs: Sequence[LaneRun]) -> LaneResult:
    """Return the results of a lane, computed from its runs."""
    untimed = are_mixed(runs) or several_at_once(runs)

    def over(name: str) -> Spread | None:
        if untimed and name in _OF_A_MACHINE:
            return None
        return spread(getattr(each.figures, name) for each in runs)

    warnings = (step_cost_warning(each.trace.step_costs) for each in runs)
    return LaneResult(
        label=label,
        lane=lane,
        count=len(runs),
        representative=representative(runs),
        environments=_environments(runs),
        alpha=_share(values(runs, lambda figures: figures.alpha_observed)),
        expected=_share(values(runs, lambda figures: figures.alpha_expected)),
        speedup_ratio=speedup_of(runs),
        alpha_observed=over("alpha_observed"),
        alpha_expected=over("alpha_expected"),
        tau=over("tau"),
        c=over("c"),
        v=over("v"),
        tokens_per_second=over("tokens_per_second"),
        target_tokens_per_second=over("baseline_tokens_per_second"),
        speedup=over("speedup_observed"),
        end_to_end=over("speedup_end_to_end"),
        wasted_share=over("wasted_share"),
        memory_bytes=spread(each.memory_bytes for each in runs),
        ttft_ms=over("ttft_ms"),
        cost_warnings=tuple(dict.fromkeys(filter(None, warnings))),
    )


def target_result(runs: Sequence[LaneRun]) -> TargetResult | None:
    """Return the results of the target alone; None if no run measured it."""
    known = [each for each in runs if each.figures.baseline_tokens_per_second is not None]
    if not known:
        return None
    first = known[0].trace.pair.target
    same = [each for each in known if each.trace.pair.target == first]
    if are_mixed(same):
        return TargetResult(label=first.name, count=len(same), tokens_per_second=None, ttft_ms=None)
    return TargetResult(
        label=first.name,
        count=len(same),
        tokens_per_second=spread(each.figures.baseline_tokens_per_second for each in same),
        ttft_ms=spread(each.figures.baseline_ttft_ms for each in same),
    )


def values(
    runs: Sequence[LaneRun],
    figure: Callable[[Metrics], float | None],
    kind: Callable[[LaneRun], MachineKind | None] | None = None,
) -> dict[PromptRepeat, float]:
    """Return ``figure`` of each run, keyed by prompt, repeat and, with ``kind``, machine kind."""
    found = ((_place(each, kind and kind(each)), figure(each.figures)) for each in runs)
    return {place: value for place, value in found if value is not None}


def _place(run: LaneRun, kind: MachineKind | None) -> PromptRepeat:
    place = run.job.item, run.job.repeat
    return place if kind is None else (*place, kind)


def log_values(
    runs: Sequence[LaneRun],
    figure: Callable[[Metrics], float | None],
    kind: Callable[[LaneRun], MachineKind | None] | None = None,
) -> dict[PromptRepeat, float]:
    known = values(runs, figure, kind)
    return {place: math.log(value) for place, value in known.items() if value > 0}


def speedup_of(runs: Sequence[LaneRun]) -> Ratio | None:
    """Return the mean speedup of the runs over the target alone, with its interval.

    For a single run, the interval covers the timing of that run.
    """
    logs = log_values(runs, lambda figures: figures.speedup_observed, kinds_of(runs))
    found = ratio_of(logs)
    if found is None or found.low is not None:
        return found
    only = next(each.figures for each in runs if each.figures.speedup_observed is not None)
    if only.speedup_low is None:
        return found
    pairs = only.speedup_pairs or 0
    return replace(found, low=only.speedup_low, high=only.speedup_high, over="timing", count=pairs)


def log_speeds(by_lane: Sequence[Sequence[LaneRun]]) -> list[dict[PromptRepeat, float]]:
    """Return each lane's log speeds by prompt and repeat.

    The speed is the speedup over the target alone on three conditions: every run also timed the
    target alone, all runs have the same target, and all runs on one kind of machine have the same
    device, dtype and threads. Otherwise the speed is the number of tokens per second. If several
    runs were made at once, no lane has log speeds.
    """
    runs = [run for own in by_lane for run in own]
    if several_at_once(runs):
        return [{} for _ in by_lane]
    kind = kinds_of(runs)
    targets = {(run.trace.pair.target, _machine(run.trace)) for run in runs}
    beside = all(run.figures.speedup_observed is not None for run in runs)
    if beside and len(targets) == len({kind(run) for run in runs}):
        return [log_values(own, lambda figures: figures.speedup_observed, kind) for own in by_lane]
    return [log_values(own, lambda figures: figures.tokens_per_second, kind) for own in by_lane]


def _machine(trace: Trace) -> tuple[object, ...]:
    where = trace.environment
    return where.device, where.device_name, where.cpu, where.dtype, where.threads


def _share(known: Values) -> Ratio | None:
    """Return the mean of values between 0 and 1, with its interval clipped to [0, 1]."""
    found = mean_of(known)
    if found is None or found.low is None or found.high is None:
        return found
    return replace(found, low=max(0.0, found.low), high=min(1.0, found.high))


def _environments(runs: Sequence[LaneRun]) -> tuple[Environment, ...]:
    distinct: list[Environment] = []
    for run in runs:
        if run.trace.environment not in distinct:
            distinct.append(run.trace.environment)
    return tuple(distinct)


def representative(runs: Sequence[LaneRun]) -> LaneRun | None:
    """Return the run nearest to the median tokens/s.

    Only runs on one kind of machine are considered: the kind that made the most runs.
    """
    counts = Counter(kind_of(each.trace.environment) for each in runs)
    commonest = max(counts, key=lambda kind: counts[kind], default=None)
    alike = [each for each in runs if kind_of(each.trace.environment) == commonest]
    rated = [(each.figures.tokens_per_second, each) for each in alike]
    known = [(rate, run) for rate, run in rated if rate is not None]
    middle = spread(rate for rate, _ in known)
    if middle is None:
        return runs[0] if runs else None
    return min(known, key=lambda each: abs(each[0] - middle.median))[1]
