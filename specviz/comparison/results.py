"""Compare the runs of a plan, overall and by kind of prompt."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.comparison.lane_results import (
    LaneResult,
    LaneRun,
    TargetResult,
    lane_result,
    log_speeds,
    target_result,
)
from specviz.comparison.machines import (
    KindOfMachine,
    machines_of,
    several_at_once,
    shared_out,
)
from specviz.comparison.plan import Plan
from specviz.comparison.verdict import ComparisonVerdict, LaneRatios, verdict_of
from specviz.figures.paired import Ratio, ratio
from specviz.values import Value


class KindResult(Value):
    """Results of all lanes on the prompts of one kind, such as stories.

    ``kind`` is None for prompts without a kind. ``over_first`` has, for each lane, the ratio of its
    speed to the first lane's speed; for the first lane, the entry is None.
    """

    kind: str | None
    num_prompts: int  # with at least one run
    lanes: tuple[LaneResult, ...]
    over_first: tuple[Ratio | None, ...]


class Comparison(Value):
    """The result of a comparison.

    ``target`` has the results of the target alone. If the lanes have different targets, ``target``
    describes only the first lane's target; the rate of each lane's own target is in the result of
    the lane. ``kinds`` is empty if all prompts are of one kind.
    """

    plan: Plan
    lanes: tuple[LaneResult, ...]
    target: TargetResult | None
    verdict: ComparisonVerdict
    kinds: tuple[KindResult, ...]
    machines: tuple[KindOfMachine, ...] = ()
    shared_out: bool = False  # whether runs were distributed among several devices

    @property
    def count(self) -> int:
        return sum(lane.count for lane in self.lanes)

    @property
    def complete(self) -> bool:
        plan = self.plan
        return self.count == len(plan.lanes) * len(plan.items) * plan.repeats

    @property
    def ratios(self) -> LaneRatios:
        return self.verdict.ratios


def compare(plan: Plan, measured: Sequence[LaneRun]) -> Comparison:
    """Compare the finished runs of a plan; some runs of the plan may be missing.

    If a run of the plan was made several times, only the last time counts.
    """
    runs = _last_of_each_job(measured)
    by_lane = [[run for run in runs if run.job.lane == lane] for lane in range(len(plan.lanes))]
    results = tuple(
        lane_result(label, lane, own)
        for label, lane, own in zip(plan.labels, plan.lanes, by_lane, strict=True)
    )
    return Comparison(
        plan=plan,
        lanes=results,
        target=target_result([run for own in by_lane for run in own]),
        verdict=verdict_of(results, log_speeds(by_lane), untimed=several_at_once(runs)),
        kinds=_kinds(plan, by_lane),
        machines=machines_of(runs),
        shared_out=shared_out(runs),
    )


def _last_of_each_job(measured: Sequence[LaneRun]) -> list[LaneRun]:
    return list({run.job: run for run in measured}.values())


def _kinds(plan: Plan, by_lane: Sequence[Sequence[LaneRun]]) -> tuple[KindResult, ...]:
    if len(plan.kinds) < 2:
        return ()
    return tuple(_kind(plan, kind, by_lane) for kind in plan.kinds)


def _kind(plan: Plan, kind: str | None, by_lane: Sequence[Sequence[LaneRun]]) -> KindResult:
    of_kind = {item for item, each in enumerate(plan.items) if each.kind == kind}
    own = [[run for run in runs if run.job.item in of_kind] for runs in by_lane]
    lanes = zip(plan.labels, plan.lanes, own, strict=True)
    speeds = log_speeds(own)
    return KindResult(
        kind=kind,
        num_prompts=len({run.job.item for runs in own for run in runs}),
        lanes=tuple(lane_result(label, lane, runs) for label, lane, runs in lanes),
        over_first=(None, *(ratio(each, speeds[0]) for each in speeds[1:])),
    )
