"""Earlier sweeps to open or to compare, and files of sweeps made elsewhere."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from specviz.errors import SpecvizError
from specviz.figures.load_figures import LoadFigures, load_figures
from specviz.figures.load_words import LoadWords, level_words, load_words
from specviz.folders import data_folder
from specviz.load.foreign import ForeignLoad, load_from_json
from specviz.load.stored import KIND, load_sweep, stored_sweeps
from specviz.record.load_run import LoadSweep
from specviz.record.numbers import counted
from specviz.ui.servers.load.points import ShownSweep
from specviz.ui.session.page_library import sees_others
from specviz.ui.widgets.plain_text import show_error
from specviz.values import Value

SHOWN, BESIDE = "load_shown", "load_beside"  # keys of the boxes
_LISTED, _FIGURES = "load sweeps listed", "load figures"  # session state
_MOST_FIGURES = 4
_MOST_MEGABYTES = 200


class StoredSweep(Value):
    """A stored sweep as the list shows it: its id and title."""

    id: str
    title: str


def shown_sweep(sweep: LoadSweep) -> ShownSweep:
    figures, words = _found_in(sweep)
    return ShownSweep(sweep=sweep, figures=figures, words=words)


def choose_stored(newest: LoadSweep | None) -> tuple[ShownSweep | None, ShownSweep | None]:
    """Draw two boxes to choose stored sweeps: a sweep to show, and a sweep to compare with it.

    Return the two sweeps. If nothing is chosen in a box, its sweep is None.

    Args:
        newest: The sweep of the page's job, which the boxes do not list.
    """
    listed = {each.id: each for each in _listed()}
    own = newest.id if newest is not None else None
    others = [each for each in listed if each != own]
    if not others:
        return None, None
    titles = {each: listed[each].title for each in others}
    with st.container(horizontal=True, vertical_alignment="bottom", key="load_stored"):
        opened = _box("Stored sweeps", SHOWN, others, titles, "the newest" if own else "open one")
        rest = [each for each in others if each != opened]
        beside = _box("Compare with", BESIDE, rest, titles, "no other sweep")
    first, second = _opened(opened), _opened(beside)
    if second is not None:
        second = as_compared(second)
    return first, second


def as_compared(shown: ShownSweep) -> ShownSweep:
    return replace(shown, source="other", name="compared")


def choose_file() -> LoadSweep | ForeignLoad | None:
    """Draw the uploader; return the file's content: a sweep, or the results of another tool."""
    with st.expander("From a file", key="load_file_box"):
        file = st.file_uploader(
            "A sweep of specviz, or a JSON result of AIPerf or GuideLLM", type=["json"],
            key="load_file", max_upload_size=_MOST_MEGABYTES,
            help="The file is shown next to the sweep. For AIPerf, choose "
            "profile_export_aiperf.json.",
        )  # fmt: skip
        if file is None:
            return None
        try:
            return load_from_json(file.getvalue().decode("utf-8", errors="replace"), file.name)
        except SpecvizError as error:
            show_error(error)
            return None


def title_of(sweep: LoadSweep) -> str:
    """Return a title such as "2026-01-01 12:00 · tiny · γ 4 · 1 user to 16 users"."""
    settings = sweep.settings
    ends = [level_words(each, settings.mode) for each in sorted(settings.levels)]
    levels = ends[0] if len(ends) == 1 else f"{ends[0]} to {ends[-1]}"
    lanes = ", ".join(each.label for each in sweep.lanes if each.kind == "speculative")
    parts = (_when(sweep), sweep.lanes[0].info.model, lanes, levels)
    whole = "" if sweep.complete else f" · stopped after {counted(len(sweep.blocks), 'block')}"
    return " · ".join(parts) + whole


def _when(sweep: LoadSweep) -> str:
    return f"{sweep.created.replace('T', ' ')[:16]} UTC"


def _box(label: str, key: str, ids: list[str], titles: dict[str, str], empty: str) -> str | None:
    if st.session_state.get(key) not in ids:
        st.session_state.pop(key, None)
    return st.selectbox(
        label, ids, index=None, key=key, placeholder=empty,
        format_func=lambda each: titles[each],
    )  # fmt: skip


def _opened(sweep_id: str | None) -> ShownSweep | None:
    sweep = None if sweep_id is None else load_sweep(sweep_id)
    return None if sweep is None else shown_sweep(sweep)


def _listed() -> tuple[StoredSweep, ...]:
    """Return the stored sweeps, newest first. Only the owner sees stored sweeps.

    The files are read again only if a file has changed.
    """
    if not sees_others():
        return ()
    try:
        files = tuple(
            (path.name, path.stat().st_mtime_ns)
            for path in sorted((data_folder() / KIND).glob("*.json"))
        )
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        return ()
    known = st.session_state.get(_LISTED)
    if known is None or known[0] != files:
        found = tuple(StoredSweep(id=each.id, title=title_of(each)) for each in stored_sweeps())
        known = st.session_state[_LISTED] = files, found
    return known[1]


def _found_in(sweep: LoadSweep) -> tuple[LoadFigures, LoadWords]:
    """Return the sweep's figures and sentences, cached in the session until the sweep changes."""
    kept: dict[tuple[str, int, bool], tuple[LoadFigures, LoadWords]]
    kept = st.session_state.setdefault(_FIGURES, {})
    key = sweep.id, len(sweep.blocks), sweep.complete
    if key not in kept:
        while len(kept) >= _MOST_FIGURES:
            del kept[next(iter(kept))]
        figures = load_figures(sweep)
        kept[key] = figures, load_words(sweep, figures)
    return kept[key]
