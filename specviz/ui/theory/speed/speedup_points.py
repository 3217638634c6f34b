"""Measured speedups as points on a chart, and the details of the chosen point.

A point is a row of a paper's table (reported) or a run of this session (measured). A session
without runs shows the recorded run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from specviz.access.roles import Action
from specviz.figures.catalogue import CATALOGUE, titled
from specviz.figures.formulas import timed_interval
from specviz.record.run_config import method_words
from specviz.theory.papers import (
    CHINCHILLA,
    CHINCHILLA_DRAFT_MS,
    CHINCHILLA_GAMMA,
    CHINCHILLA_SOURCE,
    CHINCHILLA_TARGET_MS,
    LEVIATHAN,
    LEVIATHAN_SOURCE,
)
from specviz.theory.speed import alpha_for_speedup
from specviz.ui.session.history import RECORDED, History, ShownRun, recorded_run
from specviz.ui.session.person import the_person
from specviz.ui.theory.speed.charts import SpeedupPoint
from specviz.ui.widgets.plain_text import as_text

SHOWN = (
    "alpha_expected", "alpha_observed", "c", "v", "tau", "speedup_ideal", "speedup_accounted",
    "speedup_observed",
)  # fmt: skip
_CHINCHILLA_C = CHINCHILLA_DRAFT_MS / CHINCHILLA_TARGET_MS


@st.cache_data(show_spinner=False)
def leviathan_points() -> list[SpeedupPoint]:
    return [
        SpeedupPoint(
            label=row.label,
            alpha=row.alpha,
            c=row.c,
            speedup=row.measured,
            run_id=f"leviathan-{index}",
            expected=row.expected,
        )
        for index, row in enumerate(LEVIATHAN)
    ]


@st.cache_data(show_spinner=False)
def chinchilla_points() -> list[SpeedupPoint]:
    """Return the speedups of the Chinchilla paper. Their alphas are computed, not reported."""
    return [
        SpeedupPoint(
            label=f"Chinchilla, {row.task}",
            alpha=alpha_for_speedup(row.speedup, _CHINCHILLA_C, gamma=CHINCHILLA_GAMMA) or 1.0,
            c=_CHINCHILLA_C,
            speedup=row.speedup,
            run_id=f"chinchilla-{index}",
        )
        for index, row in enumerate(CHINCHILLA)
    ]


def session_runs(history: History) -> list[ShownRun]:
    """Return the session's runs, newest last, or the recorded run if there are none."""
    return history.shown_runs() or [recorded_run()]


def run_name(shown: ShownRun) -> str:
    config = shown.trace.config
    name = "recorded run" if shown.id == RECORDED else f"run {shown.id[:6]}"
    method = "".join(f", {words}" for words in method_words(config))
    return f"{name}: γ {config.gamma}, temperature {config.temperature:g}{method}"


def run_points(runs: Sequence[ShownRun]) -> list[SpeedupPoint]:
    """Return points for the runs whose alpha, c and speedup are known."""
    points: list[SpeedupPoint] = []
    for shown in runs:
        alpha, c, observed = shown.figures.alpha, shown.figures.c, shown.figures.speedup_observed
        if alpha is not None and c is not None and observed is not None:
            points.append(
                SpeedupPoint(
                    label=run_name(shown), alpha=alpha, c=c, speedup=observed, run_id=shown.id
                )
            )
    return points


def show_point(point: str | None, runs: Sequence[ShownRun]) -> None:
    """Show the details of a point: the row of a paper, or a run."""
    if point is None:
        st.caption("Choose a point, or click one on the chart, to see its figures.")
    elif point.startswith("leviathan-"):
        row = LEVIATHAN[int(point.removeprefix("leviathan-"))]
        _show_values(
            {"α": row.alpha, "c": row.c, "γ": row.gamma, "expected": row.expected,
             "measured": row.measured},
            f":gray-badge[reported] {LEVIATHAN_SOURCE}: {row.label}, target T5-XXL.",
        )  # fmt: skip
    elif point.startswith("chinchilla-"):
        index = int(point.removeprefix("chinchilla-"))
        row = CHINCHILLA[index]
        _show_values(
            {"α, implied": chinchilla_points()[index].alpha, "c": _CHINCHILLA_C,
             "γ": CHINCHILLA_GAMMA, "ms per token": row.milliseconds, "measured": row.speedup},
            f":gray-badge[reported] {CHINCHILLA_SOURCE}: {row.task}, 70B target, 4B draft. "
            "The paper reports no α; here α is computed from the speedup by the formula.",
        )  # fmt: skip
    else:
        _show_run(next(each for each in runs if each.id == point))


def _show_run(shown: ShownRun) -> None:
    figures, config = shown.figures, shown.trace.config
    st.caption(f":green-badge[measured] {as_text(run_name(shown))}.")
    with st.container(horizontal=True):
        for each in (CATALOGUE[name] for name in SHOWN):
            if each.of(figures) is not None:
                label, text = titled(each.label), each.help(figures)
                st.metric(label, each.shown(figures), width=160, help=text)
    if interval := timed_interval(figures):
        st.caption(f"Observed speedup on this text and machine: {interval}.")
    if not the_person().may(Action.RUN):
        return
    st.page_link(
        "pages/watch.py",
        label="Open Watch with these settings",
        query_params={"gamma": str(config.gamma), "temperature": f"{config.temperature:g}"},
    )


def _show_values(values: Mapping[str, float | None], caption: str) -> None:
    st.caption(caption)
    with st.container(horizontal=True):
        for name, value in values.items():
            if value is not None:
                shown = f"{value}" if isinstance(value, int) else f"{value:.3g}"
                st.metric(name, shown, width=120)
