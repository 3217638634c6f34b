"""The frame round every page: page config, navigation, the look of Streamlit's own parts.

A folder named ``pages`` lets a cold server run a page without ``app.py``. So the first thing
that each page does, after its imports, is ``require_shell()``: outside the frame it opens the
frame, which runs the page properly, and ends the bare run.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from specviz import ROOT
from specviz.ui.session.link_values import drop_senseless_numbers
from specviz.ui.widgets.pair_boxes import OPEN_PAGE

_STYLE = ROOT / "assets" / "shell.css"
_RUNS = {"compare": "Compare", "runs": "Runs"}
_THEORY = {
    "speed": "Speed",
    "rejections": "Rejections",
    "bias": "Bias or speed",
    "misleading": "When the formula misleads",
    "claims": "Claims",
}
_inside: ContextVar[bool] = ContextVar("inside_shell", default=False)


def open_shell() -> None:
    st.set_page_config(
        page_title="specviz", page_icon=str(ROOT / "assets" / "icon.png"), layout="wide"
    )
    st.html(_STYLE)
    st.logo(ROOT / "assets" / "logo.svg", size="large")
    page = st.navigation(_pages(), position="top")
    drop_senseless_numbers()
    st.session_state[OPEN_PAGE] = page.url_path
    token = _inside.set(True)
    try:
        page.run()
    finally:
        _inside.reset(token)


def _pages() -> dict[str, list[StreamlitPage]]:
    watch = ROOT / "pages" / "watch.py"
    return {
        "": [
            st.Page(watch, title="Watch", url_path="start", default=True),
            # The default page lives at / alone; a link to /watch should open it too.
            st.Page(watch, title="Watch", url_path="watch", visibility="hidden"),
            *_those(_RUNS),
        ],
        "Theory": _those(_THEORY),
    }


def _those(titles: Mapping[str, str]) -> list[StreamlitPage]:
    return [
        st.Page(ROOT / "pages" / f"{name}.py", title=title, url_path=name)
        for name, title in titles.items()
    ]


def require_shell() -> None:
    if not _inside.get():
        open_shell()
        st.stop()
