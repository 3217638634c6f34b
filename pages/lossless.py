"""Lossless: the proof, on the loaded pair, that nothing is lost; and bugs that it finds."""

from dataclasses import replace

import streamlit as st

from specviz.errors import SpecvizError
from specviz.record.trace import RunConfig
from specviz.tune.audit import Audit
from specviz.tune.audit_work import AUDIT, AuditWork
from specviz.ui.lossless.sections import show_evidence, show_report, show_test, show_zoo
from specviz.ui.session.background_work import run_maker, the_work_queue
from specviz.ui.session.presses import press_button, take_press
from specviz.ui.session.worker import the_worker, this_tab
from specviz.ui.shell import require_shell
from specviz.ui.tune.current import follow, take_linked
from specviz.ui.widgets.body_boxes import show_body_boxes
from specviz.ui.widgets.page_parts import show_heading, slider, whole_slider
from specviz.ui.widgets.pair_boxes import shown_pair
from specviz.ui.widgets.pair_panel import active_spec, show_pair_panel
from specviz.ui.widgets.plain_text import show_error

require_shell()

this_tab()
worker = the_worker()
status = worker.status()
spec = shown_pair() or active_spec(status)
take_linked()

with st.container(horizontal=True, vertical_alignment="center", key="head"):
    show_heading(
        "Is nothing lost?",
        "What speculation writes must have exactly the law of the target alone. Here that is "
        "tested on the loaded pair, token by token.",
    )
    press_button("Audit", key="audit_start", type="primary")
with st.sidebar:
    temperature = slider("Temperature", 0.0, 2.0, 1.0, key="audit_temperature", step=0.05)
    gamma = whole_slider("Candidates a round, γ", 1, 16, 5, key="audit_gamma")
    runs = whole_slider(
        "Short runs", 50, 5000, 300, key="audit_runs",
        hint="More runs find smaller deviations. It may be watched, and stopped, at any time.",
    )  # fmt: skip
    show_body_boxes(worker, status)
    with st.expander("The pair", key="audit_pair_panel"):
        show_pair_panel(worker, status)


def start(broken: str | None) -> None:
    config = replace(RunConfig(), temperature=round(temperature, 2), gamma=gamma)
    audit = Audit(config=config, runs=runs, broken=broken)
    the_work_queue().start(AuditWork(audit, spec, run_maker()))


if take_press("audit_start"):
    try:
        start(None)
    except SpecvizError as problem:
        show_error(problem)

works = [
    each for each in the_work_queue().works if isinstance(each, AuditWork) and each.spec == spec
]
last = {each.audit.broken or "": each for each in works}
if works:
    newest = works[-1]

    def draw() -> None:
        if newest.report is not None:
            show_report(newest.report, over=not newest.going)
        show_evidence(list(last.values()))

    follow(newest, draw)
else:
    st.info(
        "Press *Audit*. It makes short runs with many seeds and holds each of their tokens against "
        "the target's own law; then it compares greedy text with that of the target alone."
    )
show_test()
show_zoo(last, start, busy=any(each.name == AUDIT for each in the_work_queue().going))
