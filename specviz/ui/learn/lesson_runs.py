"""Where the runs of the lesson come from: the loaded pair (``LiveRuns``), or recordings."""

from __future__ import annotations

from typing import Protocol

import streamlit as st

from specviz.record.bodies import NO_BODY
from specviz.record.trace import Trace
from specviz.ui.learn.checks import Task, text_of
from specviz.ui.session.history import ShownRun
from specviz.ui.session.presses import press_button
from specviz.ui.watch.run_player import show_run_player
from specviz.ui.watch.stage import Stage
from specviz.ui.widgets.pair_boxes import TARGET_BODY, set_bodies
from specviz.ui.widgets.pair_panel import run_label
from specviz.ui.widgets.plain_text import as_text
from specviz.values import Value


class LessonRuns(Protocol):
    """The runs of the lesson in this tab."""

    @property
    def shown(self) -> ShownRun:
        """The run in the player."""
        ...

    def decoded(self, task: Task) -> list[ShownRun]:
        """Return the runs that count for the task's check, newest last."""
        ...

    @property
    def is_decoding(self) -> bool: ...

    @property
    def left_out(self) -> frozenset[str]:
        """The names of tasks that these runs cannot solve."""
        ...

    @property
    def none_yet(self) -> str:
        """The message while there is no run. If it is empty, the task's own message is shown."""
        ...

    @property
    def of_the_game(self) -> Trace | None:
        """The recorded run for the guessing game; None if the game makes a new run."""
        ...

    def offer_run(self, task: Task) -> None:
        """Draw the controls that make or choose a run for the task."""
        ...

    def show_player(self) -> None: ...


class LiveRuns(Value):
    """Runs of the loaded pair."""

    stage: Stage

    @property
    def shown(self) -> ShownRun:
        return self.stage.history.shown()

    def decoded(self, task: Task) -> list[ShownRun]:  # noqa: ARG002
        """Return the tab's decoded runs. The newest run's timing may be unfinished."""
        history = self.stage.history
        decoded = {run.id for run in history.runs if run.decoded}
        return [run for run in history.shown_runs() if run.id in decoded]

    @property
    def is_decoding(self) -> bool:
        run = self.stage.history.current
        return run is not None and not run.decoded

    @property
    def left_out(self) -> frozenset[str]:
        return frozenset()

    @property
    def none_yet(self) -> str:
        return ""

    @property
    def of_the_game(self) -> Trace | None:
        return None

    def offer_run(self, task: Task) -> None:
        words, stage = text_of("page"), self.stage
        press_button(run_label(stage.worker.status(), stage.shown), key="run", type="primary")
        if task.link:
            named = ", ".join(f"{words[name]} {value}" for name, value in task.link.items())
            label = f"{words['set']} {as_text(named)}"
            st.button(label, key="learn_set", on_click=_set_controls, args=(task.link,))

    def show_player(self) -> None:
        worker = self.stage.worker
        show_run_player(
            worker, worker.status(), self.stage.history, self.stage.choices.of_a_run, "never"
        )


def _set_controls(link: dict[str, str]) -> None:
    for name, value in link.items():
        if name == TARGET_BODY:
            set_bodies(value, NO_BODY)
        else:
            st.session_state[name] = float(value) if "." in value else int(value)
