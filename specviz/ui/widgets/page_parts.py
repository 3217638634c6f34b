"""Parts of the theory pages: headings, formulas, charts with their provenance, sliders.

A page's link contains all settings of the page. So the page Claims can link to a chart that shows
where a claim stops being true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from specviz.theory.papers import PAPER_LETTERS
from specviz.ui.docs.chapters import chapter_link
from specviz.ui.widgets.symbols import with_cards

Provenance = Literal["exact", "simulated", "measured", "predicted", "reported"]
# Meanings of symbols that formulas on several pages use, by LaTeX symbol.
PROBABILITIES = {
    r"p_{\text{draft}},\, p_{\text{target}}": "a token's probability under draft and under target",
}
DISTANCE = (
    "distance (TV) between draft and target: half the sum of the absolute differences of their "
    "probabilities"
)
_MARKS: dict[Provenance, str] = {
    "exact": ":blue-badge[exact]",
    "simulated": ":orange-badge[simulated]",
    "measured": ":green-badge[measured]",
    "predicted": ":orange-badge[predicted]",
    "reported": ":gray-badge[reported]",
}


def show_heading(title: str, lead: str) -> None:
    """Draw the title of a page with a link to its chapter, and a sentence below it."""
    with st.container(key="title", gap=None):
        st.title(f"{title} :small[{chapter_link()}]", anchor=False)
        st.caption(with_cards(lead), unsafe_allow_html=True)


def page_head() -> DeltaGenerator:
    """Return the container at the top of a page for the heading and the buttons beside it."""
    return st.container(horizontal=True, vertical_alignment="center", key="head")


def show_tabs(key: str, sections: Mapping[str, Callable[[], None]]) -> None:
    """Draw sections as tabs. Only the open tab is computed; the link contains its title."""
    tabs = st.tabs(list(sections), key=key, bind="query-params")
    for tab, show in zip(tabs, sections.values(), strict=True):
        if tab.open:
            with tab:
                show()


def show_formula(latex: str, symbols: Mapping[str, str], source: str = "") -> None:
    """Draw a formula, the meanings of its ``symbols`` (by LaTeX symbol), and its source."""
    with st.container(border=True, key=None, gap="small"):
        st.latex(latex)
        meanings = "; ".join(f"${letter}$ {meaning}" for letter, meaning in symbols.items())
        st.caption(f"{meanings}.  \n{source}")


def show_reference() -> None:
    """Draw a sentence that names the source file with the whole algorithm in its simplest form."""
    st.caption(
        "`specviz/engine/reference.py` is the whole algorithm on one screen, without caches and "
        "timing. It emits the same tokens as the engine."
    )


def show_letters() -> None:
    """Draw a legend of the letters that papers use for draft and target."""
    papers: dict[tuple[str, str], list[str]] = {}
    for each in PAPER_LETTERS:
        papers.setdefault((each.draft, each.target), []).append(each.paper)
    legend = "; ".join(
        f"{' and '.join(named)} write *{draft}* for the draft and *{target}* for the target"
        for (draft, target), named in papers.items()
    )
    st.caption(f"{legend}. This page writes “draft” and “target” in full.")


def show_chart(
    figure: go.Figure, note: str, *provenance: Provenance, key: str, **options: Any
) -> Any:
    """Draw a chart, with a note and badges for the chart's provenance above it.

    ``options`` are passed to ``st.plotly_chart``, whose result is returned.
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
    """Draw a slider for a number. The link contains the number under ``key``.

    ``form`` is the printf-style format of the shown value.
    """
    return st.slider(
        label, low, high, default, step, form, key=key, help=hint or None, bind="query-params"
    )


def whole_slider(label: str, low: int, high: int, default: int, *, key: str, hint: str = "") -> int:
    """Draw a slider for an integer. The link contains the integer under ``key``."""
    return st.slider(label, low, high, default, 1, key=key, help=hint or None, bind="query-params")
