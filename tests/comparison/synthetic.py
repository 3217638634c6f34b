"""Synthetic runs of a plan, with given verdicts and round times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from specviz.comparison import LaneRun
from specviz.comparison.plan import Lane, Plan, PlannedRun, SuiteItem
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig, StepCosts, Trace
from tests.traces import Passes, make_trace, timed

STEP = 0.01  # seconds per token of the target alone


def make_plan(*gammas: int, items: Sequence[SuiteItem] = (), **settings: Any) -> Plan:
    lanes = tuple(Lane(spec=PairSpec(), config=RunConfig(gamma=gamma)) for gamma in gammas)
    given = tuple(items) or (SuiteItem(prompt="Once"),)
    return Plan(lanes=lanes, items=given, **{"repeats": 3, **settings})


def run_of(
    plan: Plan,
    job: PlannedRun,
    *,
    rounds: Sequence[str] = ("aa", "ar", "rd"),
    seconds: float = 0.02,
    step: float = STEP,
    drift: float = 0.0,
    wobble: float = 0.0,
    memory: int | None = 100,
    **fields: Any,
) -> LaneRun:
    """Return a run whose rounds take ``seconds``.

    The second pass of each lane is slower by ``drift``, the speculative one also by ``wobble``.
    """
    trace = make_trace(rounds, config=job.config(plan), **fields)
    passes = Passes(
        target=([step] * len(trace.token_ids), [step * (1 + drift)] * len(trace.token_ids)),
        speculative=([seconds] * len(rounds), [seconds * (1 + drift + wobble)] * len(rounds)),
    )
    whole = timed(trace, passes) if plan.baseline else trace
    return LaneRun(job=job, trace=whole, memory_bytes=memory)


def runs_of(plan: Plan, fields: Callable[[PlannedRun], dict[str, Any]]) -> list[LaneRun]:
    return [run_of(plan, job, **fields(job)) for job in plan.runs()]


def costs(*, c: float, v: float) -> StepCosts:
    """Return costs that are equal for all contexts: c and v target steps."""
    return StepCosts(
        contexts=(1, 100),
        draft=((c * STEP,) * 2,) * 2,
        target=((STEP, STEP), *((v * STEP,) * 2 for _ in range(16))),
    )


def with_target(trace: Trace, name: str) -> Trace:
    target = replace(trace.pair.target, name=name, weights_sha256=name)
    return replace(trace, pair=replace(trace.pair, target=target))
