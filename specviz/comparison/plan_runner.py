"""The one program that runs a plan: one run after the other, never two at once.

Before a lane's first run a short one on the same prompt is made and thrown away, to warm up. A run
is kept before it is reported, so what was reported is never lost. What is done already is not made
again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping

from specviz.comparison.lane_results import LaneRun
from specviz.comparison.plan import Job, Plan, order_that_fits
from specviz.measure.run_makers import MadeRun, RunOrder
from specviz.record.pairs import PairCheck, PairSpec

WARM_UP_TOKENS = 24


def plan_that_fits(plan: Plan, checks: Mapping[PairSpec, PairCheck]) -> Plan:
    """The plan, changed to blocks if its pairs do not fit into memory together."""
    specs = tuple(dict.fromkeys(lane.spec for lane in plan.lanes))
    if len(specs) == 1 or plan.order == "blocks":
        return plan
    needed = [checks[spec].memory_needed for spec in specs]
    free = [checks[spec].memory_free for spec in specs]
    known = [each for each in free if each is not None]
    order = order_that_fits(needed, min(known) if len(known) == len(free) else None)
    return dataclasses.replace(plan, order=order)


def run_plan(
    plan: Plan,
    make: Callable[[RunOrder], MadeRun],
    keep: Callable[[LaneRun, str | None], object],
    done: Collection[tuple[int, int, int]] = (),
) -> Iterator[LaneRun]:
    """Make the runs of all jobs that are not ``done``, in the plan's order.

    ``keep`` gets every run but the warm-ups, with its id in the library if it is there already.
    """
    warm: set[int] = set()
    for job in plan.jobs():
        if job.key in done:
            continue
        order = order_of(plan, job)
        if job.lane not in warm:
            warm.add(job.lane)
            make(_warm_up(plan, job, order))
        made = make(order)
        measured = LaneRun(job=job, trace=made.trace, memory_bytes=made.memory_bytes)
        keep(measured, made.run_id)
        yield measured


def order_of(plan: Plan, job: Job) -> RunOrder:
    label = f"{plan.labels[job.lane]}, repeat {job.repeat + 1} of {plan.repeats}"
    if len(plan.items) > 1:
        label += f", prompt {job.item + 1} of {len(plan.items)}"
    item = plan.items[job.item]
    return RunOrder(
        label=label,
        spec=plan.lanes[job.lane].spec,
        prompt=item.prompt,
        kind=item.kind,
        config=job.config(plan),
        baseline=plan.baseline,
    )


def _warm_up(plan: Plan, job: Job, order: RunOrder) -> RunOrder:
    short = min(order.config.max_new_tokens, WARM_UP_TOKENS)
    config = dataclasses.replace(order.config, max_new_tokens=short)
    label = f"{plan.labels[job.lane]}, warming up"
    return dataclasses.replace(order, label=label, config=config, baseline=False, warm_up=True)
