"""The worker that all browser sessions share, and the tab that this script runs for."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import streamlit as st

from specviz.ui.session.keeper import the_keeper
from specviz.worker.parent.client import Worker

_TAB = "tab"


@dataclass(frozen=True, slots=True)
class Tab:
    """One browser session, as the worker's queue knows it."""

    id: str
    worker: Worker = field(compare=False, repr=False)


@st.cache_resource(show_spinner=False, on_release=lambda worker: worker.close())
def the_worker() -> Worker:
    """Started when the first page opens; ended with the server. Its runs are kept."""
    worker = Worker(on_over=the_keeper().keep)
    worker.start()
    return worker


def _release(tab: Tab) -> None:
    """By the worker that it had: when the server ends there is no other, and none is started."""
    tab.worker.release(tab.id)


@st.cache_resource(show_spinner=False, scope="session", on_release=_release)
def _the_tab(tab_id: str) -> Tab:
    return Tab(tab_id, the_worker())


def this_tab() -> Tab:
    """Says that the tab lives; when it closes, its runs end after a grace.

    A connection that breaks off lets go of it too; the same tab then comes back in time.
    """
    tab = _the_tab(st.session_state.setdefault(_TAB, uuid.uuid4().hex))
    the_worker().cancel_release(tab.id)
    return tab
