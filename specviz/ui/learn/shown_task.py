"""One task of the lesson: its picture, its texts, its question, and the result of its check."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import streamlit as st

from specviz.theory.speed import expected_tokens, speedup
from specviz.ui.learn.challenges import CHALLENGES
from specviz.ui.learn.checks import Attempt, CheckResult, Task, text_of
from specviz.ui.learn.lesson_runs import LessonRuns
from specviz.ui.learn.pictures import picture_of, show_picture
from specviz.ui.learn.position_bars import DRAWING, draws, show_position
from specviz.ui.learn.steps import STEPS, costs_of
from specviz.ui.session.history import ShownRun
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.widgets.plain_text import as_text
from specviz.ui.widgets.symbols import show_sentence

_WITH_BARS = ("rejection", "residual")


def show_task(runs: LessonRuns, task: Task, folder: str, done: set[str]) -> None:
    """Draw a task. If its check succeeds, add the task to ``done``."""
    words, text = text_of("page"), text_of(f"{folder}/{task.name}")
    level = f"{words['level']} {task.level}: " if task.level else ""
    st.markdown(f"### {level}{text['title']}")
    with st.container(horizontal=True, key="learn_explained"):
        if "picture" in text:
            with st.container(key="learn_picture"):
                _show_picture(runs.shown, task.name)
        with st.container(key="learn_words"):
            _show_words(runs, task, text, done)


def _show_picture(run: ShownRun, step: str) -> None:
    """Draw a step's picture with the values of the run in the player."""
    if step in _WITH_BARS:
        show_position(run, step)
    elif picture := picture_of(step, run, st.session_state.get(_answer_key(step))):
        show_picture(picture, key=f"picture_{step}")


def _show_words(source: LessonRuns, task: Task, text: dict[str, Any], done: set[str]) -> None:
    words, runs = text_of("page"), source.decoded(task)
    if "why" in text:
        show_sentence(text["why"])
    st.markdown(f"**{words['do']}** {text['do']}")
    with st.container(horizontal=True, vertical_alignment="center"):
        source.offer_run(task)
    answer = _ask(task, text, runs)
    result = task.check(Attempt(runs=runs, answer=answer, draws=draws()))
    if result.done and task.name not in done:
        done.add(task.name)
        st.rerun()  # updates the list above and stores the progress
    _show_result(result, text, source)
    tasks = [each for each in (*STEPS, *CHALLENGES) if each.name not in source.left_out]
    following = [after.name for before, after in pairwise(tasks) if before is task]
    if result.done and following:
        st.button(words["next"], key="learn_next", on_click=_go_to, args=(following[0],))
    with st.expander(words["hint"], key=f"hint_{task.name}"):
        st.markdown(text["hint"])


def _show_result(result: CheckResult, text: dict[str, Any], source: LessonRuns) -> None:
    """Draw the result of the check. If the task is unsolved and a run is decoding, draw a note."""

    def is_decoding() -> bool:
        return source.is_decoding

    def draw(decoding: bool) -> None:
        if decoding and not result.done:
            st.info(text_of("page")["waits"])
            return
        numbers = {name: as_text(each) for name, each in result.numbers.items()}
        waits = "" if result.done else source.none_yet
        message = waits or text["said"][result.name].format(**numbers)
        (st.success if result.done else st.info)(message)

    redraw_while_busy(is_decoding(), is_decoding, bool, draw, seconds=0.5)


def _go_to(name: str) -> None:
    st.session_state["learn"] = "challenges" if name in {e.name for e in CHALLENGES} else "steps"
    st.session_state["step"] = name


def _answer_key(name: str) -> str:
    return f"answer_{name}"


def _ask(task: Task, text: dict[str, Any], runs: Sequence[ShownRun]) -> object:
    """Draw the task's question and return the answer."""
    key, costs = _answer_key(task.name), costs_of(Attempt(runs=runs))
    if task.asks == "number":
        return st.number_input(text["asks"], 0.0, 100.0, None, step=None, key=key)
    if task.asks == "costs" and costs is not None:
        c = st.slider(text["asks"], 0.0, 1.0, 0.1, 0.01, key=key)
        alpha, gamma, v = costs
        st.caption(text["formula"].format(
            alpha=f"{alpha:.2f}", gamma=gamma, v=f"{v:.2f}", c=f"{c:.2f}",
            tau=f"{expected_tokens(alpha, gamma):.2f}",
            speed=f"{speedup(alpha, gamma, c, v):.2f}",
        ))  # fmt: skip
        return c
    if task.asks == "draws":
        st.toggle(text_of("page")["draw"], key=DRAWING)
    if "choices" not in text:
        return None
    names: dict[str, str] = text["choices"]
    return st.radio(text["asks"], names, index=None, format_func=lambda each: names[each], key=key)
