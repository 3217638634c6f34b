"""The bars alone, with the values from the browser written below."""

from __future__ import annotations

import streamlit as st

from specviz.theory.examples import WORKED_EXAMPLE, Example
from specviz.ui.widgets.distribution_bars import MOST_TOKENS, show_bars

FULL = Example(
    name="full",
    labels=tuple(f"token{at}" for at in range(MOST_TOKENS)),
    draft=tuple((at + 1) / 36 for at in range(MOST_TOKENS)),
    target=tuple((MOST_TOKENS - at) / 36 for at in range(MOST_TOKENS)),
    source="As many tokens as there may be.",
)


def draw() -> None:
    st.title("Bars")
    example = FULL if "full" in st.query_params else WORKED_EXAMPLE
    unsafe = "<b>x</b>\u202e" if "unsafe" in st.query_params else None
    labels = tuple(unsafe or label for label in example.labels)
    draft, target = show_bars(example.draft, example.target, labels, key="bars")
    st.code(repr({"draft": draft, "target": target}), language=None, wrap_lines=True)
