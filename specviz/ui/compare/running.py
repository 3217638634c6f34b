"""Starting, following and ending the comparisons of the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from specviz.comparison.plan import Plan
from specviz.errors import SpecvizError
from specviz.ui.compare.session import Course, CourseName, session_courses
from specviz.ui.session.keeper import the_keeper
from specviz.ui.session.worker import the_worker, this_tab
from specviz.ui.widgets.plain_text import as_text, show_error

_TICK = 0.25  # seconds


def show_buttons(name: CourseName, label: str, plan: Callable[[], Plan]) -> None:
    """Start and stop; and measure again, where there are results from before."""
    courses = session_courses()
    going, course = courses.going, courses.courses.get(name)
    with st.container(horizontal=True, vertical_alignment="center", key=f"compare_go_{name}"):
        begun = again = False
        if going == name and course is not None:
            st.button("Cancel", key=f"compare_cancel_{name}", on_click=course.stop)
        elif going is not None:
            st.caption("The other comparison is under way: one run at a time.")
        else:
            begun = st.button(label, type="primary", key=f"compare_start_{name}")
            st.caption(_words_of(plan), width="stretch")
        if course is not None and course.found and going is None:
            again = st.button(
                "Measure all of it again", key=f"compare_again_{name}", type="tertiary"
            )
    if begun or again:
        _start(name, plan, fresh=again)


def _words_of(plan: Callable[[], Plan]) -> str:
    """What a click would do; empty where the plan is refused."""
    try:
        wanted = plan()
    except SpecvizError:
        return ""
    count = len(wanted.lanes) * len(wanted.items) * wanted.repeats
    prompts = "" if len(wanted.items) == 1 else f"{len(wanted.items)} prompts × "
    repeats = f"{wanted.repeats} repeat{'' if wanted.repeats == 1 else 's'}"
    length = wanted.lanes[0].config.max_new_tokens
    pairs = as_text(" and ".join(dict.fromkeys(lane.spec.label for lane in wanted.lanes)))
    return (
        f"{count} runs of {length} tokens: {len(wanted.lanes)} lanes × {prompts}{repeats}, in "
        "turns, each with the target alone timed before and after it on the same words. "
        f"Loaded for it if need be: {pairs}."
    )


def _start(name: CourseName, plan: Callable[[], Plan], *, fresh: bool) -> None:
    """Begin a comparison; what cannot be compared is told where it was asked for."""
    try:
        wanted = plan()
    except SpecvizError as error:
        show_error(error)
        return
    course = Course(wanted, the_worker(), this_tab().series, the_keeper().library, fresh=fresh)
    session_courses().start(name, course)
    st.rerun()  # the controls rest meanwhile


def follow(name: CourseName, plan: Callable[[], Plan]) -> None:
    """Drive the comparison while this page is open, and say how it stands.

    ``plan`` is what the controls ask for now; results of another are said to be so.
    """
    course = session_courses().courses.get(name)
    if course is None:
        return
    if course.going:
        _show_progress(course, name)
    else:
        _show_end(course)
        _tell_stale(course, plan)
    if course.unkept is not None:
        st.warning(f"These runs are not kept in the library. {as_text(course.unkept)}")


def _show_progress(course: Course, name: CourseName) -> None:
    @st.fragment(run_every=_TICK)
    def progress() -> None:
        this_tab()
        course.advance()
        if not course.going:
            st.rerun()  # the ticks end, and the results are drawn
        done, planned = course.progress
        words = f"{done} of {planned} runs{_time_left(course)}. Now {as_text(course.doing())}."
        with st.container(key=f"compare_progress_{name}"):
            st.progress(done / planned, text=f":small[{words}]")
        st.caption(
            f"{_blocks(course)}{_found(course)}Finished runs are kept; it goes on while this page "
            "is open."
        )

    progress()


def _time_left(course: Course) -> str:
    left = course.seconds_left
    if left is None:
        return ""
    return f", about {left:.0f} s left" if left < 90 else f", about {left / 60:.0f} min left"


def _show_end(course: Course) -> None:
    done, planned = course.progress
    if course.error is not None:
        show_error(course.error)
    if 0 < done < planned:
        kept = ", which are kept. Start again to go on from there." if not course.unkept else "."
        st.info(f"Ended after {done} of {planned} runs{kept}")
    elif done < planned and course.error is None:
        st.info("Ended before the first run.")
    elif course.found or course.changed:
        st.caption(_found(course))


def _tell_stale(course: Course, plan: Callable[[], Plan]) -> None:
    try:
        same = replace(plan(), order=course.plan.order) == course.plan
    except SpecvizError:
        same = False
    if not same:
        st.caption("The settings have changed since: what follows is of those before.")


def _blocks(course: Course) -> str:
    if not course.blocks:
        return ""
    order = ", then ".join(as_text(each) for each in course.blocks)
    return f"The pairs do not fit into memory together, so they are taken in turn: {order}. "


def _found(course: Course) -> str:
    if course.changed:
        return (
            "The runs kept from before were made with other models, on another machine or with "
            "other versions: all lanes are measured anew. "
        )
    if not course.found:
        return ""
    return f"{course.found} runs were there from before and are not made again. "
