"""Background jobs of the server: comparisons, tunings, audits, trainings, runs that test a claim.

A job continues when the user leaves the page or closes the tab. Only owners start jobs; any tab of
an owner sees them and may stop them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from specviz.access.roles import Action
from specviz.comparison import unfinished_plans
from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.kept_runs import Reuse
from specviz.comparison.plan import Plan
from specviz.errors import SpecvizError
from specviz.measure.background_job import Job
from specviz.ui.session.cluster_jobs import ClusterComparison
from specviz.ui.session.library_quota import keep_quota
from specviz.ui.session.page_library import current_key, sees_others
from specviz.ui.session.person import may, require
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.session.run_saving import the_library
from specviz.ui.session.worker import calibrating_worker, the_worker
from specviz.ui.widgets.plain_text import as_text
from specviz.worker.parent.client import Run, Worker
from specviz.worker.parent.job_queue import JobQueue
from specviz.worker.parent.worker_maker import WorkerMaker

CLAIMS = "claims"
# Names of jobs by page; all other jobs are comparisons.
_JOBS_OF = {
    CLAIMS: (CLAIMS,),
    "bias": ("quality",),
    "lossless": ("audit", "doctor"),
    "servers": ("servers", "servers-draft", "load"),
    "train": ("training", "train-compare"),
    "tune": ("tune", "tune-cells", "tune-race"),
}
# Query parameters that open a job's part of its page, for jobs that the link does not name.
_PARTS = {"load": {"servers_tab": "Under load"}}
JOB_LINK = "work"  # query parameter of a job's page: the job's id
_SHOWN = "jobs shown"  # session state: ids of jobs, by name
_TICK = 1.0  # seconds
Kind = TypeVar("Kind", bound=Job)


class PageJobQueue(JobQueue):
    """A job queue that refuses a job if the current person may not start jobs."""

    def start(self, job: Job) -> None:
        """Start a job; raise AccessError if the current person may not start jobs."""
        require(Action.MEASURE)
        super().start(job)


@st.cache_resource(show_spinner=False, on_release=lambda queue: queue.close())
def the_job_queue() -> JobQueue:
    """Return the server's job queue."""
    return PageJobQueue(on_over=_on_over)


def _on_over(job: Job) -> None:
    _forget_if_over(job)
    with suppress(SpecvizError):  # the page Runs shows the error
        keep_quota(the_library())


def run_maker(on_submit: Callable[[Run], object] | None = None) -> WorkerMaker:
    """Return a ``WorkerMaker``, which makes the runs of one job. These runs belong to no tab.

    Args:
        on_submit: Called with each run that is submitted.
    """
    return WorkerMaker(the_worker(), "work", on_submit, current_key())


def start_comparison(
    name: str, plan: Plan, *, fresh: bool, on_cluster: bool = False
) -> ComparisonJob:
    require(Action.MEASURE)
    reuse: Reuse = "none" if fresh else "any"
    if on_cluster:
        job = ClusterComparison(plan, the_library(), name=name, reuse=reuse)
    else:
        job = ComparisonJob(plan, run_maker(), the_library(), name=name, reuse=reuse)
    unfinished_plans.remember(name, plan)
    the_job_queue().start(job)
    return job


def stop(job: Job) -> None:
    """Stop a job; raise AccessError if the current person may not stop the work of others."""
    require(Action.MANAGE)
    job.stop()
    _forget_if_over(job)


def _forget_if_over(job: Job) -> None:
    """Delete the plan of a comparison that has ended. The plan was stored to resume the comparison.

    If a server shutdown interrupted the comparison, the plan is kept.
    """
    finished = job.state in {"done", "failed"} or job.was_stopped
    if isinstance(job, ComparisonJob) and finished:
        unfinished_plans.forget(job.plan)


def visible_jobs() -> tuple[Job, ...]:
    """Return all jobs of the server, oldest first; none if the current person may not see them."""
    return the_job_queue().jobs if sees_others() else ()


def jobs_going() -> tuple[Job, ...]:
    """Return the jobs that run or wait; none if the current person may not see them."""
    return the_job_queue().going if sees_others() else ()


def linked_job() -> Job | None:
    """Return the job that the link names, and remove it from the link."""
    wanted = st.query_params.pop(JOB_LINK, None)
    return the_job_queue().find(wanted) if sees_others() else None


def put_shown(job: Job) -> None:
    """Make this tab show the job."""
    st.session_state.setdefault(_SHOWN, {})[job.name] = job.id


def shown_job(name: str, kind: type[Kind]) -> Kind | None:
    """Return the job with this name that the tab shows, else the newest such job on the server."""
    if not sees_others():
        return None
    queue = the_job_queue()
    found = queue.find(st.session_state.get(_SHOWN, {}).get(name)) or queue.newest(name)
    return found if isinstance(found, kind) else None


def show_job_line() -> None:
    """Draw a line at the top of every page while a job runs: progress, a link, and Stop."""

    def look() -> _BackgroundWork:
        return _BackgroundWork(jobs=jobs_going(), calibrating=calibrating_worker())

    redraw_while_busy(look(), look, _BackgroundWork.__bool__, _show_background, seconds=_TICK)


@dataclass(frozen=True, slots=True)
class _BackgroundWork:
    jobs: tuple[Job, ...]
    calibrating: Worker | None

    def __bool__(self) -> bool:
        return bool(self.jobs or self.calibrating)


def _show_background(background: _BackgroundWork) -> None:
    if background.jobs:
        _show_jobs(background.jobs)
    elif background.calibrating:
        _show_calibration(background.calibrating)


def _show_calibration(worker: Worker) -> None:
    with _line():
        st.caption("Measuring the step costs again", width="content")
        st.page_link("pages/watch.py", label="Show", width="content")
        if may(Action.MANAGE):
            st.button(
                "Stop", key="calibration_stop", type="tertiary", on_click=worker.end_calibration
            )


def _line() -> DeltaGenerator:
    return st.container(horizontal=True, vertical_alignment="center", key="work_line")


def _show_jobs(jobs: tuple[Job, ...]) -> None:
    job, waiting = jobs[0], len(jobs) - 1
    done, planned = job.progress
    more = f" · {waiting} more queued" if waiting else ""
    if not may(Action.MEASURE):  # the label may name a model or a text of the owner
        st.caption(f"An owner's measurement is in progress: {done} of {planned}{more}")
        return
    with _line():
        st.caption(f"Working: {done} of {planned} · {as_text(job.label)}{more}", width="content")
        page = next((page for page, names in _JOBS_OF.items() if job.name in names), "compare")
        named = page not in (CLAIMS, "servers")
        query = {JOB_LINK: job.id} if named else _PARTS.get(job.name)
        st.page_link(f"pages/{page}.py", label="Show", query_params=query, width="content")
        st.button("Stop", key="work_stop", type="tertiary", on_click=stop, args=(job,))
