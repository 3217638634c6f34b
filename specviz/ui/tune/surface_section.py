"""The advice, and every γ and temperature; chosen cells are watched, or measured."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from specviz.figures.step_cost_warnings import step_cost_warning
from specviz.record.numbers import RATIO
from specviz.tune.advice import NOT_ITS_OWN, advice, cell_words, how_found
from specviz.tune.answer import Answer, Candidate
from specviz.tune.confirming import CellsJob
from specviz.tune.measuring import Choice, MeasuredCell, best_cells, off_by
from specviz.tune.methods import same_method
from specviz.tune.surface import Cell
from specviz.tune.tune_job import TuneJob
from specviz.ui.session.history import session_history
from specviz.ui.tune.charts import RunPoint, speedup_over_gamma, surface_map
from specviz.ui.tune.current import follow, measure, shown
from specviz.ui.tune.opening import offer_watch
from specviz.ui.widgets.page_parts import Provenance, show_chart
from specviz.ui.widgets.plain_text import as_text

_MAP = "tune_map"


def show_advice(work: TuneJob) -> None:
    answer = work.answer
    if answer.best is None and (work.error is not None or work.was_stopped):
        return  # why there is none is told below
    with st.container(border=True, key="tune_advice", gap="small"):
        first, _, rest = advice(answer).partition(". ")
        st.markdown(f"##### {as_text(first.removesuffix('.'))}.")
        if rest:
            st.markdown(as_text(rest))
        st.caption(_basis(answer, given=work.given is not None))
        if work.given is None and (warning := _costs_warning(answer)):
            st.caption(f"▲ {warning}")


def _costs_warning(answer: Answer) -> str:
    """Where the step costs at the temperature asked about are not to be trusted."""
    tables = [each.costs.get(answer.temperature) for each in answer.candidates]
    warning = next((said for each in tables if (said := step_cost_warning(each))), "")
    if not warning:
        return ""
    return as_text(f"{warning} Measure them again at rest: The pair, Measure step costs again.")


def _basis(answer: Answer, *, given: bool) -> str:
    if not answer.candidates or not answer.candidates[0].texts:
        return ""
    if answer.best is not None and answer.best[1].basis == "measured":
        return (
            f":green-badge[measured] {answer.best[1].num_runs} short runs, each timed against the "
            "target alone along its own words. 95 % interval over the runs."
        )
    texts = answer.candidates[0].texts
    count = len([each for each in texts if each.law.temperature == answer.temperature])
    own = bool(texts) and texts[0].own
    what = "text that the target wrote" if own else "text that was given"
    if count != 1:
        what = what.replace("text that", "texts that")
    costs = "and the costs that were given. " if given else ":green-badge[measured] step costs. "
    told = f":blue-badge[exact] rounds along {count} {what}, {costs}"
    if not own:
        return told + NOT_ITS_OWN
    over = "over the texts" if count >= 5 else "over stretches of the text"
    return f"{told}95 % intervals {over}{'' if given else ' and of the costs'}."


# Every γ


def show_surface(answer: Answer, measured: Sequence[MeasuredCell], *, given: bool) -> None:
    """``given``: by costs that are not this machine's, so that nothing can be measured here."""
    candidate = _choose_candidate(answer)
    if candidate is None:
        st.caption("Nothing has been scored that a map could be made of.")
        return
    runs = [*run_points(measured, candidate.label), *session_points(candidate)]
    chosen = chosen_cells(candidate)
    marks: tuple[Provenance, ...] = ("exact",) if given else ("exact", "measured")
    with st.container(key="tune_maps"):
        left, right = st.columns([9, 5], gap="medium")
    with left, st.container(key="tune_map_box"):
        show_chart(
            surface_map(candidate.surface, runs, ink=_ink()),
            f"{_what(candidate)} Green is faster than the target alone, orange slower; press a "
            "cell to choose it, with Shift further ones.",
            *marks, key=_MAP, on_select="rerun", selection_mode="points",
            alt="Map of the expected speedup over γ and temperature",
        )  # fmt: skip
    with right:
        show_chart(
            speedup_over_gamma(candidate.surface, answer.temperature, runs),
            f"At temperature {answer.temperature:g}. Dotted: the target alone.",
            *marks, key="tune_gammas",
            alt="Expected speedup over γ at the temperature asked about",
        )  # fmt: skip
    _show_chosen(answer, candidate, chosen, given=given)


def _what(candidate: Candidate) -> str:
    """What the numbers of its map are."""
    if candidate.runs:
        return "Speedup in short runs, at the temperature asked about."
    if candidate.form == "at least":
        return "What the speedup is at least: a bound, as token by token."
    return "Expected speedup."


def _ink() -> str:
    """The page's own colour of text, for numbers on a coloured ground."""
    return "#e8eaed" if st.context.theme.type == "dark" else "#1c1f24"


def _choose_candidate(answer: Answer) -> Candidate | None:
    """The first in the ranking, unless another is chosen."""
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
    """Those that were pressed on the map."""
    said = st.session_state.get(_MAP) or {}
    points = (said.get("selection") or {}).get("points") or []
    found = list[Cell]()
    for each in points:
        place = each.get("customdata") or ()
        if len(place) == 2 and (cell := candidate.surface.cell(int(place[0]), float(place[1]))):
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
            f"**γ {first.gamma}, temperature {first.temperature:g}:** {cell_words(first)}"
            + ("" if first.basis == "expected" else f" ({how_found(candidate, first)})"),
            width="content",
        )
        offer_watch(answer, candidate, first, key="tune_watch")
        if answer.question.text is None and not given:
            _offer_measuring(answer, candidate, cells if chosen else [])
    show_measured()


def _offer_measuring(answer: Answer, candidate: Candidate, cells: Sequence[Cell]) -> None:
    if cells:
        label = "Measure it" if len(cells) == 1 else f"Measure these {len(cells)}"
        choices: Sequence[Choice] = [(candidate, each) for each in cells]
    else:
        label, choices = "Measure the best of each temperature", best_cells(answer)
    st.button(
        label, key="tune_measure", on_click=measure, args=(choices, answer.question.items),
        disabled=not choices,
    )  # fmt: skip


def show_measured() -> None:
    """Expected against measured, as a table; what is under way stands in the line of work."""
    work = shown("tune-cells", CellsJob)
    if work is None:
        return
    follow(work, lambda: measured_table(work.cells))


def measured_table(cells: Sequence[MeasuredCell]) -> None:
    if not cells:
        return
    frame = pd.DataFrame.from_dict(
        {
            "setting": [f"γ {each.gamma}, T {each.temperature:g}" for each in cells],
            "candidate": [as_text(each.label) for each in cells],
            "expected": [RATIO.shown(each.expected) for each in cells],
            "measured": [RATIO.spread(each.speedup, each.low, each.high) for each in cells],
            "off by": [off_by(each) for each in cells],
            "runs": [str(each.count) for each in cells],
        }
    )
    st.table(frame, border="horizontal", hide_index=True)
    st.caption(
        ":green-badge[measured] Runs of these settings on the same prompts; the interval is over "
        "prompts, or over seeds of one prompt. The expectation was there before."
    )


def session_points(candidate: Candidate) -> list[RunPoint]:
    """Runs of this session that were made on the candidate and timed."""
    return [
        RunPoint(
            label="a run of this session", gamma=each.trace.config.gamma,
            temperature=each.trace.config.temperature, speedup=each.figures.speedup_observed,
            low=each.figures.speedup_low, high=each.figures.speedup_high,
        )
        for each in session_history().shown_runs()
        if each.trace.pair == candidate.info
        and same_method(each.trace.config, candidate.config)
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
