"""The library as the person of the current script may see and change it.

Each call asks for the person again, so a change of the role takes effect at once. There is no
current person outside a script: in a background job, for example, or in the function that makes a
download. There, the library belongs to the person whose script created the library.
"""

from __future__ import annotations

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from specviz.access.demo import refuse_in_demo
from specviz.access.roles import EVERYBODY, OPEN_OWNER, Person
from specviz.store import Library, Viewpoint, stored_key, viewpoint_of
from specviz.ui.session import person

_PERSON = "person of this session"  # session state


class PageLibrary(Library):
    """The library in the current data folder, with the viewpoint of the current person."""

    def __init__(self) -> None:
        super().__init__()
        self._made_by = current_person()

    @property
    def viewpoint(self) -> Viewpoint:
        return viewpoint_of(current_person() if is_in_script() else self._made_by)


def the_library() -> Library:
    """Return the library in the current data folder; raises SpecvizError in demo mode."""
    refuse_in_demo("store runs")
    return PageLibrary()


def current_person() -> Person:
    return person.the_person()


def is_in_script() -> bool:
    """Return whether this thread runs the script of a page."""
    return get_script_run_ctx(suppress_warning=True) is not None


def current_key() -> str:
    """Return the key under which the current person's runs are stored."""
    return stored_key(current_person())


def current_viewpoint() -> Viewpoint:
    return viewpoint_of(current_person())


def sees_others() -> bool:
    """Return whether the current person sees other people's runs and background jobs."""
    return current_viewpoint().sees_all


def is_logged_in() -> bool:
    """Return whether the current person logged in. If so, other persons may log in, too."""
    return current_person() not in (OPEN_OWNER, EVERYBODY)


def keep_to_one_person() -> None:
    """Clear the session's state if the session now belongs to another person.

    A browser may log in as somebody else while a page is open. Call this before the page is drawn.
    """
    key = current_person().key
    if st.session_state.setdefault(_PERSON, key) != key:
        st.session_state.clear()
        st.session_state[_PERSON] = key
