"""While the page is open, fill in missing columns of runs that an older version saved."""

from __future__ import annotations

import streamlit as st

from specviz.errors import SpecvizError
from specviz.store import Library
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.widgets.plain_text import show_error
from specviz.values import Value

_SLICE, _TICK = 0.5, 1.0  # seconds of reading per slice; seconds between slices


class _Older(Value):
    left: int = 0
    error: SpecvizError | None = None


def complete_older_runs(library: Library) -> None:
    """Fill in the missing columns of older runs.

    The work is done in slices of half a second, so that the table stays usable.
    """
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
            f"Still reading the observed α of {runs}, newest first. Until a run is read, it "
            "comes last in the order “Highest α observed”."
        )
