"""Run a plan in this process, in the dashboard's worker or on a cluster.

A device makes one run at a time. Before the first run of a lane, the device makes a short run on
the same prompt to warm up; this short run is discarded. Runs are stored before they are reported,
so no reported run is lost. Finished runs are not made again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby

from specviz.comparison.lane_run import LaneRun
from specviz.comparison.plan import Plan, PlannedRun, order_that_fits
from specviz.measure.run_makers import Block, BlockRun, MadeRun, RunOrder
from specviz.record.pairs import PairCheck, PairSpec

Kept = tuple[LaneRun, str | None]  # a run, and its library id if it is stored already

WARM_UP_TOKENS = 24


def plan_that_fits(plan: Plan, checks: Mapping[PairSpec, PairCheck]) -> Plan:
    """Return the plan, with order "blocks" if its pairs do not fit into memory together."""
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
    make: Callable[[Sequence[Block]], Iterator[tuple[int, Sequence[MadeRun]]]],
    keep: Callable[[Sequence[Kept]], object],
    done: Collection[tuple[int, int, int]] = (),
) -> Iterator[LaneRun]:
    """Make and store all runs that are not ``done``; yield each run once it is stored.

    Args:
        plan: The plan.
        make: Makes blocks (groups of runs); yields a block's index and its next finished runs.
        keep: Stores the runs that ``make`` yielded together, all or none.
        done: The runs to skip, as indices of lane, prompt and repeat.
    """
    planned = blocks_of(plan, done)
    made_of = [0] * len(planned)
    for place, found in make([_block(plan, jobs) for jobs in planned]):
        jobs = planned[place][made_of[place] :]
        made_of[place] += len(found)
        runs = [
            LaneRun(job=job, trace=made.trace, memory_bytes=made.memory_bytes)
            for job, made in zip(jobs, found, strict=False)
        ]
        keep([(run, made.run_id) for run, made in zip(runs, found, strict=True)])
        yield from runs


def blocks_of(
    plan: Plan, done: Collection[tuple[int, int, int]] = ()
) -> list[tuple[PlannedRun, ...]]:
    """Group the missing runs into blocks; one device makes all runs of a block.

    A block has the runs of all lanes on one prompt in one repeat. If ``plan.order`` is "blocks",
    all runs of a block also use the same pair. If the plan does not measure the target alone, no
    times are compared, so every run is a separate block.
    """

    def block(job: PlannedRun) -> object:
        pair = plan.lanes[job.lane].spec if plan.order == "blocks" else None
        return (pair, job.repeat, job.item) if plan.baseline else job

    missing = (run for run in plan.runs() if run.key not in done)
    return [tuple(jobs) for _, jobs in groupby(missing, block)]


def _block(plan: Plan, jobs: Sequence[PlannedRun]) -> Block:
    orders = [(job, order_of(plan, job)) for job in jobs]
    return Block(
        runs=tuple(
            BlockRun(order=order, warm_up=_warm_up(plan, job, order)) for job, order in orders
        )
    )


def order_of(plan: Plan, job: PlannedRun) -> RunOrder:
    label = f"{plan.labels[job.lane]}, repeat {job.repeat + 1} of {plan.repeats}"
    if len(plan.items) > 1:
        label += f", prompt {job.item + 1} of {len(plan.items)}"
    item = plan.items[job.item]
    return RunOrder(
        label=label,
        spec=plan.lanes[job.lane].spec,
        prompt=item.whole,
        kind=item.kind,
        config=job.config(plan),
        baseline=plan.baseline,
    )


def _warm_up(plan: Plan, job: PlannedRun, order: RunOrder) -> RunOrder:
    short = min(order.config.max_new_tokens, WARM_UP_TOKENS)
    config = dataclasses.replace(order.config, max_new_tokens=short)
    label = f"{plan.labels[job.lane]}, warming up"
    return dataclasses.replace(order, label=label, config=config, baseline=False, warm_up=True)
