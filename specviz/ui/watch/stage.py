"""What Watch and the lesson share: the choice of the pair, the sidebar, and the start of a run."""

from __future__ import annotations

import streamlit as st

from specviz.access.roles import Action
from specviz.record.drafters import MODEL
from specviz.record.pairs import PairSpec
from specviz.ui.session.history import History, session_history
from specviz.ui.session.person import may, require
from specviz.ui.session.presses import is_pressed, take_press
from specviz.ui.session.worker import the_worker, this_tab
from specviz.ui.watch.conversation import asked_of, show_conversation
from specviz.ui.watch.first_body import FirstBody, session_first_body
from specviz.ui.watch.run_without_body import leave_run_without_body
from specviz.ui.watch.time_again import TIME_AGAIN, time_again
from specviz.ui.widgets.body_boxes import show_body_boxes
from specviz.ui.widgets.pair_boxes import shown_pair
from specviz.ui.widgets.pair_panel import (
    active_spec,
    has_chat,
    num_layers,
    pair_for_run,
    run_label,
    show_pair_panel,
)
from specviz.ui.widgets.run_controls import (
    Choices,
    choose_run,
    clear_restart,
    refuse_empty,
    restart_requested,
)
from specviz.values import Value
from specviz.worker.parent.client import Worker


class Stage(Value):
    worker: Worker
    tab: str
    history: History
    first_body: FirstBody
    choices: Choices
    shown: PairSpec | None

    @property
    def is_ready(self) -> bool:
        return run_label(self.worker.status(), self.shown) == "Run"

    def begin_requested_run(self, *, pressed: bool) -> bool:
        """Begin a run if a pressed button or a changed setting requests it.

        Return whether a run began.

        Raises:
            SpecvizError: If the prompt is empty, or the person or the pair is refused.
        """
        history, worker, run = self.history, self.worker, self.history.current
        restarts = restart_requested() and self.is_ready
        clear_restart()
        if pressed or restarts:
            require(Action.RUN)
            refuse_empty(self.choices.prompt)
            asked = asked_of(self.choices)
            leave_run_without_body(history)
            spec = pair_for_run(self.shown)
            made = self.first_body.submit(worker, self.tab, spec, asked, self.choices)
            history.begin(made)
        elif take_press(TIME_AGAIN) and run is not None:
            leave_run_without_body(history)
            history.begin(time_again(worker, self.tab, run))
        else:
            return False
        return True


def open_stage() -> Stage:
    """Start loading the pair, draw the sidebar, and return what a page needs to start runs."""
    history = session_history()
    worker, tab = the_worker(), this_tab()
    if worker.status().state in {"none", "failed"} and "woken" not in st.session_state:
        worker.prepare(active_spec(worker.status()))
    st.session_state["woken"] = True
    first_body = session_first_body()
    if may(Action.LOAD):
        first_body.settle(worker, worker.status())
    status, shown = worker.status(), shown_pair()  # again, because ``settle`` may have changed both
    with st.sidebar:
        choices = choose_run(
            has_chat=shown is not None and has_chat(status, shown),
            draft=MODEL if shown is None else shown.draft_kind,
            layers=num_layers(shown) if shown is not None else None,
        )
        show_conversation(choices, history)
        if choices.prompt.strip() and (is_pressed("run") or restart_requested()):
            first_body.use()  # before the sliders are drawn, because it sets them
        show_body_boxes(worker, status, first_body.offered, loading=first_body.loading)
        with st.expander("The pair", key="pair_panel", bind="query-params"):
            show_pair_panel(worker, status)
    return Stage(
        worker=worker, tab=tab.id, history=history, first_body=first_body, choices=choices,
        shown=shown_pair(),  # again, because the pair's boxes may have changed it
    )  # fmt: skip
