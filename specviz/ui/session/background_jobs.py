"""Work that the server does for all tabs: comparisons, and runs that test a claim.

It goes on when a page is left or its tab is closed, and any tab may stop it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from specviz.comparison import unfinished_plans
from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.kept_runs import Reuse
from specviz.comparison.plan import Plan
from specviz.measure.background_job import Job
from specviz.ui.session.cluster_jobs import ClusterComparison
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.session.run_saving import the_library
from specviz.ui.session.worker import calibrating_worker, the_worker
from specviz.ui.widgets.plain_text import as_text
from specviz.worker.parent.client import Run, Worker
from specviz.worker.parent.work_queue import JobQueue
from specviz.worker.parent.worker_maker import WorkerMaker

CLAIMS = "claims"
# By their pages; all other works are comparisons.
_WORKS_OF = {
    CLAIMS: (CLAIMS,),
    "lossless": ("audit",),
    "servers": ("servers", "servers-draft"),
    "tune": ("tune", "tune-cells", "tune-race"),
}
WORK_LINK = "work"  # in the link to a work's page: its id
_TICK = 1.0  # seconds


@st.cache_resource(show_spinner=False, on_release=lambda queue: queue.close())
def the_job_queue() -> JobQueue:
    """One for the server. A comparison that the server's end breaks off can be resumed."""
    return JobQueue(on_over=_forget_if_over)


def run_maker(on_submit: Callable[[Run], object] | None = None) -> WorkerMaker:
    """Makes the runs of one work, under a session that belongs to no tab."""
    return WorkerMaker(the_worker(), "work", on_submit)


def start_comparison(
    name: str, plan: Plan, *, fresh: bool, on_cluster: bool = False
) -> ComparisonJob:
    reuse: Reuse = "none" if fresh else "any"
    if on_cluster:
        work = ClusterComparison(plan, the_library(), name=name, reuse=reuse)
    else:
        work = ComparisonJob(plan, run_maker(), the_library(), name=name, reuse=reuse)
    unfinished_plans.remember(name, plan)
    the_job_queue().start(work)
    return work


def stop(work: Job) -> None:
    work.stop()
    _forget_if_over(work)


def _forget_if_over(work: Job) -> None:
    """A comparison that ends because the server ends is not over: it stays remembered."""
    finished = work.state in {"done", "failed"} or work.was_stopped
    if isinstance(work, ComparisonJob) and finished:
        unfinished_plans.forget(work.plan)


def show_job_line() -> None:
    """While there is work, a line at the head of every page: how far it is, a link, and Stop."""
    queue = the_job_queue()

    def look() -> _Going:
        return _Going(works=queue.going, calibrating=calibrating_worker())

    redraw_while_busy(look(), look, _Going.__bool__, _show_going, seconds=_TICK)


@dataclass(frozen=True, slots=True)
class _Going:
    works: tuple[Job, ...]
    calibrating: Worker | None

    def __bool__(self) -> bool:
        return bool(self.works or self.calibrating)


def _show_going(going: _Going) -> None:
    if going.works:
        _show_jobs(going.works)
    elif going.calibrating:
        _show_calibration(going.calibrating)


def _show_calibration(worker: Worker) -> None:
    with _line():
        st.caption("Measuring the step costs again", width="content")
        st.page_link("pages/watch.py", label="Show", width="content")
        st.button("Stop", key="calibration_stop", type="tertiary", on_click=worker.end_calibration)


def _line() -> DeltaGenerator:
    return st.container(horizontal=True, vertical_alignment="center", key="work_line")


def _show_jobs(going: tuple[Job, ...]) -> None:
    work, waiting = going[0], len(going) - 1
    done, planned = work.progress
    more = f" · {waiting} more in line" if waiting else ""
    with _line():
        st.caption(f"Working: {done} of {planned} · {as_text(work.label)}{more}", width="content")
        page = next((page for page, names in _WORKS_OF.items() if work.name in names), "compare")
        query = None if page in (CLAIMS, "servers") else {WORK_LINK: work.id}
        st.page_link(f"pages/{page}.py", label="Show", query_params=query, width="content")
        st.button("Stop", key="work_stop", type="tertiary", on_click=stop, args=(work,))
