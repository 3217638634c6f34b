"""The worker that all browser sessions share, and the tab that this script runs for."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import streamlit as st

from specviz.worker.client import Worker


@dataclass(frozen=True, slots=True)
class Tab:
    """One browser session, as the worker's queue knows it."""

    id: str


@st.cache_resource(show_spinner=False, on_release=lambda worker: worker.close())
def the_worker() -> Worker:
    """Started when the first page opens; ended with the server."""
    worker = Worker()
    worker.start()
    return worker


def _release(tab: Tab) -> None:
    the_worker().release(tab.id)


@st.cache_resource(show_spinner=False, scope="session", on_release=_release)
def _this_tab() -> Tab:
    return Tab(uuid.uuid4().hex)


def this_tab() -> Tab:
    """Says that the tab lives; when it closes, its runs end after a grace."""
    tab = _this_tab()
    the_worker().keep(tab.id)
    return tab
