"""The page Learn: the chosen task beside the player, and the progress that the browser stores."""

from __future__ import annotations

import streamlit as st
from streamlit.components.v2 import component

from specviz import ASSETS
from specviz.player.script_modules import component_script
from specviz.ui.downloads import download_button
from specviz.ui.learn.challenges import CHALLENGES
from specviz.ui.learn.checks import Task, text_of
from specviz.ui.learn.guess import show_guess
from specviz.ui.learn.lesson_runs import LessonRuns
from specviz.ui.learn.shown_task import show_task
from specviz.ui.learn.steps import STEPS

_DONE = "learn done"
_SCRIPT = component_script(ASSETS, "learn/progress.js")
_mount = component("specviz_progress", js=_SCRIPT, isolate_styles=False)


def show_lesson(runs: LessonRuns) -> None:
    """Draw the chosen part of the page: the game, or a step or challenge with the player.

    If the Run button was pressed or a setting has changed, the caller must already have started the
    new run.
    """
    words, done = text_of("page"), _progress()
    parts = {"steps": STEPS, "guess": (), "challenges": CHALLENGES}
    _begin_with("learn", list(parts))
    part = st.segmented_control(
        words["part"], list(parts), format_func=lambda each: words[each], key="learn",
        required=True, label_visibility="collapsed",
    )  # fmt: skip
    st.query_params["learn"] = part = part or "steps"
    if part == "guess":
        done |= {"streak"} if show_guess(runs.of_the_game) >= 5 else set()
        return
    tasks = {task.name: task for task in parts[part] if task.name not in runs.left_out}
    _begin_with("step", list(tasks))
    name = st.pills(
        words["task"], list(tasks), key="step", required=True, label_visibility="collapsed",
        format_func=lambda each: _title(tasks, each, part, done),
    )  # fmt: skip
    st.query_params["step"] = name = name or next(iter(tasks))
    with st.container(horizontal=True, key="learn_sides"):
        with st.container(border=True, key="learn_task"):
            show_task(runs, tasks[name], part, done)
        with st.container(key="learn_player"):
            runs.show_player()
    _show_downloads()


def _show_downloads() -> None:
    words = text_of("page")
    with st.container(horizontal=True):
        for label, name in (("notes", "teaching.md"), ("handout", "handout.html")):
            file = (ASSETS / "docs" / name).read_text("utf-8")
            download_button(words[label], file, name, type="tertiary")


def _progress() -> set[str]:
    """Return the names of the solved tasks, including tasks that the browser stored as solved."""
    done: set[str] = st.session_state.setdefault(_DONE, set())
    kept = _mount(key="progress", data={"done": sorted(done)}, on_kept_change=lambda: None).kept
    done.update(each for each in kept or [] if isinstance(each, str))
    return done


def _begin_with(key: str, options: list[str]) -> None:
    """Initialise a widget with the link's option. If the link has none, use the first option."""
    if st.session_state.get(key) not in options:
        wanted = st.query_params.get(key)
        st.session_state[key] = wanted if wanted in options else options[0]


def _title(tasks: dict[str, Task], name: str, folder: str, done: set[str]) -> str:
    mark = "✓ " if name in done else ""
    number = list(tasks).index(name) + 1
    return f"{mark}{number}. {text_of(f'{folder}/{name}')['title']}"
