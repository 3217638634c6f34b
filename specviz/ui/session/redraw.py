"""A part of the page that is redrawn periodically while something is in progress.

One read of the state decides both what is drawn and whether to redraw. With two reads the state
could change in between, and the page could keep showing the old state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import streamlit as st

Look = TypeVar("Look")


def redraw_while_busy(
    seen: Look,
    look: Callable[[], Look],
    busy: Callable[[Look], object],
    draw: Callable[[Look], object],
    *,
    seconds: float,
) -> None:
    """Draw ``seen``; while the state is busy, read it again every ``seconds`` and redraw.

    Args:
        seen: The state that the page's script has read.
        look: Reads the state again.
        busy: Returns whether the state is busy, or the reason (empty if not busy). When the result
            changes, the whole page reruns. The first drawing, by the script itself, never causes a
            rerun, because a rerun would lose a click that the script has not handled yet.
        draw: Draws a state.
        seconds: Time between two redraws.
    """
    was_busy = busy(seen)
    first = [seen]

    @st.fragment(run_every=seconds if was_busy else None)
    def part() -> None:
        by_script = bool(first)
        now = first.pop() if by_script else look()
        draw(now)
        if not by_script and busy(now) != was_busy:
            st.rerun()

    part()
