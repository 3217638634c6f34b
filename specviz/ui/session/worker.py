"""The worker that all browser sessions share, and the tab of the current script."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from specviz.access.roles import Action
from specviz.errors import AccessError, SpecvizError
from specviz.measure.run_makers import Study
from specviz.record.conversations import TypedPrompt
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.ui.session.model_places import refusal_of
from specviz.ui.session.page_library import current_key
from specviz.ui.session.person import may, refusal, the_person
from specviz.ui.session.run_limits import prompt_refusal, the_run_limits
from specviz.ui.session.run_saving import the_run_saver
from specviz.ui.session.tabs import Tabs, the_tabs
from specviz.worker.parent.client import Check, PairStatus, Room, Run, Worker
from specviz.worker.parent.handles import StudyHandle

_TAB = "tab"


@dataclass(frozen=True, slots=True)
class Tab:
    """One browser tab. Its id is the ``session`` with which its runs are submitted."""

    id: str
    worker: Worker = field(compare=False, repr=False)
    tabs: Tabs = field(compare=False, repr=False)


class PageWorker(Worker):
    """A worker that refuses requests that the current person may not make.

    Only an owner may choose the pair. Some pairs may not be opened by anybody (``model_places``).
    A student may run the loaded pair, within the limits (``run_limits``). If no pair is loaded, a
    student may load the embedded pair.

    A refused request never reaches the worker process. It fails as if the worker process had
    refused it.
    """

    def answers(self, seconds: float) -> bool:
        """Return whether the worker process exists and answers within ``seconds``."""
        link = self._link
        return link is not None and link.answers(seconds)

    def prepare(self, spec: PairSpec, *, fresh: bool = False) -> None:
        action = Action.LOAD if fresh else Action.RUN
        if refusal(action) is None and self._refusal(spec) is None:
            super().prepare(spec, fresh=fresh)

    def _refusal(self, spec: PairSpec) -> SpecvizError | None:
        """Return why the current person may not run this pair, else None."""
        if error := refusal(Action.RUN) or refusal_of(spec):
            return error
        return None if may(Action.LOAD) else self._other_pair(spec)

    def _other_pair(self, spec: PairSpec) -> SpecvizError | None:
        """Return the error if ``spec`` is a pair other than ``given_pair``, else None."""
        if spec == given_pair(self.status()):
            return None
        return AccessError(
            "Only an owner of this dashboard may load another pair.",
            remedy="Run the pair that is loaded.",
        )

    def submit(
        self, session: str, spec: PairSpec, prompt: TypedPrompt, config: RunConfig, **options: Any
    ) -> Run:
        options.setdefault("person", current_key())
        with the_run_limits().turn(session, prompt, config) as (beyond, counted):
            error = self._refusal(spec) or beyond
            if error is None:
                return counted(super().submit(session, spec, prompt, config, **options))
        run = Run(session=session, spec=spec, config=config, on_stop=lambda _run: None)
        run.end("failed", error)
        return run

    def check(
        self, spec: PairSpec, prompts: Sequence[TypedPrompt] = (), *, chat: bool = False
    ) -> Check:
        error = refusal(Action.LOAD) or refusal_of(spec) or prompt_refusal(prompts)
        if error is None:
            return super().check(spec, prompts, chat=chat)
        return refused_check(error)

    def room(self, spec: PairSpec) -> Room:
        error = refusal(Action.RUN) or refusal_of(spec)
        if error is None:
            return super().room(spec)
        room = Room()
        room.end(None, error)
        return room

    def study(self, spec: PairSpec, study: Study) -> StudyHandle:
        error = refusal(Action.MEASURE) or refusal_of(spec)
        if error is None:
            return super().study(spec, study)
        studying = StudyHandle(uuid.uuid4().hex)
        studying.end(None, error)
        return studying

    def unload(self) -> None:
        if may(Action.LOAD):
            super().unload()

    def cancel_loading(self) -> None:
        if may(Action.LOAD):
            super().cancel_loading()

    def cancel_preparing(self, spec: PairSpec) -> None:
        if may(Action.LOAD):
            super().cancel_preparing(spec)

    def end_calibration(self) -> None:
        if may(Action.MANAGE):
            super().end_calibration()

    def _person(self) -> str:
        return the_person().key


def given_pair(status: PairStatus) -> PairSpec:
    """Return the pair for people who may not choose a pair.

    It is the pair that is loaded or being loaded, else the embedded pair.
    """
    return status.spec if status.spec and status.state in ("loading", "ready") else PairSpec()


def refused_check(error: SpecvizError) -> Check:
    check = Check()
    check.end(None, error)
    return check


@st.cache_resource(show_spinner=False, on_release=lambda worker: worker.close())
def the_worker() -> Worker:
    """Return the shared worker, started at the first call. It is stopped with the server."""
    worker = PageWorker(on_over=the_run_saver().save)
    worker.start()
    _started().append(worker)
    return worker


@st.cache_resource(show_spinner=False)
def _started() -> list[PageWorker]:
    return []


def worker_answers(seconds: float) -> bool:
    """Return whether the shared worker was started and its process answers. Start no worker."""
    return any(each.answers(seconds) for each in _started())


def store_unfinished_runs() -> None:
    """Stop the runs in progress, store them, and end the worker. Call this when the server ends."""
    for each in _started():
        each.close()


def calibrating_worker() -> Worker | None:
    """Return the worker while it measures step costs on request, else None. Start no worker."""
    return next((each for each in _started() if each.status().calibrating), None)


def _release(tab: Tab) -> None:
    """Release a closed tab. Use the tab's worker: ``the_worker()`` could start a new worker."""
    tab.tabs.leave(tab.id)
    tab.worker.release(tab.id)


@st.cache_resource(show_spinner=False, scope="session", on_release=_release)
def _the_tab(tab_id: str) -> Tab:
    return Tab(tab_id, the_worker(), the_tabs())


def this_tab() -> Tab:
    """Return the current tab, and notify the worker that it is open.

    The worker stops a tab's runs some seconds after the tab closes. A broken connection counts as
    closing, but the tab usually reconnects before its runs are stopped.
    """
    tab = _the_tab(st.session_state.setdefault(_TAB, uuid.uuid4().hex))
    tab.tabs.stay(tab.id)
    the_worker().cancel_release(tab.id)
    return tab


def resume_tab(tab_id: str) -> None:
    """Make the reloaded tab ``tab_id`` the current tab. Call before the first ``this_tab``."""
    st.session_state[_TAB] = tab_id
