"""The page Watch for people who may not start runs: a choice of recorded runs, and the player.

A link names the recording (``RECORDING_LINK``) or, if there is a library, a stored run.
"""

from __future__ import annotations

import streamlit as st

from specviz.player.replay import replay_html
from specviz.record.numbers import counted
from specviz.record.run_facts import sampling_words
from specviz.record.trace import Trace
from specviz.tune.methods import method_text
from specviz.ui.recorded.player import show_recording, show_stored
from specviz.ui.session.history import ShownRun, session_history
from specviz.ui.session.recordings import (
    Recording,
    available,
    command_of,
    opened_recording,
    recording_named,
)
from specviz.ui.session.run_saving import has_library
from specviz.ui.watch.first_stage import CAPTION, RECORDING_LINK, TITLE
from specviz.ui.watch.library_run import open_linked_run
from specviz.ui.widgets.page_parts import page_head, show_heading
from specviz.ui.widgets.plain_text import as_text, show_error
from specviz.ui.widgets.run_files import offer_run_files

_PROMPT, _RUN, _PLAYER = "recorded_prompt", "recorded_run", "player"


def show_watch() -> None:
    history = session_history()
    failure = open_linked_run(history) if has_library() else None
    with st.sidebar:
        shown = opened_recording(choose_recording())
    with page_head():
        show_heading(TITLE, CAPTION)
    if failure is not None:
        show_error(failure)
    if history.opened is not None or history.opened_answer is not None:
        st.caption("This run is from the library.")
        show_stored(history, _PLAYER)
        return
    tour = "force" if st.query_params.get("tour") == "1" else "ask"
    show_recording(shown, _PLAYER, tour, "; more runs are in the sidebar")
    _offer_files(shown)


def choose_recording() -> Recording:
    """Let the person choose a prompt, then a recorded run with this prompt; return the run."""
    first, *_ = available()
    linked = recording_named(st.query_params.get(RECORDING_LINK)) or first
    prompts = list(dict.fromkeys(each.prompt for each in available()))
    if st.session_state.get(_PROMPT) not in prompts:
        st.session_state[_PROMPT] = linked.prompt
    prompt = st.selectbox("Recorded prompt", prompts, key=_PROMPT, persist_state="session")
    runs = {each.name: each for each in available() if each.prompt == prompt}
    if st.session_state.get(_RUN) not in runs:
        st.session_state[_RUN] = linked.name if linked.name in runs else next(iter(runs))
    chosen = runs[
        st.radio(
            "Recorded run", list(runs), key=_RUN, persist_state="session",
            format_func=lambda name: runs[name].words,
        )
    ]  # fmt: skip
    if chosen is first:
        st.query_params.pop(RECORDING_LINK, None)
    else:
        st.query_params[RECORDING_LINK] = chosen.name
    _describe(chosen)
    return chosen


def _describe(recording: Recording) -> None:
    st.caption(as_text(f"“{' '.join(recording.preset.text.split())}”"))
    st.caption(as_text(_facts(opened_recording(recording).trace)))
    with st.expander("The command", key="recorded_command"):
        st.caption("This command makes a run with the same settings on your machine.")
        st.code(command_of(recording), language=None, wrap_lines=True)


def _facts(trace: Trace) -> str:
    config, where = trace.config, trace.environment
    parts = (
        f"γ {config.gamma}", sampling_words(config.temperature), method_text(config),
        counted(len(trace.token_ids), "token"), f"seed {config.seed}", where.device_name,
        counted(where.threads, "thread"), trace.created[:10],
    )  # fmt: skip
    return " · ".join(each for each in parts if each)


def _offer_files(shown: ShownRun) -> None:
    with st.container(horizontal=True, key="downloads"):
        offer_run_files(
            shown.trace, shown.id, lambda: replay_html(shown.trace, shown.figures), key="download"
        )
