"""Lossless: test whether the output has the target's distribution, with and without a bug."""

from functools import partial

import streamlit as st

from specviz.errors import SpecvizError
from specviz.figures.symbols import SYMBOLS
from specviz.record.drafters import DRAFTER_KEYS, drafters_list, methods_for
from specviz.record.trace import RunConfig
from specviz.ui.lossless.current import (
    audits_of,
    doctor_of,
    is_auditing,
    start_audit,
    start_doctor,
)
from specviz.ui.lossless.engine_parity import show_engine_parity
from specviz.ui.lossless.head_doctor import show_doctor
from specviz.ui.lossless.sections import show_audits, show_test, show_zoo
from specviz.ui.session.presses import press_button, take_press
from specviz.ui.session.worker import this_tab
from specviz.ui.shell import require_shell
from specviz.ui.tune.current import take_linked
from specviz.ui.widgets.body_boxes import show_body_boxes
from specviz.ui.widgets.page_parts import page_head, show_heading, slider, whole_slider
from specviz.ui.widgets.pair_panel import has_chat, pair_of_page, show_pair_panel
from specviz.ui.widgets.plain_text import show_error
from specviz.ui.widgets.run_controls import choose_chat_template

require_shell()

this_tab()
worker, status, spec = pair_of_page()
take_linked()

with page_head():
    show_heading(
        "Losslessness audit",
        "Speculative decoding must emit tokens with exactly the target's distribution. This page "
        "tests the tokens that the loaded models emit.",
    )
    press_button("Audit", key="audit_start", type="primary")
with st.sidebar:
    temperature = slider("Temperature", 0.0, 2.0, 1.0, key="audit_temperature", step=0.05)
    gamma = whole_slider(
        "Candidates per round, γ", 1, 16, 5, key="audit_gamma", hint=SYMBOLS["gamma"].sentence
    )
    drafters = methods_for(spec.draft_kind)
    drafter = st.selectbox(
        "Drafter", drafters, key=f"audit_{DRAFTER_KEYS[spec.draft_kind]}",
        bind="query-params", help=drafters_list(drafters),
    )  # fmt: skip
    runs = whole_slider(
        "Short runs", 50, 5000, 300, key="audit_runs",
        hint="More runs find smaller deviations. You can stop the audit at any time.",
    )  # fmt: skip
    chat = has_chat(status, spec) and choose_chat_template("audit_chat")
    show_body_boxes(worker, status)
    with st.expander("The pair", key="audit_pair_panel"):
        show_pair_panel(worker, status)


config = RunConfig(temperature=round(temperature, 2), gamma=gamma, drafter=drafter, chat=chat)
start = partial(start_audit, spec, config, runs=runs)
if take_press("audit_start"):
    try:
        start(broken=None)
    except SpecvizError as problem:
        show_error(problem)

if spec.head:
    show_doctor(doctor_of(spec), partial(start_doctor, spec, config))
    show_engine_parity(spec, config)
    st.markdown("#### Audit")
audits = audits_of(spec, config)
show_audits(audits)
show_test()
show_zoo(audits, start, busy=is_auditing(), drafted=config.draft_method.needs_draft)
