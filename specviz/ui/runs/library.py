"""The Runs page: the runs of the library as a table, and actions on the chosen runs."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from specviz.store import Facets, Library, Query
from specviz.store.saving import summary_of
from specviz.ui.runs.actions import (
    changes_all,
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
from specviz.ui.session.library_quota import kept_words, show_quota_notice
from specviz.ui.session.page_library import current_viewpoint, is_logged_in
from specviz.ui.session.run_saving import the_library

UNDO_DAYS = 30
_PURGED = "runs purged"
_OTHERS = "You can name, tag and delete only your own runs."


def library_caption() -> str:
    """Return a sentence about the runs that the current person sees."""
    viewpoint = current_viewpoint()
    if viewpoint.sees_all:
        return kept_words()
    if viewpoint.edits:
        return "Your finished and stopped runs, and the runs that the owner shares."
    return "Runs that the owner of this dashboard shares."


def show_library() -> None:
    """Draw the page, and purge runs that were deleted more than ``UNDO_DAYS`` days ago.

    Raises:
        SpecvizError: The library cannot be read.
    """
    library = the_library()
    edits = library.viewpoint.edits
    if edits and _PURGED not in st.session_state:
        library.purge(older_than_days=UNDO_DAYS)
        st.session_state[_PURGED] = True
    show_quota_notice(library)
    show_failed_action()
    show_imported()
    show_undo(library)
    if library.count() == 0:
        _show_empty(library)
        return
    if edits:
        complete_older_runs(library)
    facets = library.facets()
    _show_runs(library, ask(facets), facets)


def _show_empty(library: Library) -> None:
    with st.container(border=True, key="runs_empty"):
        if not library.viewpoint.edits:
            st.markdown("**No runs yet.** The owner of this dashboard has not shared any run.")
        else:
            st.markdown(
                "**No runs yet.** Your runs on the pages *Watch* and *Compare* and on the command "
                "line are kept here."
            )
            with st.container(horizontal=True, vertical_alignment="center"):
                st.page_link("pages/watch.py", label="Make a run on Watch")
                show_import(library)
    st.caption(
        "**Recorded example** from another machine. The page *Watch* shows it until your first run."
    )
    recorded = recorded_run()
    show_row(summary_of(recorded.trace, recorded.figures))


def _show_runs(library: Library, query: Query, facets: Facets) -> None:
    total = library.count(query)
    hidden = library.count(replace(query, of_comparisons=True)) - total
    if total == 0:
        _show_none_found(hidden)
        return
    rows = library.find(page_of(query, total))
    bar = st.container(horizontal=True, vertical_alignment="center", key="runs_bar")
    with_persons = bool(facets.persons)
    chosen = show_table(rows, query, with_person=with_persons)
    sees_all = library.viewpoint.sees_all
    with bar:
        show_paging(total, hidden)
        may_share = sees_all and (with_persons or is_logged_in())
        show_actions(library, chosen, query, may_share=may_share)
        if library.viewpoint.edits:
            show_import(library)
    changes = changes_all(library, chosen)
    if len(chosen) == 1 and changes:
        show_annotations(library, chosen[0])
    else:
        show_names(chosen)
        if not changes and library.viewpoint.edits:
            st.caption(_OTHERS)


def _show_none_found(hidden: int) -> None:
    if hidden:
        st.info(
            f"Only runs of comparisons match ({hidden:,}). To list them, turn on **Runs of "
            "comparisons**. To see their results, open **Kept** on the Compare page, or "
            "**Quality** on the page Bias or speed."
        )
    else:
        st.info("No run matches the search and the filters. Remove a word or a filter.")
