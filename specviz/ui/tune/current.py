"""Start, follow and stop the tuning job that a browser tab shows.

A tab shows the job that it started last. If it has started none, it shows the newest job on the
server. Chosen cells of the map are measured in a separate job. A cell is a γ with a temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import streamlit as st

from specviz.errors import SpecvizError
from specviz.measure.background_job import Job
from specviz.record.numbers import time_text
from specviz.record.prompts import SuiteItem
from specviz.record.trace import StepCosts
from specviz.tune.answer import Answer
from specviz.tune.confirming import CellsJob, RaceJob
from specviz.tune.measuring import Choice, MeasuredCell
from specviz.tune.question import Question
from specviz.tune.tune_job import TuneJob
from specviz.ui.session.background_jobs import (
    linked_job,
    put_shown,
    run_maker,
    shown_job,
    stop,
    the_job_queue,
)
from specviz.ui.session.cluster_jobs import ClusterTune
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.session.run_saving import the_library
from specviz.ui.session.worker import this_tab
from specviz.ui.widgets.plain_text import as_text, show_error

_TICK = 0.25  # seconds
Phase = Literal["", "working", "refining"]
Measuring = TypeVar("Measuring", CellsJob, RaceJob)


def ask(question: Question, given: StepCosts | None, *, on_cluster: bool = False) -> None:
    if on_cluster:
        _start(ClusterTune(question, given=given))
    else:
        _start(TuneJob(question, run_maker(), given=given))


def measure(choices: Sequence[Choice], items: Sequence[SuiteItem]) -> None:
    """Start a job that measures each choice (a method, γ and temperature) on every prompt.

    If there is only one prompt, each choice is measured with three seeds.
    """
    repeats = 3 if len(items) == 1 else 1
    _start(CellsJob(choices, items, run_maker(), the_library(), repeats=repeats))


def race(choices: Sequence[Choice], items: Sequence[SuiteItem]) -> None:
    _start(RaceJob(choices, items, run_maker(), the_library()))


def _start(job: Job) -> None:
    the_job_queue().start(job)
    put_shown(job)


def take_linked() -> None:
    """Show the job that the link names, and remove the job's name from the link."""
    if (job := linked_job()) is not None:
        put_shown(job)


def shown_question() -> TuneJob | None:
    return shown_job("tune", TuneJob)


def shown_cells(answer: Answer) -> CellsJob | None:
    return _like(answer, shown_job("tune-cells", CellsJob))


def shown_race(answer: Answer) -> RaceJob | None:
    return _like(answer, shown_job("tune-race", RaceJob))


def _like(answer: Answer, job: Measuring | None) -> Measuring | None:
    """Return ``job`` if it measures this answer's drafts and methods on the answer's prompts.

    Otherwise, return None.
    """
    if job is None or job.items != answer.question.items:
        return None
    own = {each.lane for each in answer.candidates}
    return job if all(each.lane in own for each, _ in job.choices) else None


def measured_since(answer: Answer) -> tuple[MeasuredCell, ...]:
    """Return the measured cells (γ and temperature) of this answer's finished jobs."""
    jobs = (shown_race(answer), shown_cells(answer))
    whole = (job for job in jobs if job is not None and _is_whole(job))
    return tuple(cell for job in whole for cell in job.cells)


def _is_whole(job: Job) -> bool:
    return not job.going and job.error is None and not job.was_stopped


def follow(
    job: Job,
    draw: Callable[[], object] = lambda: None,
    *,
    seconds: float = _TICK,
    part: Callable[[], str] = lambda: "",
) -> None:
    """Show the job's progress, call ``draw`` for its results, and repeat both while the job runs.

    Args:
        seconds: Time between two drawings.
        part: Returns a name for what the page shows outside ``draw``. If the name changes, the page
            reruns.
    """

    def phase() -> str:
        this_tab()
        now = phase_of(job)
        return f"{now} {part()}" if now else now

    def show(now: str) -> None:
        if now:
            _show_progress(job)
        draw()

    redraw_while_busy(phase(), phase, str, show, seconds=seconds)
    if job.error is not None:
        show_error(job.error)
    elif job.was_stopped:
        st.info("Stopped. Partial results are shown.")


def phase_of(job: Job) -> Phase:
    """Return "working", "refining" or, if the job has ended, "". A new phase reruns the page."""
    if not job.going:
        return ""
    return "refining" if isinstance(job, TuneJob) and job.is_refining else "working"


def _show_progress(job: Job) -> None:
    done, planned = job.progress
    left = job.seconds_left
    text = f"{done:,} of {planned:,}: {as_text(job.doing)}"
    text += "" if left is None else f", about {time_text(left)} left"
    with st.container(horizontal=True, vertical_alignment="center", key=f"progress_{job.name}"):
        st.progress(min(1.0, done / max(1, planned)), text=f":small[{text}]")
        st.button("Stop", key=f"stop_{job.name}", type="tertiary", on_click=stop, args=(job,))


def is_current(question: Callable[[], Question], given: StepCosts | None, job: TuneJob) -> bool:
    """Return whether the job uses the settings of the controls and the step costs ``given``."""
    try:
        return question() == job.question and given == job.given
    except SpecvizError:
        return False
