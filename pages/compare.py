"""Compare: pairs and settings compared on the same prompts, and saved runs side by side."""

from dataclasses import replace
from functools import partial

import streamlit as st

from specviz.ui.compare.beside import linked_runs, show_beside
from specviz.ui.compare.current import (
    JobName,
    follow,
    offer_unfinished,
    own_job_going,
    show_buttons,
    shown_comparison,
    take_linked,
)
from specviz.ui.compare.example import show_example
from specviz.ui.compare.kept import TAB, TABS, show_kept
from specviz.ui.compare.lanes import choose_lanes, session_cards, show_add
from specviz.ui.compare.results import findings_of, show_results
from specviz.ui.compare.settings import (
    choose_chat,
    choose_shared,
    choose_suite,
    one_item,
    plan_of,
)
from specviz.ui.session.worker import this_tab
from specviz.ui.shell import require_shell
from specviz.ui.widgets.body_boxes import show_body_boxes
from specviz.ui.widgets.page_parts import page_head, show_heading
from specviz.ui.widgets.pair_panel import has_chat, pair_of_page, show_pair_panel
from specviz.ui.widgets.plain_text import show_error

require_shell()

this_tab()
worker, status, spec = pair_of_page()
cards = session_cards(spec)
busy = own_job_going() is not None
if (linked := take_linked()) is not None:
    st.session_state[TAB] = TABS[0 if linked == "prompt" else 1]

beside_ids = linked_runs()
head = page_head()
about = st.sidebar.empty()
with st.sidebar:
    shared = choose_shared(has_chat=has_chat(status, spec))
    chat_area = st.container(gap=None)
    show_body_boxes(worker, status)
    with st.expander("The pair", key="compare_pair_panel"):
        show_pair_panel(worker, status)

offer_unfinished()
lane_area = st.container(key="compare_lanes")
single, kinds, kept, beside = st.tabs(TABS, key=TAB, bind="query-params")
lanes = cards.lanes
with head:
    if beside.open:
        show_heading("Side by side", "Replay two to four saved runs at their measured speed.")
    else:
        show_heading(
            "Compare lanes",
            "Two to four lanes run the same prompt in turn. A lane is a pair with its settings.",
        )
if kept.open:
    about.caption("A saved comparison has its own settings. The settings below do not apply.")
elif beside.open:
    about.caption("Saved runs have their own settings. The settings below do not apply.")
else:
    with head:
        show_add(cards, spec, busy=busy)
    with lane_area:
        lanes = choose_lanes(cards, spec, busy=busy)
if kinds.open:
    about.caption(
        "The tab “By kind” has its own prompts and repeats. All other settings below apply."
    )
with chat_area:
    chat = choose_chat([has_chat(status, lane.spec) for lane in lanes])
shared = replace(shared, chat=chat)
one_prompt = partial(plan_of, lanes, one_item(shared), shared, shared.repeats)


def show_found(name: JobName) -> None:
    job = shown_comparison(name)
    found = findings_of(name, job) if job is not None and not job.going else None
    if found is not None:
        show_results(found, name)
    elif job is None:
        show_example(name)


with single:
    show_buttons("prompt", "Compare", one_prompt)
    follow("prompt", one_prompt)
    if single.open:
        show_found("prompt")

with kinds:
    st.caption("Acceptance depends on the text, so test a draft on texts like yours.")
    suite = choose_suite(chat=chat)
    if suite.error is not None:
        show_error(suite.error)
    many_prompts = partial(plan_of, lanes, suite.items, shared, suite.repeats)
    show_buttons("suite", "Compare by kind", many_prompts)
    follow("suite", many_prompts)
    if kinds.open:
        show_found("suite")

if kept.open:
    with kept:
        show_kept(busy=busy)

if beside.open:
    with beside:
        show_beside(beside_ids)
