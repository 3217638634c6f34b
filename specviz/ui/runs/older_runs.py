"""The runs that an older version kept: what their rows lack is read while the page is open."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from specviz.errors import SpecvizError
from specviz.store import Library
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.widgets.plain_text import show_error

_SLICE, _TICK = 0.5, 1.0  # seconds of reading, and from one reading to the next


@dataclass(frozen=True, slots=True, kw_only=True)
class _Older:
    left: int = 0
    error: SpecvizError | None = None


def complete_older_runs(library: Library) -> None:
    """Read for half a second; while runs are left, say so and go on. The list works meanwhile."""
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
            f"The observed α of {runs} is still being read, the newest first. Until it is, a list "
            "in the order of α has them last."
        )
