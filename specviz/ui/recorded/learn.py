"""The page Learn for people who may not start runs: the lesson with recorded runs.

The checks treat a recorded run that the person has chosen like a run that the person made.
"""

from __future__ import annotations

import streamlit as st

from specviz.record.trace import Trace
from specviz.ui.learn.checks import Task, text_of
from specviz.ui.learn.lesson import show_lesson
from specviz.ui.recorded.player import show_recording
from specviz.ui.session.history import ShownRun
from specviz.ui.session.recordings import (
    GAME,
    Recording,
    available,
    opened_recording,
    recording_named,
)
from specviz.ui.widgets.page_parts import show_heading

_CHOICE, _CHOSEN = "learn_recording", "chosen recordings"
_NOT_RECORDED = frozenset({"same_warm", "trained"})  # tasks that no recordings solve
_SPECIAL = {"slower"}  # only for the tasks that name it: its γ is the largest, at another size
# Recordings that suit the steps; the first one is offered first.
_SUITED = {
    "drafting": ("gamma-3",),
    "one_pass": ("gamma-1", "gamma-8"),
    "rejection": ("warm",),
    "residual": ("warm",),
    "gamma": ("gamma-1", "gamma-3", "gamma-8"),
    "loses": ("slower",),
    "slower": ("slower",),
    "fall": ("hot",),
    "tau": ("lossy",),
    "all_stand": ("greedy-12", "gamma-8"),
    "same_greedy": ("greedy", "greedy-12"),
    "half_c": ("small-target",),
    "no_draft": ("lookup",),
    "depends": ("lossy",),
}


def show_learn() -> None:
    show_heading("Learn by doing", "A lesson of eight steps, a guessing game, and challenges.")
    show_lesson(RecordedRuns())


class RecordedRuns:
    """The recorded runs that the person has chosen in this tab, newest last."""

    @property
    def shown(self) -> ShownRun:
        return opened_recording(_chosen()[-1] if _chosen() else available()[0])

    def decoded(self, task: Task) -> list[ShownRun]:
        offered = _offered(task)
        return [opened_recording(each) for each in _chosen() if each in offered]

    @property
    def is_decoding(self) -> bool:
        return False

    @property
    def left_out(self) -> frozenset[str]:
        return _NOT_RECORDED

    @property
    def none_yet(self) -> str:
        return "" if _chosen() else text_of("page")["recorded_none"]

    @property
    def of_the_game(self) -> Trace | None:
        return opened_recording(recording_named(GAME) or available()[0]).trace

    def offer_run(self, task: Task) -> None:
        """Draw the list of recorded runs. Runs that suit the task come first."""
        names = {each.name: each for each in _offered(task)}
        words = text_of("page")
        st.selectbox(
            words["recorded_runs"], list(names), index=None, key=f"{_CHOICE}_{task.name}",
            format_func=lambda name: f"{names[name].words} · {names[name].prompt}",
            placeholder=words["recorded_choose"], on_change=_choose, args=(task.name,),
        )  # fmt: skip
        st.caption(words["recorded_task"])

    def show_player(self) -> None:
        show_recording(self.shown, "player")


def _offered(task: Task) -> list[Recording]:
    suited = [recording_named(name) for name in _SUITED.get(task.name, ())]
    first = [each for each in suited if each is not None]
    others = (each for each in available() if each not in first and each.name not in _SPECIAL)
    return [*first, *others]


def _chosen() -> list[Recording]:
    names: list[str] = st.session_state.get(_CHOSEN, [])
    found = (recording_named(name) for name in names)
    return [each for each in found if each is not None]


def _choose(task: str) -> None:
    name = st.session_state.get(f"{_CHOICE}_{task}")
    if recording_named(name) is None:
        return
    names: list[str] = st.session_state.get(_CHOSEN, [])
    st.session_state[_CHOSEN] = [*(each for each in names if each != name), name]
