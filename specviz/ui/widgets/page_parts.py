"""Parts of the theory pages: headings, formulas, charts with their provenance, sliders.

Every setting is in the link, so that a claim can open a chart exactly where it flips.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import plotly.graph_objects as go
import streamlit as st

Provenance = Literal["exact", "simulated", "measured", "reported"]
_MARKS: dict[Provenance, str] = {
    "exact": ":blue-badge[exact]",
    "simulated": ":orange-badge[simulated]",
    "measured": ":green-badge[measured]",
    "reported": ":gray-badge[reported]",
}


def show_heading(title: str, lead: str) -> None:
    with st.container(key="title", gap=None):
        st.title(title, anchor=False)
        st.caption(lead)


def show_distribution(latex: str, symbols: Mapping[str, str], source: str = "") -> None:
    """A formula, the meaning of its letters, and its source.

    ``symbols`` maps a letter in LaTeX to its meaning.
    """
    with st.container(border=True, key=None, gap="small"):
        st.latex(latex)
        meanings = "; ".join(f"${letter}$ {meaning}" for letter, meaning in symbols.items())
        st.caption(f"{meanings}.  \n{source}")


def show_reference() -> None:
    """Where the algorithm itself can be read."""
    st.caption(
        "The whole algorithm, without caches and timing, is one screen of code: "
        "`specviz/engine/reference.py`. It writes the same tokens as the engine."
    )


def show_chart(
    figure: go.Figure, note: str, *provenance: Provenance, key: str, **options: Any
) -> Any:
    """A chart; above it a note and badges: exact, simulated, measured, reported.

    ``options`` go to ``st.plotly_chart``, whose answer is returned.
    """
    marks = " ".join(_MARKS[each] for each in provenance)
    st.caption(f"{marks} {note}")
    return st.plotly_chart(
        figure, key=key, config={"displayModeBar": False, "scrollZoom": False}, **options
    )


def slider(
    label: str,
    low: float,
    high: float,
    default: float,
    *,
    key: str,
    step: float,
    hint: str = "",
    form: str | None = None,
) -> float:
    """A number on a slider, kept in the link under its key; ``form`` as in printf."""
    return st.slider(
        label, low, high, default, step, form, key=key, help=hint or None, bind="query-params"
    )


def whole_slider(label: str, low: int, high: int, default: int, *, key: str, hint: str = "") -> int:
    """A whole number on a slider, kept in the link under its key."""
    return st.slider(label, low, high, default, 1, key=key, help=hint or None, bind="query-params")
