"""Comparisons of the library, found again: one is chosen, opened, and shown as when it was made.

``/compare?compare_tab=Kept&kept=KEY`` opens one by its link.
"""

from __future__ import annotations

import streamlit as st

from specviz.comparing import compare
from specviz.errors import SpecvizError
from specviz.keeping.reopening import kept_comparison
from specviz.store import ComparisonRow, Library
from specviz.ui.compare_lanes import plain
from specviz.ui.compare_results import Findings, show_results
from specviz.ui.keeper import the_keeper
from specviz.ui.run_table import COMPARISON

LINK = "kept"
_OPENED = "compare kept"


def show_kept() -> None:
    """What is wrong with the library, or with one comparison of it, is said here."""
    library = the_keeper().library
    try:
        rows = {row.key: row for row in library.comparisons() if row.num_runs}
        chosen = _choose(rows)
        if chosen is not None:
            _show_one(library, chosen)
    except SpecvizError as error:
        st.error(plain(str(error)))


def _choose(rows: dict[str, ComparisonRow]) -> ComparisonRow | None:
    if not rows:
        st.info("No comparison is kept yet. Those made here or on the command line stay.")
        return None
    linked = st.query_params.get(LINK)
    if "compare_kept" not in st.session_state and linked in rows:
        st.session_state["compare_kept"] = linked
    key = st.selectbox(
        "Comparisons, newest first", list(rows), index=None, key="compare_kept",
        format_func=lambda each: _named(rows[each]), placeholder="Choose one to open it",
    )  # fmt: skip
    if key is None:
        if linked is not None and linked not in rows:
            st.warning("The link names a comparison that is not kept.")
        st.query_params.pop(LINK, None)
        return None
    st.query_params[LINK] = key
    return rows[key]


def _named(row: ComparisonRow) -> str:
    plural = "" if row.num_runs == 1 else "s"
    when = row.created.replace("T", " ")[:19]
    return f"{row.title or 'no title'} · {when} UTC · {row.num_runs} run{plural}"


def _show_one(library: Library, row: ComparisonRow) -> None:
    found = _opened(library, row)
    with st.container(horizontal=True, vertical_alignment="center", key="compare_kept_head"):
        st.caption("With its own lanes, prompts and settings, not those above.", width="content")
        st.page_link("pages/runs.py", label="Its runs", query_params={COMPARISON: row.key})
    if found is None:
        st.info(
            "Not every lane has a finished run yet. The same lanes and settings, compared once "
            "more, go on from here."
        )
    else:
        show_results(found, "kept")


def _opened(library: Library, row: ComparisonRow) -> Findings | None:
    """None until every lane has a run. Opened once, and again when there are more runs."""
    known: tuple[ComparisonRow, Findings | None] | None = st.session_state.get(_OPENED)
    if known is None or known[0] != row:
        with st.spinner("Opening its runs"):
            plan, runs = kept_comparison(library, row.key)
            whole = len({run.job.lane for run in runs}) == len(plan.lanes)
            found = Findings(compare(plan, runs), runs) if whole else None
        known = st.session_state[_OPENED] = row, found
    return known[1]
