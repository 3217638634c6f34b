"""The frame round every page: page config, navigation, the look of Streamlit's own parts.

Because the folder is named ``pages``, Streamlit may run a page by itself, without ``app.py``. So a
page first calls ``require_shell()``, which then opens the frame, and the frame runs the page.

``PAGES`` is the one list of the pages, in the order of the navigation: a new page is one entry.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from specviz import ROOT
from specviz.ui.access import reachable_by_others, the_access
from specviz.ui.session.background_jobs import show_job_line
from specviz.ui.session.link_values import drop_senseless_numbers
from specviz.ui.widgets.pair_boxes import OPEN_PAGE


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its group in the navigation, its name in links, its title.

    A page without a group stands in the bar itself; a group is a menu there. ``drawn_by`` names
    the scripts of Streamlit that draw what it shows first.
    """

    group: str
    name: str
    title: str
    drawn_by: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        return ROOT / "pages" / f"{self.name}.py"


_OURS, _CHART = "BidiComponent", "PlotlyChart"
PAGES = (
    Page("", "watch", "Watch", (_OURS,)),  # the first also opens at /
    Page("", "learn", "Learn", (_OURS,)),
    Page("", "compare", "Compare"),
    Page("", "tune", "Tune", (_CHART,)),
    Page("", "lossless", "Lossless", (_CHART,)),
    Page("", "servers", "Servers"),
    Page("", "runs", "Runs"),
    Page("Theory", "speed", "Speed", (_CHART,)),
    Page("Theory", "rejections", "Rejections", (_CHART,)),
    Page("Theory", "bias", "Bias or speed", (_OURS, _CHART)),
    Page("Theory", "misleading", "When the formula misleads", (_CHART,)),
    Page("Theory", "claims", "Claims"),
)
_STYLE = ROOT / "assets" / "shell.css"
_inside: ContextVar[bool] = ContextVar("inside_shell", default=False)


def open_shell() -> None:
    st.set_page_config(
        page_title="specviz", page_icon=str(ROOT / "assets" / "icon.png"), layout="wide"
    )
    st.html(_STYLE)
    st.logo(ROOT / "assets" / "logo.svg", size="large")
    if reachable_by_others():
        _require_gate()
        st.set_option("client.showErrorDetails", "type")  # a traceback names files of the server
    page = st.navigation(_navigation(), position="top")
    drop_senseless_numbers()
    st.session_state[OPEN_PAGE] = page.url_path
    show_job_line()
    token = _inside.set(True)
    try:
        page.run()
    finally:
        _inside.reset(token)


def _require_gate() -> None:
    """Stop a page that Streamlit serves without app.py, and so without the gate."""
    if not the_access().guarded:
        st.error("This page would be open to everybody. Start specviz with streamlit run app.py.")
        st.stop()


def _navigation() -> dict[str, list[StreamlitPage]]:
    """The pages by their groups."""
    first, groups = PAGES[0], dict.fromkeys(each.group for each in PAGES)
    # Streamlit opens the default page at / only; a second entry opens it by its name.
    front = st.Page(first.file, title=first.title, url_path="start", default=True)
    navigation = {
        group: [_listed(each) for each in PAGES if each.group == group] for group in groups
    }
    navigation[first.group].insert(0, front)
    return navigation


def _listed(page: Page) -> StreamlitPage:
    shown = "hidden" if page is PAGES[0] else "visible"
    return st.Page(page.file, title=page.title, url_path=page.name, visibility=shown)


def require_shell() -> None:
    if not _inside.get():
        open_shell()
        st.stop()
