"""The shell around every page: page config, navigation, styles.

Streamlit may run a page directly, without ``app.py``, because the pages are in a folder named
``pages``. So each page first calls ``require_shell()``. Outside the shell, this call opens the
shell, and the shell runs the page again.

``PAGES`` lists the pages in the order of the navigation. To add a page, add an entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from html import escape
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from specviz import ROOT
from specviz.access.demo import is_demo
from specviz.access.roles import Action, Person
from specviz.access.sessions import Session
from specviz.errors import AccessError
from specviz.ui.access import reachable_by_others, the_access
from specviz.ui.session.background_jobs import show_job_line
from specviz.ui.session.link_values import drop_invalid_numbers
from specviz.ui.session.page_library import keep_to_one_person
from specviz.ui.session.person import log_out_link, own_session, the_person
from specviz.ui.session.server_rules import guard_outgoing
from specviz.ui.session.settings_notice import show_settings_notice
from specviz.ui.session.tabs import OPEN_PAGE
from specviz.ui.widgets.plain_text import show_error


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its group in the navigation, its name in links, its title.

    The pages of a group form a menu in the navigation bar; a page without a group is an item of the
    bar. ``drawn_by`` names the Streamlit scripts that draw the page's first elements.

    A person who may not do what the page ``needs`` sees recorded runs and results instead.
    """

    group: str
    name: str
    title: str
    drawn_by: tuple[str, ...] = ()
    needs: Action = Action.READ

    @property
    def file(self) -> Path:
        return ROOT / "pages" / f"{self.name}.py"


_OURS, _CHART = "BidiComponent", "PlotlyChart"
PAGES = (
    Page("", "watch", "Watch", (_OURS,), Action.RUN),  # also opens at /
    Page("", "learn", "Learn", (_OURS,), Action.RUN),
    Page("", "compare", "Compare", (), Action.MEASURE),
    Page("", "tune", "Tune", (_CHART,), Action.MEASURE),
    Page("", "train", "Train", (_CHART,), Action.MEASURE),
    Page("", "lossless", "Lossless", (_CHART,), Action.MEASURE),
    Page("", "servers", "Servers", (), Action.ASK_SERVER),
    Page("", "runs", "Runs"),
    Page("", "docs", "Docs"),
    Page("Theory", "speed", "Speed", (_CHART,)),
    Page("Theory", "rejections", "Rejections", (_CHART,)),
    Page("Theory", "bias", "Bias or speed", (_OURS, _CHART)),
    Page("Theory", "misleading", "When the formula misleads", (_CHART,)),
    Page("Theory", "claims", "Claims", (), Action.MEASURE),
)
_NEEDS_LIBRARY = "runs"  # the page that the demo leaves out
_STYLE = ROOT / "assets" / "shell.css"
# Streamlit marks the link of the open page. It does not mark the menu with this link, nor
# the first page if it was opened by its name instead of at /.
_MARK = "<style>{} {{ background: #abb5a140; border-radius: 6px; font-weight: 600; }}</style>"
_MENU = '[data-testid="stTopNavSection"]'
_FIRST_LINK = '.rc-overflow-item:first-child [data-testid="stTopNavLink"]'
_LOGIN = (
    '<p class="sv-login"><span title="{who}">{who}</span> '
    '<a href="{link}" target="_self" rel="noreferrer">Log out</a></p>'
)
_inside: ContextVar[bool] = ContextVar("inside_shell", default=False)


def open_shell() -> None:
    st.set_page_config(
        page_title="specviz", page_icon=str(ROOT / "assets" / "icon.png"), layout="wide"
    )
    st.html(_STYLE)
    st.logo(ROOT / "assets" / "logo.svg", size="large")
    if reachable_by_others():
        _require_gate()
        st.set_option("client.showErrorDetails", "type")  # tracebacks show file paths of the server
    person = the_person()
    keep_to_one_person()
    guard_outgoing()
    page = st.navigation(_navigation(), position="top")
    shown = next((each for each in PAGES if each.name == page.url_path), None)
    if shown is not None and (shown.group or shown is PAGES[0]):
        st.html(_MARK.format(_MENU if shown.group else _FIRST_LINK))
    if (session := own_session()) is not None:
        _show_login(person, session)
    drop_invalid_numbers()
    st.session_state[OPEN_PAGE] = page.url_path
    if not is_demo():
        show_settings_notice()
    token = _inside.set(True)
    try:
        _run(page, shown or PAGES[0])
    except AccessError as error:
        show_error(error)
    finally:
        _inside.reset(token)


def _show_login(person: Person, session: Session) -> None:
    who = f"{person.key}, {person.role.name.lower()}" if person.key else "owner"
    st.html(_LOGIN.format(who=escape(who), link=escape(log_out_link(session))))


def _run(opened: StreamlitPage, page: Page) -> None:
    """Run the page's file or, for a person who may not use the page, its recorded version."""
    if the_person().may(page.needs):
        if not is_demo():
            show_job_line()
        opened.run()
        return
    from specviz.ui.recorded.pages import SUBSTITUTES, show_note

    show_note(page.needs)
    SUBSTITUTES[page.name]()


def _require_gate() -> None:
    """Stop the script with an error if no gate guards the pages.

    This happens if Streamlit was started without app.py.
    """
    if not the_access().guarded:
        st.error(
            "Streamlit was started without app.py, so this page would be open to everybody. Start "
            "specviz with streamlit run app.py."
        )
        st.stop()


def _navigation() -> dict[str, list[StreamlitPage]]:
    """Return the pages for the navigation, by the title of their group."""
    first, groups = PAGES[0], dict.fromkeys(each.group for each in PAGES)
    # Streamlit opens the default page only at /; a second entry makes it available by name.
    front = st.Page(first.file, title=first.title, url_path="start", default=True)
    navigation = {
        group: [_listed(each) for each in _offered() if each.group == group] for group in groups
    }
    navigation[first.group].insert(0, front)
    return navigation


def _offered() -> Iterator[Page]:
    return (each for each in PAGES if not (is_demo() and each.name == _NEEDS_LIBRARY))


def _listed(page: Page) -> StreamlitPage:
    shown = "hidden" if page is PAGES[0] else "visible"
    return st.Page(page.file, title=page.title, url_path=page.name, visibility=shown)


def require_shell() -> None:
    if not _inside.get():
        open_shell()
        st.stop()
