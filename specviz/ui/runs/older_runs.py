"""Runs saved by an older version: fill in their missing columns while the page is open."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from specviz.errors import SpecvizError
from specviz.store import Library
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.widgets.plain_text import show_error

_SLICE, _TICK = 0.5, 1.0  # seconds per slice of reading, and between slices


@dataclass(frozen=True, slots=True, kw_only=True)
class _Older:
    left: int = 0
    error: SpecvizError | None = None


def complete_older_runs(library: Library) -> None:
    """Read in slices of half a second until no run is left; the table stays usable meanwhile."""
    redraw_while_busy(
        _read(library), lambda: _read(library), lambda now: now.left > 0, _show, seconds=_TICK
    )


def _read(library: Library) -> _Older:
    try:
        return _Older(left=library.complete_older(_SLICE))
    except SpecvizError as error:
        return _Older(error=error)


def _show(older: _Older) -> None:
    if older.error is not None:
        show_error(older.error)
    elif older.left:
        runs = "one older run" if older.left == 1 else f"{older.left:,} older runs"
        st.caption(
            f"Still reading the observed α of {runs}, newest first. Until then, they come last in "
            "the order of α."
        )
