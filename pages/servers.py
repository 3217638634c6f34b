"""Servers: what a running serving engine reports about its speculation."""

import streamlit as st

from specviz.errors import SpecvizError
from specviz.ui.servers.against_section import (
    NO_SPEEDUP_NOTE,
    can_time,
    collect_timing,
    is_timing,
    show_timing,
    start_timing,
    timing_request_text,
)
from specviz.ui.servers.answer_files import show_files
from specviz.ui.servers.answer_player import show_answer
from specviz.ui.servers.asking import begin_answer, request_text
from specviz.ui.servers.card import show_card, show_introduction
from specviz.ui.servers.controls import choose
from specviz.ui.servers.counters_section import show_counters, show_file
from specviz.ui.servers.draft_section import show_draft
from specviz.ui.servers.example import show_example
from specviz.ui.servers.load.section import show_load
from specviz.ui.servers.places import offer_probe
from specviz.ui.session.history import remember_tab, session_history
from specviz.ui.session.presses import press_button, take_press
from specviz.ui.session.worker import this_tab
from specviz.ui.shell import require_shell
from specviz.ui.widgets.page_parts import page_head, show_heading, show_tabs
from specviz.ui.widgets.plain_text import as_text, show_error

TAB, ANSWERS, UNDER_LOAD = "servers_tab", "One answer", "Under load"

require_shell()

history = session_history()
answers, tab = history.answers, this_tab()
with st.sidebar:
    choices = choose()
server, baseline = choices.server, choices.baseline
info = server.info if server is not None else None

problem: SpecvizError | None = None
if take_press("server_ask") and server is not None:
    try:
        begin_answer(answers, tab, choices)
    except SpecvizError as error:
        problem = error
if take_press("server_stop"):
    answers.stop()
collect_timing(answers)
run = answers.current
shown = answers.shown()
timed = shown is not None and shown.finished and can_time(shown.trace.info, baseline)
if take_press("server_time") and shown is not None and timed:
    start_timing(shown, baseline)
timing = is_timing(answers)
remember_tab(history)
loading = st.session_state.get(TAB, st.query_params.get(TAB)) == UNDER_LOAD

with page_head():
    show_heading("Servers", "Watch the rounds of a serving engine, or measure it under load.")
    if not loading:
        press_button("Stop", key="server_stop", disabled=run is None or run.finished)
        if info is not None and can_time(info, baseline):
            press_button("Time the target alone", key="server_time", disabled=not timed or timing)
        press_button("Ask", key="server_ask", type="primary", disabled=info is None or timing)

for place in (server, baseline):
    if place is not None and place.error is not None:
        show_error(place.error)
    elif place is not None and place.waiting:
        offer_probe(place)
if problem is not None:
    show_error(problem)
if server is None:
    show_introduction()
elif info is not None:
    show_card(info)
elif server.error is None and not server.waiting:
    st.info("Nothing is sent to this address until you confirm it in the sidebar.")


def show_answers() -> None:
    if info is not None:
        with st.container(key="server_sends", gap=None):
            st.caption(as_text(request_text(choices)))
            if shown is not None and timed:
                st.caption(as_text(f"Timing sends {timing_request_text(shown.trace, baseline)}."))
            elif shown is None and not can_time(info, baseline):
                st.caption(NO_SPEEDUP_NOTE)
    if run is not None and run.error is not None:
        show_error(run.error)
    show_timing(answers)
    show_answer(answers)
    if server is None and run is None:
        show_example()
    show_files(answers)
    if server is not None and info is not None:
        show_counters(info, granted=server.granted)
    show_file()
    if info is not None:
        show_draft(choices)


show_tabs(TAB, {ANSWERS: show_answers, UNDER_LOAD: lambda: show_load(choices)})
