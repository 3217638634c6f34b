"""The tab Side by side of Compare: kept runs of specviz and other engines.

The tab shows a table and a race. The race replays all runs on one clock. Nothing is measured here.

The link ``/compare?compare_tab=Side by side&beside=ID&beside=ID`` opens two to four runs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from specviz.errors import SpecvizError
from specviz.player.racing import MOST_LANES, race_payload
from specviz.player.side_by_side import (
    LEGEND,
    Row,
    beside_html,
    distinct_labels,
    rows_beside,
    sentences,
)
from specviz.record.server_run import AnyTrace
from specviz.store import Library, RunRow
from specviz.ui.compare.lanes import DOTS
from specviz.ui.downloads import download_button
from specviz.ui.runs.table import row_label
from specviz.ui.session.page_library import sees_others
from specviz.ui.session.run_saving import the_library
from specviz.ui.widgets.plain_text import as_text, show_error
from specviz.ui.widgets.player import show_player

BESIDE_LINK = "beside"
RUNS_HANDOVER = "runs for compare"  # session state: ids of runs that the page Runs hands over
_SHOWN, _OPENED = "runs beside", "runs beside opened"
FEWEST = 2


class RunsBeside:
    """The runs that the tab shows, each with at least one round.

    The table and the race are built on first use.
    """

    def __init__(self, rows: Sequence[RunRow], traces: Sequence[AnyTrace]) -> None:
        self.rows, self.traces = tuple(rows), tuple(traces)
        self.labels = distinct_labels([row_label(row) for row in rows])

    @functools.cached_property
    def race(self) -> dict[str, object]:
        return race_payload(self.labels, self.traces, by_turns=False)

    @functools.cached_property
    def figures(self) -> tuple[Row, ...]:
        return rows_beside(self.traces)

    def html(self) -> str:
        return beside_html(self.labels, self.traces)


def linked_runs() -> tuple[str, ...]:
    """Return the ids of the runs to show.

    A link can name the runs. If it names none, the tab shows the runs that another page handed
    over. If no page handed over runs, the tab shows the runs of the last visit.
    """
    handed: list[str] | None = st.session_state.pop(RUNS_HANDOVER, None)
    ids = st.query_params.get_all(BESIDE_LINK) or handed or st.session_state.get(_SHOWN, ())
    found = st.session_state[_SHOWN] = tuple(dict.fromkeys(ids))
    return found


def show_beside(ids: Sequence[str]) -> None:
    """Draw the tab. If the library raises an error, show it in the tab."""
    try:
        _show(the_library(), ids)
    except SpecvizError as error:
        show_error(error)


def _show(library: Library, ids: Sequence[str]) -> None:
    if st.query_params.get_all(BESIDE_LINK) != list(ids):
        st.query_params[BESIDE_LINK] = list(ids)
    found, left_out = _opened(library, ids)
    for sentence in left_out:
        st.warning(as_text(sentence))
    if len(found.rows) < FEWEST:
        st.info(
            f"This tab plays {FEWEST} to {MOST_LANES} kept runs side by side, at their measured "
            "speed. They may be runs of specviz and of other engines. Choose them on the page "
            "*Runs* and press *Add to Compare*."
        )
        st.page_link("pages/runs.py", label="Choose runs")
        return
    _show_found(found)


def _show_found(found: RunsBeside) -> None:
    with st.container(border=True, key="beside_said", gap="small"):
        for sentence in sentences(found.traces):
            st.markdown(as_text(sentence))
    st.markdown("#### Figures")
    with st.container(key="compare_table_beside"):
        st.table(_frame(found), border="horizontal")
    st.caption(f":green-badge[measured] {as_text(LEGEND)}")
    st.markdown("#### Race")
    st.caption(
        "All lanes replay on one clock at their measured times. Choose a lane to see its text."
    )
    show_player(found.race, key="compare_player_beside")
    with st.container(horizontal=True, vertical_alignment="center", key="beside_files"):
        download_button(
            "Download a replay (HTML)", found.html, key="beside_replay",
            file_name="specviz-side-by-side.html", mime="text/html", type="tertiary",
        )  # fmt: skip
        for row, label in zip(found.rows, found.labels, strict=True):
            st.page_link(
                "pages/watch.py", label=f"Watch {as_text(label)}", query_params={"run": row.id}
            )


def _frame(found: RunsBeside) -> pd.DataFrame:
    heads = [f"{dot} {as_text(each)}" for dot, each in zip(DOTS, found.labels, strict=False)]
    rows = {as_text(name): [as_text(each) for each in row] for name, row in found.figures}
    return pd.DataFrame.from_dict(rows, orient="index", columns=heads)


def _opened(library: Library, ids: Sequence[str]) -> tuple[RunsBeside, tuple[str, ...]]:
    """Return the runs with these ids, and sentences on why some of them are left out.

    The result is cached until the ids change, or until the person gains or loses access to a run.
    """
    known: tuple[object, RunsBeside, tuple[str, ...]] | None = st.session_state.get(_OPENED)
    key = ids, () if sees_others() else tuple(_is_visible(library, each) for each in ids)
    if known is None or known[0] != key:
        with st.spinner("Opening the runs"):
            known = st.session_state[_OPENED] = key, *_open(library, ids)
    return known[1:]


def _is_visible(library: Library, run_id: str) -> bool:
    try:
        return bool(library.row(run_id))
    except SpecvizError:
        return False


def _open(library: Library, ids: Sequence[str]) -> tuple[RunsBeside, tuple[str, ...]]:
    found: list[tuple[RunRow, AnyTrace]] = []
    left_out: list[str] = []
    for run_id in ids[:MOST_LANES]:
        try:
            row, trace = library.row(run_id), library.open_any(run_id)
        except SpecvizError as error:
            left_out.append(f"A run is left out. {error}")
            continue
        if trace.rounds:
            found.append((row, trace))
        else:
            left_out.append(f"{row_label(row)} is left out: it has no rounds.")
    if len(ids) > MOST_LANES:
        left_out.append(f"Only the first {MOST_LANES} runs are shown; the others are left out.")
    return RunsBeside([row for row, _ in found], [trace for _, trace in found]), tuple(left_out)
