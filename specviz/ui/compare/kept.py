"""Comparisons that the library keeps: one is chosen, and its results are shown again.

The link ``/compare?compare_tab=Kept&kept=KEY`` opens one.
"""

from __future__ import annotations

import streamlit as st

from specviz.comparison import compare, num_runs, settings_of
from specviz.comparison.kept_runs import kept_comparison
from specviz.comparison.plan import Plan, plan_from_json
from specviz.errors import SpecvizError
from specviz.store import ComparisonRow, Library
from specviz.ui.compare.lanes import TAKEN, lane_text
from specviz.ui.compare.results import Findings, show_results
from specviz.ui.compare.settings import beyond_controls, take_settings
from specviz.ui.runs.table import COMPARISON
from specviz.ui.session.run_saving import the_library
from specviz.ui.widgets.plain_text import as_text, show_error

KEPT_LINK = "kept"
SIDE_BY_SIDE = "Side by side"
TAB, TABS = "compare_tab", ("One prompt", "By kind", "Kept", SIDE_BY_SIDE)
_OPENED = "compare kept"
_USE = "Puts its lanes and settings into the controls. Nothing is run."


def show_kept(*, busy: bool) -> None:
    """The tab of kept comparisons; an error of the library is shown in it."""
    try:
        library = the_library()
        rows = {row.key: row for row in library.comparisons() if row.num_runs}
        chosen = _choose(rows)
        if chosen is not None:
            _show_one(library, chosen, busy)
    except SpecvizError as error:
        show_error(error)


def _choose(rows: dict[str, ComparisonRow]) -> ComparisonRow | None:
    if not rows:
        st.info("No comparison is kept yet. Every one made here or on the command line is kept.")
        return None
    linked = st.query_params.get(KEPT_LINK)
    if "compare_kept" not in st.session_state and linked in rows:
        st.session_state["compare_kept"] = linked
    key = st.selectbox(
        "Comparisons, newest first", list(rows), index=None, key="compare_kept",
        format_func=lambda each: _named(rows[each]), placeholder="Choose one to open it",
    )  # fmt: skip
    if key is None:
        if linked is not None and linked not in rows:
            st.warning("The comparison in the link is not kept here.")
        st.query_params.pop(KEPT_LINK, None)
        return None
    st.query_params[KEPT_LINK] = key
    return rows[key]


def _named(row: ComparisonRow) -> str:
    plural = "" if row.num_runs == 1 else "s"
    when = row.created.replace("T", " ")[:19]
    return f"{row.title or 'no title'} · {when} UTC · {row.num_runs} run{plural}"


def _show_one(library: Library, row: ComparisonRow, busy: bool) -> None:
    found, missing = _opened(library, row)
    plan = plan_from_json(row.plan_json)
    st.caption(as_text(settings_of(plan)))
    with st.container(horizontal=True, vertical_alignment="center", key="compare_kept_head"):
        st.button(
            "Use these settings", key="compare_kept_use", on_click=_use, args=(plan,),
            disabled=busy, help=as_text(" ".join([_USE, *beyond_controls(plan)])),
        )  # fmt: skip
        st.page_link("pages/runs.py", label="Its runs", query_params={COMPARISON: row.key})
    if missing:
        st.info(_missing(plan, missing))
    if found is not None:
        show_results(found, "kept")


def _use(plan: Plan) -> None:
    """Puts the plan into the controls and opens the tab that would run it."""
    st.session_state[TAKEN] = [lane_text(lane) for lane in plan.lanes]
    take_settings(plan)
    st.session_state[TAB] = TABS[0 if len(plan.items) == 1 else 1]


def _missing(plan: Plan, missing: int) -> str:
    are = "is" if missing == 1 else "are"
    return (
        f"{missing} of {num_runs(plan)} runs {are} missing or deleted. To make them, press Use "
        "these settings and compare again: only the missing runs are made."
    )


def _opened(library: Library, row: ComparisonRow) -> tuple[Findings | None, int]:
    """The findings, None unless every lane has a run; and how many runs are missing.

    Remembered until the number of kept runs changes.
    """
    known: tuple[ComparisonRow, Findings | None, int] | None = st.session_state.get(_OPENED)
    if known is None or known[0] != row:
        with st.spinner("Opening its runs"):
            plan, runs = kept_comparison(library, row.key)
            whole = len({run.job.lane for run in runs}) == len(plan.lanes)
            found = Findings(compare(plan, runs), runs) if whole else None
        known = st.session_state[_OPENED] = row, found, num_runs(plan) - len(runs)
    return known[1:]
