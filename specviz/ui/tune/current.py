"""The question that a tab shows: how it is started, followed and stopped.

It is the one that the tab asked, else the newest of the server; measurements of its cells are
works of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import streamlit as st

from specviz.errors import SpecvizError
from specviz.measure.background_job import Job
from specviz.record.prompts import SuiteItem
from specviz.record.trace import StepCosts
from specviz.tune.confirming import CellsJob, RaceJob
from specviz.tune.measuring import Choice, MeasuredCell
from specviz.tune.question import Question
from specviz.tune.tune_job import TuneJob
from specviz.ui.session.background_jobs import WORK_LINK, run_maker, stop, the_job_queue
from specviz.ui.session.cluster_jobs import ClusterTune
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.session.run_saving import the_library
from specviz.ui.session.worker import this_tab
from specviz.ui.widgets.plain_text import as_text, show_error

_SHOWN = "tune work shown"
_TICK = 0.25  # seconds
Kind = TypeVar("Kind", bound=Job)


def ask(question: Question, given: StepCosts | None, *, on_cluster: bool = False) -> None:
    if on_cluster:
        _begin(ClusterTune(question, given=given))
    else:
        _begin(TuneJob(question, run_maker(), given=given))


def measure(choices: Sequence[Choice], items: Sequence[SuiteItem]) -> None:
    """Measure these cells, on every prompt or, of a single one, with three seeds."""
    repeats = 3 if len(items) == 1 else 1
    _begin(CellsJob(choices, items, run_maker(), the_library(), repeats=repeats))


def race(choices: Sequence[Choice], items: Sequence[SuiteItem]) -> None:
    _begin(RaceJob(choices, items, run_maker(), the_library()))


def _begin(work: Job) -> None:
    the_job_queue().start(work)
    st.session_state.setdefault(_SHOWN, {})[work.name] = work.id


def take_linked() -> None:
    """Show the work that the link names."""
    work = the_job_queue().find(st.query_params.pop(WORK_LINK, None))
    if work is not None:
        st.session_state.setdefault(_SHOWN, {})[work.name] = work.id


def shown_question() -> TuneJob | None:
    return shown("tune", TuneJob)


def shown_cells() -> tuple[MeasuredCell, ...]:
    work = shown("tune-cells", CellsJob)
    return () if work is None else work.cells


def shown(name: str, kind: type[Kind]) -> Kind | None:
    queue = the_job_queue()
    found = queue.find(st.session_state.get(_SHOWN, {}).get(name)) or queue.newest(name)
    return found if isinstance(found, kind) else None


def follow(work: Job, draw: Callable[[], object] = lambda: None) -> None:
    """How far the work is, and what it has found; drawn again while it goes on."""

    def look() -> bool:
        this_tab()
        return work.going

    def show(going: bool) -> None:
        if going:
            _show_progress(work)
        draw()

    redraw_while_busy(look(), look, bool, show, seconds=_TICK)
    if work.error is not None:
        show_error(work.error)
    elif work.was_stopped:
        st.info("It was stopped. What had been found by then is shown.")


def _show_progress(work: Job) -> None:
    done, planned = work.progress
    words = f"{done:,} of {planned:,}: {as_text(work.doing)}"
    with st.container(horizontal=True, vertical_alignment="center", key=f"progress_{work.name}"):
        st.progress(min(1.0, done / max(1, planned)), text=f":small[{words}]")
        st.button("Stop", key=f"stop_{work.name}", type="tertiary", on_click=stop, args=(work,))


def settled(question: Callable[[], Question], given: StepCosts | None, work: TuneJob) -> bool:
    """Whether the work answers what the controls ask now."""
    try:
        return question() == work.question and given == work.given
    except SpecvizError:
        return False
