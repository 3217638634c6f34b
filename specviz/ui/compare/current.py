"""The comparison that a tab shows: which one it is, and how it is started, followed and stopped.

It is the one that the tab started or was led to by a link, else the newest of the server.
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
from specviz.errors import SpecvizError
from specviz.figures.body_words import spec_words
from specviz.ui.compare.settings import on_cluster
from specviz.ui.session.background_jobs import (
    WORK_LINK,
    start_comparison,
    stop,
    the_job_queue,
)
from specviz.ui.session.presses import press_button, take_press
from specviz.ui.session.worker import this_tab
from specviz.ui.widgets.plain_text import as_text, show_error

JobName = Literal["prompt", "suite"]
NAMES: tuple[JobName, ...] = ("prompt", "suite")
_SHOWN = "comparisons shown"  # the ids of works, by name
_OWN = "comparisons started"  # the ids of works that this tab started
_TICK = 0.25  # seconds


def take_linked() -> JobName | None:
    """Show the comparison that the link names; returns which tab of the page it belongs to."""
    work = the_job_queue().find(st.query_params.pop(WORK_LINK, None))
    if not isinstance(work, ComparisonJob):
        return None
    st.session_state.setdefault(_SHOWN, {})[work.name] = work.id
    return next((name for name in NAMES if name == work.name), None)


def shown_job(name: JobName) -> ComparisonJob | None:
    queue = the_job_queue()
    found = queue.find(st.session_state.get(_SHOWN, {}).get(name)) or queue.newest(name)
    return found if isinstance(found, ComparisonJob) else None


def own_job_going() -> ComparisonJob | None:
    """A comparison that this tab started, until it is over."""
    own: set[str] = st.session_state.get(_OWN, set())
    for work in the_job_queue().going:
        if work.id in own and isinstance(work, ComparisonJob):
            return work
    return None


def start(name: JobName, plan: Plan, *, fresh: bool) -> None:
    work = start_comparison(name, plan, fresh=fresh, on_cluster=on_cluster())
    st.session_state.setdefault(_SHOWN, {})[name] = work.id
    st.session_state.setdefault(_OWN, set()).add(work.id)


def show_buttons(name: JobName, label: str, plan: Callable[[], Plan]) -> None:
    """Buttons to start, to cancel, and to measure again what was found from before."""
    own, work = own_job_going(), shown_job(name)
    begin, again = f"compare_start_{name}", f"compare_again_{name}"
    with st.container(horizontal=True, vertical_alignment="center", key=f"compare_go_{name}"):
        if own is not None and own.name == name:
            st.button("Stop", key=f"compare_cancel_{name}", on_click=stop, args=(own,))
        elif own is not None:
            st.caption("The other comparison is still under way. Only one runs at a time.")
        else:
            press_button(label, key=begin, type="primary")
            st.caption(_in_line() + _words_of(plan), width="stretch")
        if work is not None and work.found and not work.going and own is None:
            press_button("Measure all of it again", key=again, type="tertiary")
    begun, afresh = take_press(begin), take_press(again)
    if begun or afresh:
        _start(name, plan, fresh=afresh)


def _in_line() -> str:
    return (
        "Other runs are under way; this one would wait for its turn. "
        if the_job_queue().going
        else ""
    )


def _words_of(plan: Callable[[], Plan]) -> str:
    """What a click would do; empty where the plan cannot be compared."""
    try:
        wanted = plan()
    except SpecvizError:
        return ""
    count = len(wanted.lanes) * len(wanted.items) * wanted.repeats
    prompts = "" if len(wanted.items) == 1 else f"{len(wanted.items)} prompts × "
    repeats = f"{wanted.repeats} repeat{'' if wanted.repeats == 1 else 's'}"
    length = wanted.lanes[0].config.max_new_tokens
    pairs = as_text(" and ".join(dict.fromkeys(spec_words(lane.spec) for lane in wanted.lanes)))
    return (
        f"{count} runs of {length} tokens: {len(wanted.lanes)} lanes × {prompts}{repeats}. Lanes "
        "take turns, and the target alone is timed on the same words before and after each run. "
        f"Loaded first if needed: {pairs}."
    )


def _start(name: JobName, plan: Callable[[], Plan], *, fresh: bool) -> None:
    """Begin a comparison; where it cannot begin, an error is shown here."""
    try:
        start(name, plan(), fresh=fresh)
    except SpecvizError as error:
        show_error(error)
        return
    st.rerun()  # the controls are disabled meanwhile


def offer_unfinished() -> None:
    """Comparisons that were under way when the server ended, to be resumed or dismissed."""
    going = {work.plan.key for work in the_job_queue().going if isinstance(work, ComparisonJob)}
    for entry in remembered():
        plan = entry.plan
        name: JobName = "suite" if entry.name == "suite" else "prompt"
        if plan.key in going:
            continue
        with st.container(
            horizontal=True, vertical_alignment="center", border=True, key=f"unfinished_{plan.key}"
        ):
            st.markdown(
                f"“{as_text(' against '.join(plan.labels))}” was under way when the dashboard "
                "ended. Its finished runs are kept.",
                width="stretch",
            )
            st.button(
                "Go on", key=f"go_on_{plan.key}", on_click=partial(start, name, plan, fresh=False)
            )
            st.button(
                "Dismiss", key=f"let_go_{plan.key}", type="tertiary", on_click=forget, args=(plan,)
            )


def follow(name: JobName, plan: Callable[[], Plan]) -> None:
    """Show how far the comparison is, or how it ended.

    ``plan`` is what the controls ask for now: results of another plan are marked as such.
    """
    work = shown_job(name)
    if work is None:
        return
    if work.going:
        _show_progress(work, name)
    else:
        _show_end(work)
        _tell_stale(work, plan)
    if work.unkept is not None:
        st.warning(f"These runs are not kept in the library. {as_text(work.unkept)}")


def _show_progress(work: ComparisonJob, name: JobName) -> None:
    @st.fragment(run_every=_TICK)
    def progress() -> None:
        this_tab()
        if not work.going:
            st.rerun()  # drawing again stops, and the results are shown
        done, planned = work.progress
        words = f"{done} of {planned} runs{_time_left(work)}. Now {as_text(work.doing)}."
        with st.container(key=f"compare_progress_{name}"):
            st.progress(done / planned, text=f":small[{words}]")
        st.caption(
            f"{_blocks(work)}{_found(work)}Finished runs are kept. The comparison goes on when "
            "this page is left or closed."
        )

    progress()


def _time_left(work: ComparisonJob) -> str:
    left = work.seconds_left
    if left is None:
        return ""
    return f", about {left:.0f} s left" if left < 90 else f", about {left / 60:.0f} min left"


def _show_end(work: ComparisonJob) -> None:
    done, planned = work.progress
    if work.error is not None:
        show_error(work.error)
    if 0 < done < planned:
        kept = ", which are kept. Start again to make only the others." if not work.unkept else "."
        st.info(f"Ended after {done} of {planned} runs{kept}")
    elif done < planned and work.error is None:
        st.info("Ended before the first run.")
    elif work.found or work.changed:
        st.caption(_found(work))


def _tell_stale(work: ComparisonJob, plan: Callable[[], Plan]) -> None:
    try:
        same = replace(plan(), order=work.plan.order) == work.plan
    except SpecvizError:
        same = False
    if not same:
        st.caption("The settings have changed since. These results are of the settings before.")


def _blocks(work: ComparisonJob) -> str:
    if not work.blocks:
        return ""
    order = ", then ".join(as_text(each) for each in work.blocks)
    return (
        f"The pairs do not fit into memory together, so they are run one after the other: {order}. "
    )


def _found(work: ComparisonJob) -> str:
    if work.changed:
        return (
            "Kept runs of these settings were made with other models or versions, or on another "
            "machine, so all lanes are measured anew. "
        )
    if not work.found:
        return ""
    return f"{work.found} of the runs were kept from before and are not made again. "
