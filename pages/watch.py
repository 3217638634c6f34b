"""Watch: speculative decoding of a loaded pair, round by round and token by token."""

import streamlit as st

from specviz.errors import SpecvizError
from specviz.ui.session.history import remember_tab, session_history
from specviz.ui.session.presses import is_pressed, press_button, take_press
from specviz.ui.session.run_saving import show_save_failure
from specviz.ui.shell import require_shell
from specviz.ui.watch.first_stage import CAPTION, TITLE
from specviz.ui.watch.library_run import open_linked_run, show_library_run
from specviz.ui.watch.run_player import show_run_player
from specviz.ui.watch.sharing import show_downloads, show_share
from specviz.ui.watch.stage import open_stage
from specviz.ui.watch.time_again import offer_time_again
from specviz.ui.widgets.page_parts import page_head, show_heading
from specviz.ui.widgets.pair_panel import run_label
from specviz.ui.widgets.plain_text import show_error
from specviz.ui.widgets.run_controls import restart_requested

require_shell()

failure = open_linked_run(session_history())  # before the controls, which show the run's sizes
stage = open_stage()
by_script = [True]


@st.fragment
def show_column() -> None:
    """Draw the page except for the controls in the sidebar.

    A press of Run redraws only this fragment, because drawing slows the decoder down. Presses are
    handled first, so that the player is drawn only once.
    """
    worker, history, choices = stage.worker, stage.history, stage.choices
    alone = not (by_script and by_script.pop())
    if alone and stage.first_body.ready is not None and is_pressed("run"):
        st.rerun()  # the sliders show the default body before its run begins
    is_ready = stage.is_ready
    settled = is_ready and not stage.first_body.pending  # a run does not change the loaded pair
    pressed = take_press("run")
    must_load_first = restart_requested() and not is_ready and not pressed
    refused, begun = None, False
    try:
        begun = stage.begin_requested_run(pressed=pressed)
    except SpecvizError as problem:
        refused = problem
    if take_press("stop") and history.current is not None:
        history.current.stop()
    if alone and refused is None and not (begun and settled):
        st.rerun()
    run, status = history.current, worker.status()
    remember_tab(history)

    # Draw the heading before the player: the browser removes the first view once it has the player.
    with page_head():
        show_heading(TITLE, CAPTION)
        show_share(choices.prompt)
        offer_time_again(history)
        press_button("Stop", key="stop", disabled=run is None or run.finished)
        press_button(run_label(status, stage.shown), key="run", type="primary")
    with st.container():
        for error in (None if alone else failure, stage.first_body.error, refused):
            if error is not None:
                show_error(error)
        if must_load_first:
            st.info(
                "This pair is not loaded yet. Press the button above to load it and run with these "
                "settings."
            )
        show_save_failure()
        show_library_run(history)
    with st.container():
        tour = "force" if st.query_params.get("tour") == "1" else "ask"
        show_run_player(worker, status, history, choices.of_a_run, tour)

    with st.container(horizontal=True, key="downloads"):
        show_downloads(history)


show_column()
