"""A comparison out of the library as it was made, whatever models and machine are here now."""

from __future__ import annotations

from specviz.comparison import LaneRun, is_whole
from specviz.comparison.plan import Job, Plan, plan_from_json
from specviz.errors import SpecvizError, StoreError
from specviz.store import Library


def kept_comparison(library: Library, key: str) -> tuple[Plan, tuple[LaneRun, ...]]:
    """Its plan, and its whole runs in the plan's order.

    A run that cannot be opened any more is left out. Runs of a lane that were made with unlike
    models are refused: no figure may mix them.
    """
    plan = plan_from_json(library.comparison(key).plan_json)
    kept = library.comparison_jobs(key)
    opened = [_opened(library, job, kept[job.key]) for job in plan.jobs() if job.key in kept]
    runs = tuple(run for run in opened if run is not None and is_whole(plan, run.trace))
    pairs = {(run.job.lane, run.trace.pair) for run in runs}
    if len(pairs) > len({lane for lane, _ in pairs}):
        raise StoreError(
            "A lane's models changed between the runs that are kept of it.",
            remedy="Make this comparison again.",
        )
    return plan, runs


def _opened(library: Library, job: Job, run_id: str) -> LaneRun | None:
    try:
        trace, row = library.open(run_id), library.row(run_id)
    except SpecvizError:
        return None
    return LaneRun(job=job, trace=trace, memory_bytes=row.memory_bytes)
