"""A part of the page that is drawn again and again while something is under way.

What is drawn, and whether it will be drawn again, follow from one look at the state. With two looks
the state could change between them, and the page could stop with the old state on it.
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
    """Draw the state that the page's script has seen; while it is busy, look and draw again.

    ``busy`` says what it is busy with, or only whether it is. When that changes, the whole page
    runs again. The first drawing, by the script itself, never causes that: a click which the
    script has not yet reached would be lost.
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
