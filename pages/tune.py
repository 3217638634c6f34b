"""Tune: the best γ, draft and method for given texts, and what limits the speedup of a run."""

from functools import partial

import streamlit as st

from specviz.errors import SpecvizError
from specviz.ui.session.presses import press_button, take_press
from specviz.ui.session.worker import this_tab
from specviz.ui.shell import require_shell
from specviz.ui.tune.controls import choose_settings, show_refused
from specviz.ui.tune.current import (
    ask,
    follow,
    is_current,
    shown_question,
    take_linked,
)
from specviz.ui.tune.drafts_section import show_candidates
from specviz.ui.tune.engines_section import show_engines
from specviz.ui.tune.example import show_example
from specviz.ui.tune.opening import take_watch_handover
from specviz.ui.tune.runs_section import show_ledger, show_run_findings
from specviz.ui.tune.surface_section import show_advice, show_surface
from specviz.ui.tune.text_section import show_text
from specviz.ui.widgets.body_boxes import show_body_boxes
from specviz.ui.widgets.page_parts import page_head, show_heading
from specviz.ui.widgets.pair_panel import has_chat, pair_of_page, show_pair_panel
from specviz.ui.widgets.plain_text import show_error

require_shell()

this_tab()
if take_watch_handover():
    # Without this argument, switch_page refuses parameters of the link that widgets are bound to.
    st.switch_page("pages/watch.py", query_params={})
worker, status, spec = pair_of_page()
take_linked()

with page_head():
    show_heading(
        "Best γ, draft and method",
        "The target generates text, and both models score it. The scores give each token's "
        "acceptance probability and the expected speedup for each γ (candidates per round). Other "
        "methods are measured in short runs.",
    )
    press_button("Compute", key="tune_ask", type="primary")
with st.sidebar:
    settings = choose_settings(spec, has_chat=has_chat(status, spec))
    show_body_boxes(worker, status)
    with st.expander("The pair", key="tune_pair_panel"):
        show_pair_panel(worker, status)

show_refused(settings)
if take_press("tune_ask"):
    try:
        ask(settings.question(spec), settings.given, on_cluster=settings.on_cluster)
    except SpecvizError as problem:
        show_error(problem)

job = shown_question()
if job is not None:
    follow(job, partial(show_advice, job))
    if not job.going and not is_current(lambda: settings.question(spec), settings.given, job):
        st.caption("The settings have changed. These results are for the previous settings.")

answer = job.answer if job is not None and (job.is_refining or not job.going) else None
if job is None:
    answer = show_example()

names = ("Every γ", "Which draft?", "Along the text", "A run", "Your engine", "Ledger")
every, drafts, text, run, engine, ledger = st.tabs(names, key="tune_tab", bind="query-params")
given = job is not None and job.given is not None
try:
    for tab, show, what in (
        (
            every,
            partial(show_surface, given=given),
            "a map of the speedup for every γ and temperature",
        ),
        (drafts, show_candidates, "the ranked candidates"),
        (text, show_text, "the text with each token's acceptance probability"),
        (engine, show_engines, "the best setting for other engines"),
    ):
        if tab.open:
            with tab:
                if answer is not None:
                    show(answer)
                else:
                    st.caption(f"In progress. This tab will show {what}.")
    if run.open:
        with run:
            show_run_findings()
    if ledger.open:
        with ledger:
            show_ledger()
except SpecvizError as problem:
    show_error(problem)
