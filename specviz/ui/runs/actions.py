"""Actions on the chosen runs: open, compare, annotate, export, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from specviz.access.roles import Action
from specviz.comparison.plan import MAX_LANES, Lane
from specviz.errors import SpecvizError
from specviz.player.racing import MOST_LANES
from specviz.player.replay import replay_html
from specviz.record.pairs import spec_of
from specviz.record.server_run import AnyTrace
from specviz.record.trace import Trace
from specviz.store import SHARED, Library, Query, RunRow, trace_to_json
from specviz.store.tables import parquet, rounds_csv, rounds_of_runs, runs_frame
from specviz.ui.compare.beside import BESIDE_LINK, FEWEST, RUNS_HANDOVER, RunsBeside
from specviz.ui.compare.kept import SIDE_BY_SIDE, TAB
from specviz.ui.compare.lanes import LANES_HANDOVER, lane_text
from specviz.ui.downloads import download_button
from specviz.ui.runs.table import given_name, head_of, row_label, title_of
from specviz.ui.session.person import may
from specviz.ui.watch.library_run import RUN_LINK
from specviz.ui.widgets.plain_text import as_text, show_error

MOST_ROUNDS = 1000  # most runs whose rounds are exported to one file
_DELETED = "runs deleted"
_FAILED = "runs failed"
_SAVED = "runs saved"
_LEFT_OUT = "runs left out"  # session state: sentence about runs that were not added to Compare


def show_actions(
    library: Library, chosen: Sequence[RunRow], query: Query, *, may_share: bool = False
) -> None:
    """Draw the buttons for the chosen runs. If no run is chosen, Export offers all runs found."""
    if chosen:
        st.caption(f"**{len(chosen)} chosen**", width="content")
        if len(chosen) == 1:
            watch = {RUN_LINK: chosen[0].id}
            st.page_link("pages/watch.py", label="Open in Watch →", query_params=watch)
        if may(Action.MEASURE):
            _offer_comparison(library, chosen)
        if may_share:
            _offer_sharing(library, chosen)
        if library.viewpoint.edits:
            st.button(
                "Delete", key="runs_delete", on_click=_delete, args=(library, _ids(chosen)),
                disabled=not changes_all(library, chosen),
            )  # fmt: skip
    else:
        words = "open, compare, name or delete" if library.viewpoint.edits else "open or compare"
        st.caption(f"Choose rows to {words} them.", width="stretch")
    with st.popover("Export", key="runs_export"):
        if len(chosen) == 1:
            _offer_files(library, chosen[0])
        else:
            _offer_tables(library, chosen or query)


# Comparing


def lane_of(trace: Trace) -> str:
    """Return the run's pair and settings as text, from which Compare makes a lane."""
    return lane_text(Lane(spec=spec_of(trace.pair), config=trace.config))


def _offer_comparison(library: Library, chosen: Sequence[RunRow]) -> None:
    st.button(
        "Add to Compare",
        key="runs_compare",
        on_click=_attempt(partial(_add_to_compare, library, tuple(chosen))),
        help=f"Adds the runs to the tab *Side by side* of *Compare*, which plays up to "
        f"{MOST_LANES} runs. A run of specviz also becomes a lane (at most {MAX_LANES}): the page "
        "can then measure its pair and settings again. Prompt, device and dtype are not copied, "
        "because all lanes share them.",
    )
    lanes, beside = (
        st.session_state.get(LANES_HANDOVER, ()),
        st.session_state.get(RUNS_HANDOVER, ()),
    )
    if lanes:
        plural = "" if len(lanes) == 1 else "s"
        st.page_link("pages/compare.py", label=f"Compare {len(lanes)} lane{plural}")
    if len(beside) >= FEWEST:
        link = {TAB: SIDE_BY_SIDE, BESIDE_LINK: list(beside)}
        st.page_link(
            "pages/compare.py", label=f"See {len(beside)} runs side by side", query_params=link
        )
    elif beside and not lanes:
        st.caption("One run of another engine is chosen. Add a second run to compare the two.")
    if words := st.session_state.get(_LEFT_OUT) if beside else "":
        st.caption(as_text(words), width="content")


