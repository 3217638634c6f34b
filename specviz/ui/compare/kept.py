"""Comparisons that the library keeps: choose one to show its results again.

The link ``/compare?compare_tab=Kept&kept=KEY`` opens one of them.
"""

from __future__ import annotations

import streamlit as st

from specviz.comparison import compare, num_runs, settings_of
from specviz.comparison.kept_runs import kept_comparison
from specviz.comparison.plan import Plan, plan_from_json
from specviz.errors import ConfigError, SpecvizError
from specviz.store import ComparisonRow, Library
from specviz.ui.compare.lanes import LANES_HANDOVER, lane_text
from specviz.ui.compare.results import Findings, show_results
from specviz.ui.compare.settings import take_settings, unsupported_by_controls
from specviz.ui.runs.table import COMPARISON
from specviz.ui.session.run_saving import the_library
from specviz.ui.widgets.plain_text import as_text, show_error

KEPT_LINK = "kept"
SIDE_BY_SIDE = "Side by side"
TAB, TABS = "compare_tab", ("One prompt", "By kind", "Kept", SIDE_BY_SIDE)
_OPENED = "compare kept"
_USE = "Copies the comparison's lanes and settings to the controls. Starts no run."


def show_kept(*, busy: bool) -> None:
    """Draw the tab of kept comparisons. If the library raises an error, show it in the tab."""
    try:
        library = the_library()
        rows = {row.key: row for row in library.comparisons() if _is_comparison(row)}
        chosen = _choose(rows)
        if chosen is not None:
            _show_one(library, chosen, busy)
    except SpecvizError as error:
        show_error(error)


def _is_comparison(row: ComparisonRow) -> bool:
    """Return whether the row has runs and belongs on this page.

    A plan in which no two runs share a seed is an experiment on the quality of lossy rules. Another
    page shows such experiments.
    """
    try:
        return row.num_runs > 0 and not plan_from_json(row.plan_json).own_seeds
    except ConfigError:
        return True  # opening it shows the error


def _choose(rows: dict[str, ComparisonRow]) -> ComparisonRow | None:
    if not rows:
        st.info(
            "No comparison yet. This tab lists comparisons made on this page or the command line."
        )
        return None
    linked = st.query_params.get(KEPT_LINK)
    if "compare_kept" not in st.session_state and linked in rows:
        st.session_state["compare_kept"] = linked
    key = st.selectbox(
        "Comparisons, newest first", list(rows), index=None, key="compare_kept",
        format_func=lambda each: _row_title(rows[each]), placeholder="Choose a comparison",
    )  # fmt: skip
    if key is None:
        if linked is not None and linked not in rows:
            st.warning("The comparison in the link is not in this library.")
        st.query_params.pop(KEPT_LINK, None)
        return None
    st.query_params[KEPT_LINK] = key
    return rows[key]


def _row_title(row: ComparisonRow) -> str:
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
            disabled=busy, help=as_text(" ".join([_USE, *unsupported_by_controls(plan)])),
        )  # fmt: skip
        st.page_link("pages/runs.py", label="List its runs", query_params={COMPARISON: row.key})
    if missing:
        st.info(_missing_sentence(plan, missing))
    if found is not None:
        show_results(found, "kept")


def _use(plan: Plan) -> None:
    """Set the controls to the plan and open the tab in which the plan can be started."""
    st.session_state[LANES_HANDOVER] = [lane_text(lane) for lane in plan.lanes]
    take_settings(plan)
    st.session_state[TAB] = TABS[0 if len(plan.items) == 1 else 1]


def _missing_sentence(plan: Plan, missing: int) -> str:
    are = "is" if missing == 1 else "are"
    return (
        f"{missing} of {num_runs(plan)} runs {are} missing or deleted. To make them, press “Use "
        "these settings” and compare again. The kept runs are reused."
    )


def _opened(library: Library, row: ComparisonRow) -> tuple[Findings | None, int]:
    """Return the results and the number of missing runs; the results are None if a lane has no run.

    Both values are cached until the comparison's row changes, for example because a run was
    deleted.
    """
    known: tuple[ComparisonRow, Findings | None, int] | None = st.session_state.get(_OPENED)
    if known is None or known[0] != row:
        with st.spinner("Opening the runs"):
            plan, runs = kept_comparison(library, row.key)
            whole = len({run.job.lane for run in runs}) == len(plan.lanes)
            found = Findings(compare(plan, runs), runs) if whole else None
        known = st.session_state[_OPENED] = row, found, num_runs(plan) - len(runs)
    return known[1:]
