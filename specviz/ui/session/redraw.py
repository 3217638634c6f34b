"""A part of the page that is drawn again and again while something is under way.

What is drawn and whether it goes on ticking follow from the same look at the state. If they
followed from two looks, something could change between them: the page could then stop ticking with
an old state on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import streamlit as st

Look = TypeVar("Look")


def redraw_while_busy(
    seen: Look,
    look: Callable[[], Look],
    busy: Callable[[Look], bool],
    draw: Callable[[Look], object],
    *,
    seconds: float,
) -> None:
    """Draw what the script has seen, and what later looks see while it is busy.

    When it comes to rest, or begins again, the page starts over. The script's own drawing never
    starts it over: a click that it has not come to would be lost.
    """
    ticks = busy(seen)
    first = [seen]

    @st.fragment(run_every=seconds if ticks else None)
    def part() -> None:
        by_script = bool(first)
        now = first.pop() if by_script else look()
        draw(now)
        if not by_script and busy(now) != ticks:
            st.rerun()

    part()