def _add_to_compare(library: Library, chosen: Sequence[RunRow]) -> None:
    """Hand the chosen runs over to the tab Side by side of Compare.

    The runs of specviz also become lanes of Compare. A lane is a pair with settings that can be
    measured again. If runs are left out, store a sentence that this page shows.
    """
    beside = list(st.session_state.get(RUNS_HANDOVER, ()))
    beside += [each for each in _ids(chosen) if each not in beside]
    own = [row.id for row in chosen if row.summary.engine is None]
    words = [*_add_lanes(library, own), *_over_limit(beside, MOST_LANES, "side by side")]
    st.session_state[RUNS_HANDOVER] = beside[:MOST_LANES]
    st.session_state[_LEFT_OUT] = f"Left out: {'; '.join(words)}." if words else ""


def _add_lanes(library: Library, run_ids: Sequence[str]) -> list[str]:
    """Add the runs to the lanes of Compare; return phrases about the runs that were left out."""
    lanes, alike = list(st.session_state.get(LANES_HANDOVER, ())), 0
    for run_id in run_ids:
        lane = lane_of(library.open(run_id))
        alike += lane in lanes
        lanes += [] if lane in lanes else [lane]
    if lanes:
        st.session_state[LANES_HANDOVER] = lanes[:MAX_LANES]
    words = [f"{_runs(alike)} with the same pair and settings as an added lane"] if alike else []
    return words + _over_limit(lanes, MAX_LANES, "into Compare as lanes")


def _over_limit(items: Sequence[str], most: int, where: str) -> list[str]:
    """Return one phrase that counts the items beyond ``most``, or an empty list if all fit."""
    over = len(items) - most
    return [f"{_runs(over)} (at most {most} fit {where})"] if over > 0 else []


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"


# Sharing


def changes_all(library: Library, rows: Sequence[RunRow]) -> bool:
    """Return whether the person may name, tag and delete all of these runs."""
    return all(map(library.viewpoint.changes, rows))


def _offer_sharing(library: Library, chosen: Sequence[RunRow]) -> None:
    shared = all(SHARED in row.tags for row in chosen)
    st.button(
        "Stop sharing" if shared else "Share",
        key="runs_share",
        on_click=_attempt(partial(library.share, _ids(chosen), shared=not shared)),
        help="Everybody who may open this dashboard sees shared runs, with their names, tags, "
        f"notes and prompts. Sharing adds the tag “{SHARED}” to a run.",
    )


# Name, tags and note


def show_annotations(library: Library, row: RunRow) -> None:
    """Draw a form for the name, tags and note of a run."""
    with st.form(f"runs_words_{row.id}"):
        st.markdown(f"**{as_text(row_label(row))}**")
        st.caption(as_text(head_of(row)))
        left, right = st.columns(2)
        name = left.text_input("Name", row.name, max_chars=200, placeholder=title_of(row))
        tags = right.text_input("Tags, separated by commas", ", ".join(row.tags), max_chars=800)
        note = st.text_area("Note", row.note, max_chars=4000, height=80)
        if st.form_submit_button("Save"):
            _attempt(partial(_write, library, row.id, name or "", tags or "", note or ""))()
            st.rerun()
    if st.session_state.pop(_SAVED, None) == row.id:
        st.caption("Saved.")


def show_names(rows: Sequence[RunRow]) -> None:
    """Draw the names of the chosen runs in full: the table's columns may cut them off."""
    names = [f"**{as_text(row_label(row))}** · {as_text(head_of(row))}" for row in rows]
    if names:
        st.caption("  \n".join(names))


def _write(library: Library, run_id: str, name: str, tags: str, note: str) -> None:
    library.annotate(run_id, name=name, tags=tags.split(","), note=note)
    st.session_state[_SAVED] = run_id


# Deleting


def _delete(library: Library, run_ids: Sequence[str]) -> None:
    _attempt(partial(library.delete, run_ids))()
    if _FAILED not in st.session_state:
        st.session_state[_DELETED] = tuple(run_ids)


def show_undo(library: Library) -> None:
    """If runs were just deleted, draw a line with Undo and Dismiss."""
    gone = st.session_state.get(_DELETED)
    if not gone:
        return
    with st.container(
        horizontal=True, vertical_alignment="center", border=True, key="runs_undo_line"
    ):
        st.markdown(f"{len(gone)} run{'' if len(gone) == 1 else 's'} deleted.", width="content")
        st.button("Undo", key="runs_undo", on_click=_undo, args=(library, gone))
        st.button("Dismiss", key="runs_dismiss", type="tertiary", on_click=_dismiss)


