"""The worker that all browser sessions share, and the tab that this script runs for."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import streamlit as st

from specviz.ui.session.run_saving import the_run_saver
from specviz.ui.session.tabs import Tabs, the_tabs
from specviz.worker.parent.client import Worker

_TAB = "tab"


@dataclass(frozen=True, slots=True)
class Tab:
    """One browser tab, as the worker's queue knows it."""

    id: str
    worker: Worker = field(compare=False, repr=False)
    tabs: Tabs = field(compare=False, repr=False)


@st.cache_resource(show_spinner=False, on_release=lambda worker: worker.close())
def the_worker() -> Worker:
    """Started when the first page opens, ended with the server. Its runs are saved."""
    worker = Worker(on_over=the_run_saver().save)
    worker.start()
    _started().append(worker)
    return worker


@st.cache_resource(show_spinner=False)
def _started() -> list[Worker]:
    return []


def calibrating_worker() -> Worker | None:
    """The worker, if it measures step costs that somebody asked for; starts none."""
    return next((each for each in _started() if each.status().calibrating), None)


def _release(tab: Tab) -> None:
    """Through the tab's own worker: asking for one while the server ends would start another."""
    tab.tabs.leave(tab.id)
    tab.worker.release(tab.id)


@st.cache_resource(show_spinner=False, scope="session", on_release=_release)
def _the_tab(tab_id: str) -> Tab:
    return Tab(tab_id, the_worker(), the_tabs())


def this_tab() -> Tab:
    """Tells the worker that the tab is still open; some seconds after it closes its runs end.

    A broken connection counts as closing, but the same tab is usually back in time.
    """
    tab = _the_tab(st.session_state.setdefault(_TAB, uuid.uuid4().hex))
    tab.tabs.stay(tab.id)
    the_worker().cancel_release(tab.id)
    return tab


def sit_in(tab_id: str) -> None:
    """Take the place of a tab that was reloaded; before ``this_tab`` is first asked for."""
    st.session_state[_TAB] = tab_id
