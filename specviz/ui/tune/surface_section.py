"""Tune's advice, and its map of expected speedups by γ and temperature.

A cell of the map can be measured, or opened on Watch.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from specviz.access.roles import Action
from specviz.figures.speedup_words import is_too_wide, shown_speedup
from specviz.figures.step_cost_warnings import step_cost_warning
from specviz.record.numbers import RATIO
from specviz.tune.advice import (
    FOREIGN_TEXT_NOTE,
    advice,
    basis_text,
    confirmation,
    speedup_text,
)
from specviz.tune.answer import Answer, Candidate
from specviz.tune.confirming import CellsJob
from specviz.tune.measuring import Choice, MeasuredCell, best_cells, off_by
from specviz.tune.methods import same_method
from specviz.tune.surface import Cell
from specviz.tune.tune_job import TuneJob
from specviz.ui.session.history import session_history
from specviz.ui.session.person import the_person
from specviz.ui.tune.charts import RunPoint, speedup_over_gamma, surface_map
from specviz.ui.tune.current import follow, measure, measured_since, shown_cells
from specviz.ui.tune.opening import offer_watch
from specviz.ui.widgets.page_parts import Provenance, show_chart
from specviz.ui.widgets.plain_text import as_text

_MAP = "tune_map"


def show_advice(job: TuneJob) -> None:
    if job.answer.best is None and (job.error is not None or job.was_stopped):
        return  # the error or the stop is shown below
    show_advice_of(job.answer, given=job.given is not None)
    if job.given is None and (warning := _costs_warning(job.answer)):
        st.caption(f"▲ {warning}")


def show_advice_of(answer: Answer, *, given: bool) -> None:
    with st.container(border=True, key="tune_advice", gap="small"):
        first, _, rest = advice(answer).partition(". ")
        st.markdown(f"##### {as_text(first.removesuffix('.'))}.")
        if rest:
            st.markdown(as_text(rest))
        if not given and (outcome := confirmation(answer, measured_since(answer))):
            st.markdown(f":green-badge[measured] {as_text(outcome)}")
        st.caption(_basis(answer, given=given))


def _costs_warning(answer: Answer) -> str:
    """Return a warning if step costs at the answer's temperature are unreliable, else ""."""
    tables = [each.costs.get(answer.temperature) for each in answer.candidates]
    warning = next((text for each in tables if (text := step_cost_warning(each))), "")
    if not warning:
        return ""
    return as_text(f"{warning} Use “Measure step costs again” under “The pair” on an idle machine.")


def _basis(answer: Answer, *, given: bool) -> str:
    if not answer.candidates or not answer.candidates[0].texts:
        return ""
    if answer.best is not None and answer.best[1].basis == "measured":
        return (
            f":green-badge[measured] {answer.best[1].num_runs} short runs, each timed against the "
            "target alone along the same tokens. The 95 % interval covers the variation between "
            "runs."
        )
    texts = answer.candidates[0].texts
    count = len([each for each in texts if each.sampling.temperature == answer.temperature])
    own = bool(texts) and texts[0].own
    source = "that the target wrote" if own else "that you gave"
    what = f"{count} text{'' if count == 1 else 's'} {source}"
    costs = "the costs that you gave. " if given else "the :green-badge[measured] step costs. "
    basis = f":blue-badge[exact] Rounds are computed along {what}; times come from {costs}"
    if not own:
        return basis + FOREIGN_TEXT_NOTE
    costs_too = "" if given else " and the uncertainty of the costs"
    over = "between texts" if count >= 5 else "between parts of the text"
    return f"{basis}The 95 % intervals cover the variation {over}{costs_too}."


# Every γ


def show_surface(answer: Answer, *, given: bool) -> None:
    """Draw the map of expected speedups by γ and temperature, and details of the chosen cells.

    Args:
        given: Whether the user gave the costs of another machine; then no cell can be measured.
    """
    candidate = _choose_candidate(answer)
    if candidate is None:
        st.caption("No scored text yet, so there is no map.")
        return
    best = candidate.surface.best_at(answer.temperature)
    if best is not None and is_too_wide(best.low, best.high):
        st.caption("The speedups are too uncertain for a map.")
        chosen: list[Cell] = []
    else:
        chosen = chosen_cells(candidate)
        _show_charts(answer, candidate, given=given)
    _show_chosen(answer, candidate, chosen, given=given)


def _show_charts(answer: Answer, candidate: Candidate, *, given: bool) -> None:
    measuring = None if given else shown_cells(answer)
    measured = measuring.cells if measuring else ()
    runs = [*run_points(measured, candidate.label), *session_points(candidate)]
    marks: tuple[Provenance, ...] = ("exact",) if given else ("exact", "measured")
    with st.container(key="tune_maps"):
        left, right = st.columns([6, 5], gap="medium")
    with left:
        show_chart(
            surface_map(candidate.surface, runs, temperature=answer.temperature, ink=_ink()),
            f"{_map_title(candidate)} Blue is faster than the target alone, orange is slower. "
            "Click a cell to choose it, Shift-click to add more.",
            *marks, key=_MAP, on_select="rerun", selection_mode="points",
            alt="Map of the expected speedup at each γ and temperature",
        )  # fmt: skip
    with right:
        show_chart(
            speedup_over_gamma(candidate.surface, answer.temperature, runs),
            f"The chart is for temperature {answer.temperature:g}. The dotted line is the target "
            "alone.",
            *marks, key="tune_gammas",
            alt="Expected speedup at each γ, for the chosen temperature",
        )  # fmt: skip


