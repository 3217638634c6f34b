"""Answer a prompt again with and without speculation, and show the speedup."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from specviz.figures.server_words import sent_words
from specviz.player.server_summary import speedup_words
from specviz.record.server_run import ServerInfo, ServerTrace
from specviz.servers.baseline_job import (
    BASELINE_JOB,
    BLOCKS,
    MOST_ANSWERS,
    BaselineJob,
    BaselineRequest,
)
from specviz.ui.servers.places import Place
from specviz.ui.session.answers import AnswerRun, Answers
from specviz.ui.session.background_jobs import the_job_queue
from specviz.ui.tune.current import follow
from specviz.ui.widgets.plain_text import as_text

NO_SPEEDUP_NOTE = (
    "No speedup: this engine cannot switch speculation off for a single request. Give the address "
    "of a server that runs the same model without speculation."
)


def can_time(info: ServerInfo, baseline: Place | None) -> bool:
    return info.capabilities.can_switch_off or (baseline is not None and baseline.info is not None)


def start_timing(run: AnswerRun, baseline: Place | None) -> None:
    alone = baseline.info if baseline is not None else None
    granted = run.allow_remote or (baseline is not None and baseline.granted)
    against = BaselineRequest(trace=run.trace, alone=alone, allow_remote=granted)
    the_job_queue().start(BaselineJob(against, run.id))


def timing_request_text(trace: ServerTrace, baseline: Place | None) -> str:
    """Describe what measuring the speedup will send, and to which addresses."""
    alone = baseline.address if baseline is not None and baseline.info else trace.info.address
    sent = sent_words(
        characters=len(trace.prompt), answers=MOST_ANSWERS, tokens=trace.settings.max_new_tokens,
        address=trace.info.address,
    )  # fmt: skip
    return sent if alone == trace.info.address else f"{sent} and {alone} in turn"


def is_timing(answers: Answers) -> bool:
    """Return whether the speedup measurement of the shown answer is running or queued."""
    run = answers.shown()
    job = _job_of(run) if run is not None else None
    return job is not None and job.going


def collect_timing(answers: Answers) -> None:
    """Once the speedup measurement has ended, add its timed blocks to the shown answer."""
    run = answers.shown()
    job = _job_of(run) if run is not None else None
    if run is not None and job is not None and not job.going and job.blocks:
        run.add_baseline(job.blocks, job.against.address)


def show_timing(answers: Answers) -> None:
    """Show the speedup measured for the shown answer, or the progress of measuring it."""
    run = answers.shown()
    if run is None:
        return
    job = _job_of(run)
    if job is not None:
        follow(job, lambda: _show(job))
    elif run.trace.baseline:
        show_against(run.trace)


def _job_of(run: AnswerRun) -> BaselineJob | None:
    found = [
        each
        for each in the_job_queue().jobs
        if each.name == BASELINE_JOB and isinstance(each, BaselineJob) and each.answer_id == run.id
    ]
    return found[-1] if found else None


def _show(job: BaselineJob) -> None:
    if job.blocks:
        timed = replace(
            job.against.trace, baseline=job.blocks, baseline_address=job.against.address
        )
        show_against(timed, so_far=job.going)


def show_against(trace: ServerTrace, *, so_far: bool = False) -> None:
    text, count = speedup_words(trace), len(trace.baseline)
    if text is None:
        return
    with st.container(border=True, key="server_against", gap="small"):
        st.markdown(f"##### {as_text(text)}")
        progress = f"So far {count} of {BLOCKS} blocks" if so_far else f"{count} blocks"
        st.caption(
            f":green-badge[measured] Speculation ran at {as_text(trace.info.address)}, the target "
            f"alone at {as_text(trace.baseline_address)}. {progress} of four answers: target "
            "alone, speculation, speculation, target alone. An answer is timed from its first "
            "streamed piece on. The interval covers only timing noise."
        )
