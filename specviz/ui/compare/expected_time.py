"""Estimate from earlier runs how long a comparison will take."""

from __future__ import annotations

from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.plan import Lane, Plan
from specviz.errors import SpecvizError
from specviz.measure.slice_timing import compared_seconds
from specviz.record.numbers import time_text
from specviz.record.pairs import DEFAULT_PAIR
from specviz.store import Query
from specviz.ui.session.background_jobs import visible_jobs
from specviz.ui.session.run_saving import the_library


def expected_time(plan: Plan) -> str:
    """Return a sentence on the expected time of a plan; empty if earlier runs give no estimate."""
    count = len(plan.lanes) * len(plan.items) * plan.repeats
    if (each := _like_before(plan)) is not None:
        return f"Expected time: about {time_text(count * each)}. "
    lanes = [_at_most(lane) for lane in plan.lanes]
    known = [seconds for seconds in lanes if seconds is not None]
    if len(known) < len(lanes):
        return ""
    return f"Expected time: at most about {time_text(count * sum(known) / len(known))}. "


def _like_before(plan: Plan) -> float | None:
    """Return the seconds per run in the newest comparison with the plan's pairs and text length.

    The result is None if there is no such comparison, or if its time is not known.
    """
    for job in reversed(visible_jobs()):
        if isinstance(job, ComparisonJob) and _alike(job.plan) == _alike(plan):
            return job.seconds_each
    return None


def _alike(plan: Plan) -> tuple[object, ...]:
    return {lane.spec for lane in plan.lanes}, plan.lanes[0].config.max_new_tokens


def _at_most(lane: Lane) -> float | None:
    """Return an upper estimate of the seconds that a run of the lane takes.

    The estimate is the time for decoding plus the time limit for comparing the speeds with and
    without speculation. The decoding time is computed from the speed of the pair's newest kept run.
    That run may have simulated another size, but decoding is the smaller part of the estimate.

    The result is None if no such run is found.
    """
    name = lane.spec.label if lane.spec.target else lane.spec.name or DEFAULT_PAIR
    try:
        rows = the_library().find(Query(pairs=(name,), engines=(None,), limit=1))
    except SpecvizError:
        return None
    rate = rows[0].summary.tokens_per_second if rows else None
    return lane.config.max_new_tokens / rate + compared_seconds() if rate else None