def _map_title(candidate: Candidate) -> str:
    """Return a sentence on what the map shows: expected speedups, lower bounds, or measurements."""
    if candidate.runs:
        return "The map shows the speedup in short runs, at the chosen temperature."
    if candidate.form == "at least":
        return (
            "The map shows a lower bound of the speedup: the expected speedup of token-by-token "
            "verification."
        )
    return "The map shows the expected speedup."


def _ink() -> str:
    """Return the theme's text colour, for numbers on a coloured background."""
    return "#e8eaed" if st.context.theme.type == "dark" else "#1c1f24"


def _choose_candidate(answer: Answer) -> Candidate | None:
    """Let the user choose a draft or method, and return the choice. The default is the best one."""
    known = [each for each in answer.candidates if each.surface.cells]
    if len(known) < 2:
        return known[0] if known else None
    labels = [each.label for each in known]
    best = answer.best[0].label if answer.best else labels[0]
    label = st.segmented_control(
        "Candidate", labels, default=best, key="tune_candidate", label_visibility="collapsed",
        format_func=as_text, required=True,
    )  # fmt: skip
    return next((each for each in known if each.label == label), known[0])


def chosen_cells(candidate: Candidate) -> list[Cell]:
    """Return the cells (γ and temperature) that are selected on the map."""
    state = st.session_state.get(_MAP) or {}
    points = (state.get("selection") or {}).get("points") or []
    found = list[Cell]()
    for each in points:
        data = each.get("customdata") or ()
        if len(data) == 2 and (cell := candidate.surface.cell(int(data[0]), float(data[1]))):
            found.append(cell)
    return found


def _show_chosen(
    answer: Answer, candidate: Candidate, chosen: Sequence[Cell], *, given: bool
) -> None:
    best = answer.best
    cells = list(chosen) or ([best[1]] if best and best[0] is candidate else [])
    if not cells:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="tune_chosen"):
        first = cells[0]
        st.markdown(
            f"**γ {first.gamma}, temperature {first.temperature:g}:** {speedup_text(first)}"
            + ("" if first.basis == "expected" else f" ({basis_text(candidate, first)})"),
            width="content",
        )
        offer_watch(answer, candidate, first, key="tune_watch")
        if answer.question.text is None and not given and the_person().may(Action.MEASURE):
            _offer_measuring(answer, candidate, cells if chosen else [])
    if not given and (measuring := shown_cells(answer)) is not None:
        show_measured(measuring)


def _offer_measuring(answer: Answer, candidate: Candidate, cells: Sequence[Cell]) -> None:
    if cells:
        label = "Measure it" if len(cells) == 1 else f"Measure these {len(cells)}"
        choices: Sequence[Choice] = [(candidate, each) for each in cells]
    else:
        label, choices = "Measure the best cell of each temperature", best_cells(answer)
    st.button(
        label, key="tune_measure", on_click=measure, args=(choices, answer.question.items),
        disabled=not choices,
    )  # fmt: skip


def show_measured(job: CellsJob) -> None:
    """Show the progress of measuring cells, and a table of expected and measured speedups."""
    follow(job, lambda: measured_table(job.cells))


def measured_table(cells: Sequence[MeasuredCell]) -> None:
    if not cells:
        return
    frame = pd.DataFrame.from_dict(
        {
            "setting": [f"γ {each.gamma}, T {each.temperature:g}" for each in cells],
            "candidate": [as_text(each.label) for each in cells],
            "expected": [RATIO.shown(each.expected) for each in cells],
            "measured": [shown_speedup(each.speedup, each.low, each.high) for each in cells],
            "off by": [off_by(each) for each in cells],
            "runs": [str(each.count) for each in cells],
        }
    )
    st.table(frame, border="horizontal", hide_index=True)
    st.caption(
        ":green-badge[measured] Runs with these settings on the prompts above. The interval covers "
        "the variation between prompts or, with a single prompt, between its repeats. The "
        "expected values were computed before the runs."
    )


def session_points(candidate: Candidate) -> list[RunPoint]:
    """Return the session's timed runs with this candidate's models and method, as chart points."""
    return [
        RunPoint(
            label="a run of this session", gamma=each.trace.config.gamma,
            temperature=each.trace.config.temperature, speedup=each.figures.speedup_observed,
            low=each.figures.speedup_low, high=each.figures.speedup_high,
        )
        for each in session_history().shown_runs()
        if each.trace.pair == candidate.info
        and same_method(each.trace.config, candidate.config)
        and each.trace.config.chat == candidate.config.chat
        and each.figures.speedup_observed is not None
    ]  # fmt: skip


def run_points(measured: Sequence[MeasuredCell], label: str) -> list[RunPoint]:
    return [
        RunPoint(
            label=f"γ {each.gamma}, T {each.temperature:g}", gamma=each.gamma,
            temperature=each.temperature, speedup=each.speedup, low=each.low, high=each.high,
        )
        for each in measured
        if each.speedup is not None and each.label == label
    ]  # fmt: skip
