"""The Learn page: the open step, its check, and the progress that the browser stores."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import streamlit as st
from streamlit.components.v2 import component

from specviz import ASSETS
from specviz.player.script_modules import component_script
from specviz.record.bodies import NO_BODY
from specviz.theory.speed import expected_tokens, speedup
from specviz.ui.learn.challenges import CHALLENGES
from specviz.ui.learn.checks import Attempt, Task, text_of
from specviz.ui.learn.drawn_tokens import DrawnTokens, chart, drawn_tokens
from specviz.ui.learn.guess import show_guess
from specviz.ui.learn.steps import STEPS, costs_of
from specviz.ui.session.history import ShownRun
from specviz.ui.session.presses import press_button
from specviz.ui.watch.run_player import show_run_player
from specviz.ui.watch.stage import Stage
from specviz.ui.widgets.page_parts import show_chart
from specviz.ui.widgets.pair_boxes import TARGET_BODY, set_bodies
from specviz.ui.widgets.pair_panel import run_label
from specviz.ui.widgets.plain_text import as_text

_DONE, _DRAWS = "learn done", "learn draws"
_SCRIPT = component_script(ASSETS, "learn/progress.js")
_mount = component("specviz_progress", js=_SCRIPT, isolate_styles=False)


def show_lesson(stage: Stage) -> None:
    """Draw the chosen part of the page: the game, or a step or challenge with the player.

    Call it after starting the run that the Run button or a changed setting requests.
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
        st.session_state[_DONE] |= {"streak"} if show_guess() >= 5 else set()
        return
    tasks = {task.name: task for task in parts[part]}
    _begin_with("step", list(tasks))
    name = st.pills(
        words["task"], list(tasks), key="step", required=True, label_visibility="collapsed",
        format_func=lambda each: _title(tasks, each, part, done),
    )  # fmt: skip
    st.query_params["step"] = name = name or next(iter(tasks))
    with st.container(border=True, key="learn_task"):
        _show_task(stage, tasks[name], part)
    history, worker = stage.history, stage.worker
    with st.container(horizontal=True):
        for label, name in (("notes", "teaching.md"), ("handout", "handout.html")):
            file = (ASSETS / "docs" / name).read_text("utf-8")
            st.download_button(words[label], file, name, type="tertiary", on_click="ignore")
    show_run_player(worker, worker.status(), history, stage.choices.of_a_run, "never")


def _progress() -> set[str]:
    """Return the names of solved tasks, including tasks that the browser stored as solved."""
    done: set[str] = st.session_state.setdefault(_DONE, set())
    kept = _mount(key="progress", data={"done": sorted(done)}, on_kept_change=lambda: None).kept
    done.update(each for each in kept or [] if isinstance(each, str))
    return done


def _begin_with(key: str, options: list[str]) -> None:
    """Initialise a widget from the link, or with its first option."""
    if st.session_state.get(key) not in options:
        wanted = st.query_params.get(key)
        st.session_state[key] = wanted if wanted in options else options[0]


def _title(tasks: dict[str, Task], name: str, folder: str, done: set[str]) -> str:
    mark = "✓ " if name in done else ""
    number = list(tasks).index(name) + 1
    return f"{mark}{number}. {text_of(f'{folder}/{name}')['title']}"


def _show_task(stage: Stage, task: Task, folder: str) -> None:
    """Draw a task, its question, and the result of its check; store a newly solved task."""
    text, words = text_of(f"{folder}/{task.name}"), text_of("page")
    level = f"{words['level']} {task.level}: " if task.level else ""
    st.markdown(f"### {level}{text['title']}")
    if "why" in text:
        st.markdown(text["why"])
    st.markdown(f"**{words['do']}** {text['do']}")
    with st.container(horizontal=True, vertical_alignment="center"):
        status = stage.worker.status()
        press_button(run_label(status, stage.shown), key="run", type="primary")
        if task.link:
            named = ", ".join(f"{words[name]} {value}" for name, value in task.link.items())
            label = f"{words['set']} {as_text(named)}"
            st.button(label, key="learn_set", on_click=_set_controls, args=(task.link,))
    made = stage.history.shown_runs()
    runs = [run for run in made if not run.growing]
    answer, draws = _ask(task, text, runs)
    result = task.check(Attempt(runs=runs, answer=answer, draws=draws))
    if result.done and task.name not in st.session_state[_DONE]:
        st.session_state[_DONE].add(task.name)
        st.rerun()  # updates the list above and stores the progress
    numbers = {name: as_text(each) for name, each in result.numbers.items()}
    if len(runs) < len(made) and not result.done:
        st.info(words["waits"])
    else:
        (st.success if result.done else st.info)(text["said"][result.name].format(**numbers))
    following = [after.name for task_, after in pairwise((*STEPS, *CHALLENGES)) if task_ is task]
    if result.done and following:
        st.button(words["next"], key="learn_next", on_click=_go_to, args=(following[0],))
    with st.expander(words["hint"], key=f"hint_{task.name}"):
        st.markdown(text["hint"])


def _set_controls(link: dict[str, str]) -> None:
    for name, value in link.items():
        if name == TARGET_BODY:
            set_bodies(value, NO_BODY)
        else:
            st.session_state[name] = float(value) if "." in value else int(value)


def _go_to(name: str) -> None:
    st.session_state["learn"] = "challenges" if name in {e.name for e in CHALLENGES} else "steps"
    st.session_state["step"] = name


def _ask(task: Task, text: dict[str, Any], runs: Sequence[ShownRun]) -> tuple[object, int]:
    """Draw the task's question; return the answer, and the number of tokens drawn."""
    key, costs = f"answer_{task.name}", costs_of(Attempt(runs=runs))
    draws = _draw_tokens(runs) if task.asks == "draws" else 0
    if task.asks == "number":
        return st.number_input(text["asks"], 0.0, 100.0, None, step=None, key=key), 0
    if task.asks == "costs" and costs is not None:
        c = st.slider(text["asks"], 0.0, 1.0, 0.1, 0.01, key=key)
        alpha, gamma, v = costs
        st.caption(text["formula"].format(
            alpha=f"{alpha:.2f}", gamma=gamma, v=f"{v:.2f}", c=f"{c:.2f}",
            tau=f"{expected_tokens(alpha, gamma):.2f}",
            speed=f"{speedup(alpha, gamma, c, v):.2f}",
        ))  # fmt: skip
        return c, 0
    if "choices" not in text:
        return None, 0
    names: dict[str, str] = text["choices"]
    return st.radio(
        text["asks"], names, index=None, format_func=lambda each: names[each], key=key
    ), draws


def _draw_tokens(runs: Sequence[ShownRun]) -> int:
    words = text_of("page")
    found: DrawnTokens | None = st.session_state.get(_DRAWS)
    if runs and (found is None or found.run != runs[-1].id):
        found = st.session_state[_DRAWS] = drawn_tokens(runs[-1].id, runs[-1].trace)
    if found is None:
        st.caption(words["no_run"])
        return 0
    going = st.toggle(words["draw"], key="learn_drawing")

    @st.fragment(run_every=0.5 if going and found.draws < 20_000 else None)
    def grow() -> None:
        before = found.draws
        if going:
            found.draw(np.random.default_rng([7, found.draws]))
        note = words["draws"].format(count=f"{found.draws:,}")
        show_chart(chart(found), note, "simulated", key="drawn_tokens")
        if before < 2_000 <= found.draws or found.draws >= 20_000 > before:
            st.rerun()

    grow()
    return found.draws
