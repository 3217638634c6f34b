"""The runs of a plan, made one after the other and never at once, and handed on as they end.

Each is a measured run: the target alone stands round it in blocks A B B A. Before a lane's
first run a short one on the same prompt is made and thrown away. A run is kept before it is
reported, so what was reported is never lost, and what is done already is not made again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from specviz.comparison import Measured
from specviz.comparison.plan import Job, Plan, order_that_fits
from specviz.measure import measured_run as measured
from specviz.measure.loaded_pairs import RunMemory
from specviz.record.pairs import PairCheck, PairSpec, Tell
from specviz.record.trace import RunConfig, Trace

if TYPE_CHECKING:
    from specviz.engine import Pair

WARM_UP_TOKENS = 24


def fitting(plan: Plan, checks: Mapping[PairSpec, PairCheck]) -> Plan:
    """The plan in blocks, pair by pair, if its pairs do not fit into memory together."""
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
    open_pair: Callable[[PairSpec], Pair],
    keep: Callable[[Measured], object],
    done: Collection[tuple[int, int, int]] = (),
    begin: Callable[[Job], object] = lambda _job: None,
    tell: Tell | None = None,
) -> Iterator[Measured]:
    """Every job but those ``done``, in the plan's order; ``begin`` is told of each.

    ``tell`` hears of step costs while they are measured.

    ``open_pair`` keeps pairs that are loaded, where they fit.
    """
    warm: set[int] = set()
    for job in plan.jobs():
        if job.key in done:
            continue
        begin(job)
        pair = open_pair(plan.lanes[job.lane].spec)
        if job.lane not in warm:
            _warm_up(plan, job, pair, tell)
            warm.add(job.lane)
        made = _measure(plan, job, pair)
        keep(made)
        yield made


def _warm_up(plan: Plan, job: Job, pair: Pair, tell: Tell | None) -> None:
    """Step costs that are not kept are measured here, before the lane's first run."""
    config = job.config(plan)
    short = min(config.max_new_tokens, WARM_UP_TOKENS)
    briefly = dataclasses.replace(config, max_new_tokens=short)
    _run(plan, job, pair, briefly, baseline=False, tell=tell)


def _measure(plan: Plan, job: Job, pair: Pair) -> Measured:
    config = job.config(plan)
    memory = RunMemory(pair, config)
    trace = _run(plan, job, pair, config, baseline=plan.baseline)
    return Measured(job=job, trace=trace, memory_bytes=memory.measured())


def _run(
    plan: Plan,
    job: Job,
    pair: Pair,
    config: RunConfig,
    *,
    baseline: bool,
    tell: Tell | None = None,
) -> Trace:
    item = plan.items[job.item]
    run = measured.measured_run(
        pair, item.prompt, config, baseline=baseline, kind=item.kind, tell=tell
    )
    for _ in run:
        pass
    return run.trace()
