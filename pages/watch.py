"""Watch: one round at a time, token by token, on a live pair."""

import streamlit as st

from specviz.errors import SpecvizError
from specviz.record.body_words import EARLY_RUN
from specviz.ui.session.history import remember_tab, session_history
from specviz.ui.session.presses import press_button, take_press
from specviz.ui.session.run_saving import show_save_failure
from specviz.ui.session.worker import the_worker, this_tab
from specviz.ui.shell import require_shell
from specviz.ui.watch.first_body import session_first_body
from specviz.ui.watch.first_stage import CAPTION, TITLE
from specviz.ui.watch.library_run import open_linked, show_library_run
from specviz.ui.watch.own_run import leave_own_run
from specviz.ui.watch.run_player import show_run_player
from specviz.ui.watch.sharing import show_downloads, show_share
from specviz.ui.watch.time_again import TIME_AGAIN, offer_time_again, time_again
from specviz.ui.widgets.body_boxes import show_body_boxes
from specviz.ui.widgets.pair_boxes import shown_pair
from specviz.ui.widgets.pair_panel import (
    active_spec,
    asked_by_run,
    has_chat,
    run_label,
    show_pair_panel,
)
from specviz.ui.widgets.plain_text import show_error
from specviz.ui.widgets.run_controls import (
    choose_run,
    refuse_empty,
    restart_is_asked,
    restart_is_settled,
)

require_shell()

history = session_history()
worker, tab = the_worker(), this_tab()
if worker.status().state in {"none", "failed"} and "woken" not in st.session_state:
    worker.prepare(active_spec(worker.status()))
st.session_state["woken"] = True
first_body = session_first_body()
first_body.settle(worker, worker.status())
status = worker.status()  # for the controls
shown = shown_pair()

chat = shown is not None and has_chat(status, shown)

with st.sidebar:
    choices = choose_run(has_chat=chat)
    show_body_boxes(worker, status)
    with st.expander("The pair", key="pair_panel", bind="query-params"):
        show_pair_panel(worker, status)
shown = shown_pair()  # the boxes of the pair are drawn by now


def begin_asked_run(*, pressed: bool, is_ready: bool) -> bool:
    """Begin the run that a press or a changed setting asks for, if any. Raises SpecvizError."""
    run, restarts = history.current, restart_is_asked() and is_ready
    restart_is_settled()
    if pressed or restarts:
        refuse_empty(choices.prompt)
        leave_own_run(history)
        spec = asked_by_run(shown)
        history.begin(first_body.submit(worker, tab.id, spec, choices.prompt, choices.config))
    elif take_press(TIME_AGAIN) and run is not None:
        leave_own_run(history)
        history.begin(time_again(worker, tab.id, run))
    else:
        return False
    return True


by_script = [True]


@st.fragment
def show_column() -> None:
    """All but the controls: a press of Run draws this alone, for drawing slows the decoder down.

    What was pressed is done before the stage is drawn, so that it is drawn once.
    """
    alone = not (by_script and by_script.pop())
    is_ready = run_label(worker.status(), shown) == "Run"
    settled = is_ready and not first_body.pending  # what is loaded is not changed by a run
    pressed = take_press("run")
    told_to_load = restart_is_asked() and not is_ready and not pressed
    failure, refused, begun = open_linked(history), None, False
    try:
        begun = begin_asked_run(pressed=pressed, is_ready=is_ready)
    except SpecvizError as problem:
        refused = problem
    if take_press("stop") and history.current is not None:
        history.current.stop()
    if alone and refused is None and not (begun and settled):
        st.rerun()
    run, status = history.current, worker.status()
    remember_tab(history)

    head = st.container(horizontal=True, vertical_alignment="center", key="head")
    with st.container():
        for error in (failure, first_body.error, refused):
            if error is not None:
                show_error(error)
        if told_to_load:
            st.info(
                "This pair is not loaded yet. Press the button above to load it and run these "
                "settings."
            )
        show_save_failure()
        show_library_run(history)
        if first_body.was_early(run):
            st.caption(EARLY_RUN)
    with st.container():
        tour = "force" if st.query_params.get("tour") == "1" else "ask"
        show_run_player(worker, status, history, choices.of_a_run, tour)

    with head:
        with st.container(key="title", gap=None):
            st.title(TITLE, anchor=False)
            st.caption(CAPTION)
        show_share(choices.prompt)
        offer_time_again(history)
        press_button("Stop", key="stop", disabled=run is None or run.finished)
        press_button(run_label(status, shown), key="run", type="primary")

    with st.container(horizontal=True, key="downloads"):
        show_downloads(history)


show_column()
