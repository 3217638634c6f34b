"""Tune: which γ and which draft for texts like these, where the speed went, and what to expect."""

from functools import partial

import streamlit as st

from specviz.errors import SpecvizError
from specviz.ui.session.presses import press_button, take_press
from specviz.ui.session.worker import the_worker, this_tab
from specviz.ui.shell import require_shell
from specviz.ui.tune.controls import choose_wishes, show_refused
from specviz.ui.tune.current import ask, follow, settled, shown_cells, shown_question, take_linked
from specviz.ui.tune.drafts_section import show_candidates
from specviz.ui.tune.engines_section import show_engines
from specviz.ui.tune.opening import goes_to_watch
from specviz.ui.tune.runs_section import show_ledger, show_run_findings
from specviz.ui.tune.surface_section import show_advice, show_surface
from specviz.ui.tune.text_section import show_text
from specviz.ui.widgets.body_boxes import show_body_boxes
from specviz.ui.widgets.page_parts import show_heading
from specviz.ui.widgets.pair_boxes import shown_pair
from specviz.ui.widgets.pair_panel import active_spec, show_pair_panel
from specviz.ui.widgets.plain_text import show_error

require_shell()

this_tab()
if goes_to_watch():
    st.switch_page("pages/watch.py", query_params={})  # without them it refuses bound ones
worker = the_worker()
status = worker.status()
spec = shown_pair() or active_spec(status)
take_linked()

with st.container(horizontal=True, vertical_alignment="center", key="head"):
    show_heading(
        "Which γ, which draft, which way?",
        "Both models read words that the target wrote. That gives the odds of every token, and so "
        "what to expect at every γ; where it does not, short runs tell.",
    )
    press_button("Work it out", key="tune_ask", type="primary")
with st.sidebar:
    wishes = choose_wishes(spec)
    show_body_boxes(worker, status)
    with st.expander("The pair", key="tune_pair_panel"):
        show_pair_panel(worker, status)

show_refused(wishes)
if take_press("tune_ask"):
    try:
        ask(wishes.question(spec), wishes.given, on_cluster=wishes.on_cluster)
    except SpecvizError as problem:
        show_error(problem)

work = shown_question()
if work is not None:
    follow(work, partial(show_advice, work))
    if not work.going and not settled(lambda: wishes.question(spec), wishes.given, work):
        st.caption("The settings have changed since. What stands here is of the settings before.")

names = ("Every γ", "Which draft?", "Along the text", "A run", "Your engine", "Ledger")
every, drafts, text, run, engine, ledger = st.tabs(names, key="tune_tab", bind="query-params")
answer = work.answer if work is not None and not work.going else None
waiting = "It is being worked out." if work is not None and work.going else "Press *Work it out*."
given = work is not None and work.given is not None
try:
    for tab, show, what in (
        (
            every,
            partial(show_surface, measured=shown_cells(), given=given),
            "every γ and temperature as a map",
        ),
        (drafts, show_candidates, "the candidates in their order"),
        (text, show_text, "the text with the odds of each of its tokens"),
        (engine, show_engines, "the best setting, as other engines write it"),
    ):
        if tab.open:
            with tab:
                if answer is not None:
                    show(answer)
                else:
                    st.caption(f"Here you will see {what}. {waiting}")
    if run.open:
        with run:
            show_run_findings()
    if ledger.open:
        with ledger:
            show_ledger()
except SpecvizError as problem:
    show_error(problem)