def _undo(library: Library, run_ids: Sequence[str]) -> None:
    _attempt(partial(library.restore, run_ids))()
    _dismiss()


def _dismiss() -> None:
    st.session_state.pop(_DELETED, None)


# Exporting


def _offer_files(library: Library, row: RunRow) -> None:
    """Draw download buttons for the files of one run. A file is made when its button is clicked."""
    made: list[tuple[str, str, str, Callable[[AnyTrace], str]]] = [
        ("Trace (JSON)", "trace.json", "application/json", trace_to_json),
        ("Rounds (CSV)", "rounds.csv", "text/csv", rounds_csv),
        ("Replay (HTML)", "replay.html", "text/html", partial(replay_html, name=given_name(row))),
    ]
    for label, name, kind, make in made:
        download_button(
            label,
            partial(_file, library, row.id, make),
            file_name=f"specviz-{row.id[:8]}-{name}",
            mime=kind,
            key=f"runs_{name}_{row.id}",
            type="tertiary",
        )


def _file(library: Library, run_id: str, make: Callable[[AnyTrace], str]) -> str:
    return make(library.open_any(run_id))


def _offer_tables(library: Library, rows: Sequence[RunRow] | Query) -> None:
    """Draw buttons that download runs, and their rounds, as Parquet files.

    ``rows`` contains the runs, or is a query that finds them. For a few chosen runs, also offer a
    race.
    """
    runs = "All runs found" if isinstance(rows, Query) else f"{len(rows)} runs"
    st.caption(f"{runs}. “Rounds (Parquet)” contains at most the first {MOST_ROUNDS:,} runs.")
    if not isinstance(rows, Query) and len(rows) <= MOST_LANES:
        _offer_race(library, rows)
    for label, name, make in (
        ("Runs (Parquet)", "runs", _runs_table),
        ("Rounds (Parquet)", "rounds", _rounds_table),
    ):
        download_button(
            label,
            partial(make, library, rows),
            file_name=f"specviz-{name}.parquet",
            mime="application/vnd.apache.parquet",
            key=f"runs_{name}_parquet",
            type="tertiary",
        )


def _offer_race(library: Library, rows: Sequence[RunRow]) -> None:
    """Draw a download button for a race: a page that replays these runs on one clock.

    The race names no winner.
    """
    download_button(
        "Race (HTML)",
        partial(_race, library, rows),
        file_name="specviz-race.html",
        mime="text/html",
        key="runs_race_html",
        type="tertiary",
    )


def _race(library: Library, rows: Sequence[RunRow]) -> str:
    opened = [(row, library.open_any(row.id)) for row in rows]
    raced = [(row, trace) for row, trace in opened if trace.rounds]
    return RunsBeside([row for row, _ in raced], [trace for _, trace in raced]).html()


def _runs_table(library: Library, rows: Sequence[RunRow] | Query) -> bytes:
    found = library.find(rows) if isinstance(rows, Query) else rows
    persons = library.viewpoint.sees_all and any(row.person for row in found)
    return parquet(runs_frame(found, with_persons=persons))


def _rounds_table(library: Library, rows: Sequence[RunRow] | Query) -> bytes:
    found = library.find(rows) if isinstance(rows, Query) else rows
    return parquet(
        rounds_of_runs((row.id, library.open_any(row.id)) for row in found[:MOST_ROUNDS])
    )


# Errors


def _attempt(action: Callable[[], object]) -> Callable[[], None]:
    """Return a callback that runs the action and stores any SpecvizError it raises.

    The page shows the stored error.
    """

    def attempted() -> None:
        st.session_state.pop(_FAILED, None)
        try:
            action()
        except SpecvizError as error:
            st.session_state[_FAILED] = error

    return attempted


def show_failed_action() -> None:
    if (error := st.session_state.pop(_FAILED, None)) is not None:
        show_error(error)


def _ids(rows: Sequence[RunRow]) -> tuple[str, ...]:
    return tuple(row.id for row in rows)
