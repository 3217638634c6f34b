"""The Runs page: the runs of the library as a table, and actions on the chosen runs."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from specviz.store import Library, Query
from specviz.store.saving import summary_of
from specviz.ui.runs.actions import (
    show_actions,
    show_annotations,
    show_failed_action,
    show_names,
    show_undo,
)
from specviz.ui.runs.importing import show_import, show_imported
from specviz.ui.runs.older_runs import complete_older_runs
from specviz.ui.runs.table import ask, page_of, show_paging, show_row, show_table
from specviz.ui.session.history import recorded_run
from specviz.ui.session.library_quota import show_quota_notice
from specviz.ui.session.run_saving import the_library

UNDO_DAYS = 30
_PURGED = "runs purged"


def show_library() -> None:
    """Draw the page; remove runs that were deleted more than ``UNDO_DAYS`` days ago.

    Raises:
        SpecvizError: The library cannot be read.
    """
    library = the_library()
    if _PURGED not in st.session_state:
        library.purge(older_than_days=UNDO_DAYS)
        st.session_state[_PURGED] = True
    show_quota_notice(library)
    show_failed_action()
    show_imported()
    show_undo(library)
    if library.count() == 0:
        _show_empty(library)
        return
    complete_older_runs(library)
    query = ask(library.facets())
    _show_runs(library, query)


def _show_empty(library: Library) -> None:
    with st.container(border=True, key="runs_empty"):
        st.markdown("**No runs yet.** Runs from Watch, Compare and the command line are kept here.")
        with st.container(horizontal=True, vertical_alignment="center"):
            st.page_link("pages/watch.py", label="Make a run on Watch")
            show_import(library)
    st.caption("**Recorded example** from another machine. Watch plays it until your first run.")
    recorded = recorded_run()
    show_row(summary_of(recorded.trace, recorded.figures))


def _show_runs(library: Library, query: Query) -> None:
    total = library.count(query)
    hidden = library.count(replace(query, of_comparisons=True)) - total
    if total == 0:
        _show_none_found(hidden)
        return
    rows = library.find(page_of(query, total))
    bar = st.container(horizontal=True, vertical_alignment="center", key="runs_bar")
    chosen = show_table(rows, query)
    with bar:
        show_paging(total, hidden)
        show_actions(library, chosen, query)
        show_import(library)
    if len(chosen) == 1:
        show_annotations(library, chosen[0])
    else:
        show_names(chosen)


def _show_none_found(hidden: int) -> None:
    if hidden:
        st.info(
            f"Only runs of comparisons match ({hidden:,}). To list them, turn on **Runs of "
            "comparisons**. To see their results, open **Kept** on the Compare page, or "
            "**Quality** on the page Bias or speed."
        )
    else:
        st.info("No run matches the search and the filters. Remove a word or a filter.")
