"""The worker that all browser sessions share, and the tab that this script runs for."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from specviz.errors import SpecvizError
from specviz.measure.run_makers import Study
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.ui.session.model_places import refusal_of
from specviz.ui.session.run_saving import the_run_saver
from specviz.ui.session.tabs import Tabs, the_tabs
from specviz.worker.parent.client import Check, Room, Run, Worker
from specviz.worker.parent.handles import Studying

_TAB = "tab"


@dataclass(frozen=True, slots=True)
class Tab:
    """One browser tab, as the worker's queue knows it."""

    id: str
    worker: Worker = field(compare=False, repr=False)
    tabs: Tabs = field(compare=False, repr=False)


class PageWorker(Worker):
    """A worker that refuses the pairs that this dashboard does not open; see ``model_places``.

    What is refused fails as if the process had refused it, but the process is not asked.
    """

    def prepare(self, spec: PairSpec, *, fresh: bool = False) -> None:
        if refusal_of(spec) is None:
            super().prepare(spec, fresh=fresh)

    def submit(
        self, session: str, spec: PairSpec, prompt: str, config: RunConfig, **options: Any
    ) -> Run:
        error = refusal_of(spec)
        if error is None:
            return super().submit(session, spec, prompt, config, **options)
        run = Run(session=session, spec=spec, config=config, on_stop=lambda _run: None)
        run.end("failed", error)
        return run

    def check(self, spec: PairSpec, prompts: Sequence[str] = (), *, chat: bool = False) -> Check:
        error = refusal_of(spec)
        if error is None:
            return super().check(spec, prompts, chat=chat)
        return refused_check(spec, error)

    def room(self, spec: PairSpec) -> Room:
        error = refusal_of(spec)
        if error is None:
            return super().room(spec)
        room = Room(spec)
        room.end(None, error)
        return room

    def study(self, spec: PairSpec, study: Study) -> Studying:
        error = refusal_of(spec)
        if error is None:
            return super().study(spec, study)
        studying = Studying(spec, uuid.uuid4().hex)
        studying.end(None, error)
        return studying


def refused_check(spec: PairSpec, error: SpecvizError) -> Check:
    check = Check(spec)
    check.end(None, error)
    return check


@st.cache_resource(show_spinner=False, on_release=lambda worker: worker.close())
def the_worker() -> Worker:
    """Started when the first page opens, ended with the server. Its runs are saved."""
    worker = PageWorker(on_over=the_run_saver().save)
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
