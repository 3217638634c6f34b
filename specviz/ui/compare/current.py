"""The comparison that a browser tab shows, and how it is started, followed and stopped.

A browser tab shows the comparison that it started or opened by a link. Without such a comparison,
it shows the newest on the server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

import streamlit as st

from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.plan import Plan
from specviz.comparison.unfinished_plans import forget, remembered
from specviz.comparison.words import length_text
from specviz.errors import SpecvizError
from specviz.figures.body_words import spec_words
from specviz.record.numbers import time_text
from specviz.ui.compare.expected_time import expected_time
from specviz.ui.compare.settings import on_cluster
from specviz.ui.session.background_jobs import (
    linked_job,
    put_shown,
    shown_job,
    start_comparison,
    stop,
    the_job_queue,
)
from specviz.ui.session.page_library import sees_others
from specviz.ui.session.presses import press_button, take_press
from specviz.ui.session.worker import this_tab
from specviz.ui.widgets.plain_text import as_text, show_error

JobName = Literal["prompt", "suite"]
NAMES: tuple[JobName, ...] = ("prompt", "suite")
_OWN = "comparisons started"  # session state: ids of jobs that this tab started
_TICK = 0.25  # seconds


def take_linked() -> JobName | None:
    """Show the comparison that the link names, and return the tab on which it appears.

    The result is None if the link names no comparison, or if no tab of this page shows it.
    """
    job = linked_job()
    if not isinstance(job, ComparisonJob):
        return None
    put_shown(job)
    return next((name for name in NAMES if name == job.name), None)


def shown_comparison(name: JobName) -> ComparisonJob | None:
    return shown_job(name, ComparisonJob)


def own_job_going() -> ComparisonJob | None:
    """Return an unfinished comparison that this browser tab started, or None."""
    own: set[str] = st.session_state.get(_OWN, set())
    for job in the_job_queue().going:
        if job.id in own and isinstance(job, ComparisonJob):
            return job
    return None


def start(name: JobName, plan: Plan, *, fresh: bool) -> None:
    job = start_comparison(name, plan, fresh=fresh, on_cluster=on_cluster())
    put_shown(job)
    st.session_state.setdefault(_OWN, set()).add(job.id)


def show_buttons(name: JobName, label: str, plan: Callable[[], Plan]) -> None:
    """Draw a button that starts a comparison, or a button that stops the comparison in progress.

    After a comparison that reused kept runs, also draw a button that measures all runs again.
    """
    own, job = own_job_going(), shown_comparison(name)
    begin, again = f"compare_start_{name}", f"compare_again_{name}"
    with st.container(horizontal=True, vertical_alignment="center", key=f"compare_go_{name}"):
        if own is not None and own.name == name:
            st.button("Stop", key=f"compare_cancel_{name}", on_click=stop, args=(own,))
        elif own is not None:
            st.caption("Your other comparison is still running. You can run one at a time.")
        else:
            press_button(label, key=begin, type="primary")
            st.caption(_queue_note() + _plan_text(plan), width="stretch")
        if job is not None and job.found and not job.going and own is None:
            press_button("Measure everything again", key=again, type="tertiary")
    pressed, pressed_again = take_press(begin), take_press(again)
    if pressed or pressed_again:
        _start(name, plan, fresh=pressed_again)


def _queue_note() -> str:
    return (
        "Other runs are in progress, so this comparison would start after them. "
        if the_job_queue().going
        else ""
    )


def _plan_text(make_plan: Callable[[], Plan]) -> str:
    """Describe what a click on the button runs; return "" if the lanes cannot be compared."""
    try:
        plan = make_plan()
    except SpecvizError:
        return ""
    count = len(plan.lanes) * len(plan.items) * plan.repeats
    prompts = "" if len(plan.items) == 1 else f"{len(plan.items)} prompts × "
    repeats = f"{plan.repeats} repeat{'' if plan.repeats == 1 else 's'}"
    pairs = as_text(" and ".join(dict.fromkeys(spec_words(lane.spec) for lane in plan.lanes)))
    return (
        f"{count} runs of {length_text(plan)}: {len(plan.lanes)} lanes × {prompts}{repeats}. Lanes "
        "take turns, and the target alone is timed on the same tokens before and after each run. "
        f"{expected_time(plan)}These pairs are loaded first if necessary: {pairs}."
    )


def _start(name: JobName, plan: Callable[[], Plan], *, fresh: bool) -> None:
    """Start a comparison, or show why it cannot start."""
    try:
        start(name, plan(), fresh=fresh)
    except SpecvizError as error:
        show_error(error)
        return
    st.rerun()  # draws the controls disabled


def offer_unfinished() -> None:
    """Offer to resume or dismiss comparisons that were running when the server ended."""
    if not sees_others():
        return
    going = {job.plan.key for job in the_job_queue().going if isinstance(job, ComparisonJob)}
    for entry in remembered():
        plan = entry.plan
        name: JobName = "suite" if entry.name == "suite" else "prompt"
        if plan.key in going:
            continue
        with st.container(
            horizontal=True, vertical_alignment="center", border=True, key=f"unfinished_{plan.key}"
        ):
            st.markdown(
                f"“{as_text(' against '.join(plan.labels))}” was running when the dashboard "
                "ended. Its finished runs are kept.",
                width="stretch",
            )
            st.button(
                "Resume", key=f"go_on_{plan.key}", on_click=partial(start, name, plan, fresh=False)
            )
            st.button(
                "Dismiss", key=f"let_go_{plan.key}", type="tertiary", on_click=forget, args=(plan,)
            )


def follow(name: JobName, plan: Callable[[], Plan]) -> None:
    """Show the progress of the comparison, or how it ended.

    ``plan`` returns the plan of the current controls. If the results are for another plan, a note
    says so.
    """
    job = shown_comparison(name)
    if job is None:
        return
    if job.going:
        _show_progress(job, name)
    else:
        _show_end(job)
        _show_stale_note(job, plan)
    if job.unkept is not None:
        st.warning(f"These runs are not kept in the library. {as_text(job.unkept)}")


def _show_progress(job: ComparisonJob, name: JobName) -> None:
    @st.fragment(run_every=_TICK)
    def progress() -> None:
        this_tab()
        if not job.going:
            st.rerun()  # ends the fragment's updates and shows the results
        done, planned = job.progress
        text = f"{done} of {planned} runs{_time_left(job)}. Now {as_text(job.doing)}."
        with st.container(key=f"compare_progress_{name}"):
            st.progress(done / planned, text=f":small[{text}]")
        st.caption(
            f"{_blocks(job)}{_reused(job)}Finished runs are kept. The comparison continues when "
            "you leave or close this page."
        )

    progress()


def _time_left(job: ComparisonJob) -> str:
    left = job.seconds_left
    if left is None:
        return ""
    return f", about {time_text(left)} left"


def _show_end(job: ComparisonJob) -> None:
    done, planned = job.progress
    if job.error is not None:
        show_error(job.error)
    if 0 < done < planned:
        kept = (
            " Finished runs are kept. To make the missing runs, start the comparison again."
            if not job.unkept
            else ""
        )
        st.info(f"The comparison ended after {done} of {planned} runs.{kept}")
    elif done < planned and job.error is None:
        st.info("The comparison ended before its first run.")
    elif job.found or job.changed:
        st.caption(_reused(job))


def _show_stale_note(job: ComparisonJob, plan: Callable[[], Plan]) -> None:
    try:
        same = replace(plan(), order=job.plan.order) == job.plan
    except SpecvizError:
        same = False
    if not same:
        st.caption("The settings have changed. These results are for the previous settings.")


def _blocks(job: ComparisonJob) -> str:
    if not job.blocks:
        return ""
    order = ", then ".join(as_text(each) for each in job.blocks)
    return (
        "The pairs do not fit into memory together, so the runs are made pair by pair, in this "
        f"order: {order}. "
    )


def _reused(job: ComparisonJob) -> str:
    if job.changed:
        return (
            "The kept runs with these settings are from another machine, other models or other "
            "software versions. So all lanes are measured again. "
        )
    if not job.found:
        return ""
    return f"{job.found} of the runs were already in the library and are reused. "
