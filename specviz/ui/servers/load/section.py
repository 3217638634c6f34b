"""The tab "Under load": measure a serving engine with many requests in flight."""

from __future__ import annotations

import gzip
from functools import partial

import streamlit as st

from specviz import ASSETS
from specviz.access.roles import Action
from specviz.load.foreign import ForeignLoad
from specviz.load.load_job import LOAD_JOB, LoadJob
from specviz.load.order import LoadOrder
from specviz.load.stored import sweep_from_json
from specviz.record.load_run import LoadSweep
from specviz.ui.docs.chapters import chapter_link
from specviz.ui.servers.controls import Choices
from specviz.ui.servers.load.controls import LoadChoices, choose_load, show_plan
from specviz.ui.servers.load.results import show_foreign, show_results
from specviz.ui.servers.load.stored import (
    SHOWN,
    as_compared,
    choose_file,
    choose_stored,
    shown_sweep,
)
from specviz.ui.servers.load.wall import show_wall
from specviz.ui.session.background_jobs import put_shown, shown_job, the_job_queue
from specviz.ui.session.presses import press_button, take_press
from specviz.ui.tune.current import follow
from specviz.ui.widgets.plain_text import show_error
from specviz.ui.widgets.recorded_example import show_example_caption

RECORDED = ASSETS / "recorded_load.json.gz"
_START = "load_start"
_TICK = 1.0  # seconds
_LEAD = (
    "Many users send prompts at the same time, to the target alone (A) and with speculation (B), "
    "in the order A B B A. The sweep finds the load at which speculation stops being faster."
)
_ABOUT = "A serving engine with the embedded pair, at several numbers of users."


def show_load(choices: Choices) -> None:
    st.caption(f"{_LEAD} {chapter_link('load')}")
    going = _is_going()
    # With another key, Streamlit draws a new box, which is folded while a sweep runs.
    with st.expander("Settings", key=f"load_settings_{going}", expanded=not going):
        chosen = choose_load(choices)
    if take_press(_START) and chosen.order is not None and not going:
        _start(chosen.order)
        st.rerun()
    if not going:
        _offer_start(chosen)
    job = shown_job(LOAD_JOB, LoadJob)
    if job is not None:
        follow(job, partial(_show_wall, job), seconds=_TICK, part=partial(_part, job))
    _show_sweeps(job.sweep if job is not None else None)


def _is_going() -> bool:
    job = shown_job(LOAD_JOB, LoadJob)
    return job is not None and job.going


def _offer_start(chosen: LoadChoices) -> None:
    if chosen.error is not None:
        show_error(chosen.error)
    elif chosen.order is not None:
        show_plan(chosen.order)
    else:
        st.caption("Give the address of a serving engine in the sidebar.")
    press_button("Measure under load", key=_START, type="primary", disabled=chosen.order is None)


def _start(order: LoadOrder) -> None:
    job = LoadJob(order)
    the_job_queue().start(job)
    put_shown(job)
    st.session_state.pop(SHOWN, None)


def _part(job: LoadJob) -> str:
    return str(len(job.sweep.blocks))


def _show_wall(job: LoadJob) -> None:
    if job.going:
        show_wall(job, job.now)


def _show_sweeps(own: LoadSweep | None) -> None:
    """Show a sweep and, if chosen, a second sweep or another tool's results for comparison."""
    opened, beside = choose_stored(own)
    file = choose_file()
    foreign = file if isinstance(file, ForeignLoad) else None
    if isinstance(file, LoadSweep):
        uploaded = shown_sweep(file)
        if opened is None and (own is None or not own.blocks):
            opened = uploaded
        elif beside is None:
            beside = as_compared(uploaded)
    if opened is not None:
        show_results(opened, key="opened", beside=beside, foreign=foreign)
    elif own is not None:
        if own.blocks:
            show_results(
                shown_sweep(own), key="measured", beside=beside, foreign=foreign,
                files=not _is_going(),
            )  # fmt: skip
    elif foreign is not None:
        show_foreign(foreign)
    else:
        _show_example()


def show_recorded_load() -> None:
    """Draw the tab with the recorded sweep, for people who may not send requests."""
    st.caption(f"{_LEAD} {chapter_link('load')}")
    _show_example()


def _show_example() -> None:
    if RECORDED.is_file():
        show_example_caption("Measure under load", _ABOUT, Action.ASK_SERVER)
        show_results(shown_sweep(_recorded()), key="recorded")


@st.cache_resource(show_spinner=False)
def _recorded() -> LoadSweep:
    return sweep_from_json(gzip.decompress(RECORDED.read_bytes()).decode(), RECORDED.name)
