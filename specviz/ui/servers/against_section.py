"""An answer against the target alone: the work that times it, and what came of it."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from specviz.figures.server_words import sent_words
from specviz.player.server_summary import speedup_words
from specviz.record.server_run import ServerInfo, ServerTrace
from specviz.servers.baseline_job import AGAINST, BLOCKS, MOST_ANSWERS, Against, BaselineJob
from specviz.ui.servers.places import Place
from specviz.ui.session.answers import AnswerRun, Answers
from specviz.ui.session.background_jobs import the_job_queue
from specviz.ui.tune.current import follow
from specviz.ui.widgets.plain_text import as_text

NOT_CLAIMED = (
    "No speedup is claimed: for that, the same model must answer without speculation, too. Give "
    "the address of one that does, or an engine that can switch it off for a single request."
)


def can_time(info: ServerInfo, baseline: Place | None) -> bool:
    return info.capabilities.can_switch_off or (baseline is not None and baseline.info is not None)


def start_timing(run: AnswerRun, baseline: Place | None) -> None:
    alone = baseline.info if baseline is not None else None
    granted = run.allow_remote or (baseline is not None and baseline.granted)
    against = Against(trace=run.trace, alone=alone, allow_remote=granted)
    the_job_queue().start(BaselineJob(against, run.id))


def timing_words(trace: ServerTrace, baseline: Place | None) -> str:
    """What it sends, before it is sent."""
    alone = baseline.address if baseline is not None and baseline.info else trace.info.address
    sent = sent_words(
        characters=len(trace.prompt), answers=MOST_ANSWERS, tokens=trace.settings.max_new_tokens,
        address=trace.info.address,
    )  # fmt: skip
    return sent if alone == trace.info.address else f"{sent} and {alone} by turns"


def is_timing(answers: Answers) -> bool:
    """Whether the answer that is shown is being timed, or waits for that."""
    run = answers.shown()
    work = _work_of(run) if run is not None else None
    return work is not None and work.going


def take_timed(answers: Answers) -> None:
    """What a timing that is over has found belongs to its answer from now on."""
    run = answers.shown()
    work = _work_of(run) if run is not None else None
    if run is not None and work is not None and not work.going and work.blocks:
        run.take_blocks(work.blocks, work.against.address)


def show_timing(answers: Answers) -> None:
    """Of the answer that is shown: how far its timing is, and what was found."""
    run = answers.shown()
    if run is None:
        return
    work = _work_of(run)
    if work is not None:
        follow(work, lambda: _show(work))
    elif run.trace.baseline:
        show_against(run.trace)


def _work_of(run: AnswerRun) -> BaselineJob | None:
    found = [
        each
        for each in the_job_queue().works
        if each.name == AGAINST and isinstance(each, BaselineJob) and each.answer_id == run.id
    ]
    return found[-1] if found else None


def _show(work: BaselineJob) -> None:
    if work.blocks:
        timed = replace(
            work.against.trace, baseline=work.blocks, baseline_address=work.against.address
        )
        show_against(timed, so_far=work.going)


def show_against(trace: ServerTrace, *, so_far: bool = False) -> None:
    said, count = speedup_words(trace), len(trace.baseline)
    if said is None:
        return
    with st.container(border=True, key="server_against", gap="small"):
        st.markdown(f"##### {as_text(said)}")
        progress = f"So far {count} of {BLOCKS} blocks" if so_far else f"{count} blocks"
        st.caption(
            f":green-badge[measured] With speculation at {as_text(trace.info.address)}, the target "
            f"alone at {as_text(trace.baseline_address)}. {progress} of four answers: alone, "
            "speculative twice, alone; only what came after the first piece is timed. The interval "
            "is of the timing."
        )
