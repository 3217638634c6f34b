"""Train: a draft that learns from texts of its target."""

import streamlit as st

from specviz.errors import SpecvizError
from specviz.ui.session.body_rooms import body_room
from specviz.ui.session.presses import press_button, take_press
from specviz.ui.session.worker import this_tab
from specviz.ui.shell import require_shell
from specviz.ui.train.controls import choose_settings
from specviz.ui.train.current import (
    choose_gives_way,
    shown_training,
    start,
    take_linked,
    target_name,
)
from specviz.ui.train.result_section import show_kept_draft, show_result, switch_if_asked
from specviz.ui.train.sections import follow_training, show_costs, show_example
from specviz.ui.widgets.page_parts import page_head, show_heading
from specviz.ui.widgets.pair_panel import has_chat, pair_of_page, show_pair_panel
from specviz.ui.widgets.plain_text import show_error

require_shell()

this_tab()
switch_if_asked()
worker, status, spec = pair_of_page()
take_linked()
job = shown_training()

with page_head():
    show_heading(
        "Train a draft",
        "The target writes texts, and a draft learns to predict their tokens. Everything is "
        "saved in a folder, so a training can be paused and continued at any time.",
    )
    area = st.container(key="train_buttons", horizontal=True, width="content")
with st.sidebar:
    settings = choose_settings(target_name(spec))
    gives_way = choose_gives_way(job)
    with st.expander("The pair", key="train_pair_panel"):
        show_pair_panel(worker, status)

with area:
    press_button(
        "Continue" if settings.kept is not None else "Start", key="train_start", type="primary",
        disabled=job is not None and job.going,
    )  # fmt: skip
if take_press("train_start"):
    try:
        start(spec, settings.plan(), settings.place(), gives_way=gives_way)
        st.rerun()
    except SpecvizError as problem:
        show_error(problem)

if settings.kept is None and (job is None or not job.going):
    with st.container(border=True, key="train_cost_box", gap="small"):
        show_costs(settings.shown, body_room(worker, status, spec))
if settings.error is not None:
    show_error(settings.error)
if job is None:
    show_example()
else:
    follow_training(job)
result = job.result if job is not None and not job.going else None
if job is not None and result is not None:
    show_result(job, result, spec, chat=has_chat(status, spec))
elif job is None and settings.kept is not None and settings.kept.has_draft:
    show_kept_draft(spec, settings.kept)
