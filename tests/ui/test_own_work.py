"""Live runs, tabs and background jobs of other persons."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from specviz.record.pairs import LIBRARY, PairSpec
from specviz.record.trace import RunConfig
from specviz.store import Library
from specviz.ui.session import background_jobs, person, tabs
from specviz.ui.session import worker as session_worker
from specviz.ui.session.background_jobs import jobs_going, run_maker, shown_job, visible_jobs
from specviz.ui.session.history import History
from specviz.ui.session.model_places import refusal_of
from specviz.ui.session.run_saving import RunSaver
from specviz.ui.session.tabs import Tabs, the_tabs
from specviz.ui.session.worker import PageWorker
from specviz.worker.parent.client import Run, Worker
from tests.store.persons import ADA, PERSONS
from tests.traces import full_trace
from tests.ui.paging import opened, sent, sound
from tests.ui.runs_page import home
from tests.ui.test_kept_runs import finished_run

__all__ = ["home"]  # fixture

Login = Callable[[str], None]


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> Login:
    return lambda role: monkeypatch.setattr(person, "the_person", lambda: PERSONS[role])


# Tabs


def test_a_tab_of_another_person_is_treated_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabs, "_CLOSING_SECONDS", 5.0)
    held = Tabs()
    held.keep("key", "tab", "shown", ADA)
    began = time.monotonic()
    for other in ("", "bob@uni.example"):
        assert held.take("key", other) is None
    assert held.take("missing", ADA) is None
    assert time.monotonic() - began < 1.0  # an open tab of another person is not waited for
    held.leave("tab")
    assert held.take("key", "") is None
    assert held.take("key", ADA) == ("tab", "shown")


@pytest.mark.parametrize(("role", "run"), [("ada", "live"), ("viewer", "recorded"), ("owner", "")])
def test_a_link_restores_only_a_tab_of_its_person(role: str, run: str, login: Login) -> None:
    history, live = History(), finished_run(full_trace())
    history.add(live)
    the_tabs().keep("key-of-ada", "tab-of-ada", history, ADA)
    the_tabs().leave("tab-of-ada")
    login(role)
    app = opened(tab="key-of-ada")
    assert (sent(app)["run"]["id"] == live.id) == (run == "live")
    assert (app.session_state["tab"] == "tab-of-ada") == (run == "live")
    sound(app.run())


# Whose run is stored


def test_a_run_is_stored_for_the_person_who_submitted_it(
    login: Login, monkeypatch: pytest.MonkeyPatch, home: None
) -> None:
    given: dict[str, Any] = {}

    def submit(_worker: Worker, *args: Any, **options: Any) -> Run:
        given.update(options)
        run = finished_run(full_trace())
        run.person = options["person"]
        return run

    monkeypatch.setattr(Worker, "submit", submit)
    login("ada")
    run = PageWorker().submit("tab", PairSpec(), "prompt", RunConfig())
    login("owner")  # the run ends in a thread, while others use the dashboard
    RunSaver().save(run)
    assert Library().row(run.id).person == given["person"] == ADA
    assert PageWorker().submit("tab", PairSpec(), "prompt", RunConfig()).person == ""


def test_the_runs_of_a_job_are_stored_for_the_person_who_started_it(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_jobs, "the_worker", PageWorker)
    login("ada")
    maker = run_maker()
    login("owner")
    assert maker._person == ADA


def test_the_worker_passes_the_person_on() -> None:
    worker = Worker()
    worker.start = lambda: None  # type: ignore[method-assign]
    run = worker.submit("tab", PairSpec(), "prompt", RunConfig(), person=ADA)
    assert run.person == ADA


# Background jobs


class FakeQueue:
    jobs = going = ("a job of the owner",)

    def find(self, _job: str | None) -> str:
        return self.jobs[0]

    newest = find


@pytest.mark.parametrize(("role", "sees"), [("viewer", False), ("ada", False), ("owner", True)])
def test_only_the_owner_sees_background_jobs(
    role: str, sees: bool, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_jobs, "the_job_queue", FakeQueue)
    login(role)
    assert bool(visible_jobs()) == bool(jobs_going()) == sees
    assert (shown_job("prompt", str) is not None) == sees  # type: ignore[type-var]
    assert (background_jobs.linked_job() is not None) == sees


# The stored runs as texts for suffix lookup


@pytest.mark.parametrize(("role", "refused"), [("viewer", True), ("ada", True), ("owner", False)])
def test_only_the_owner_drafts_from_all_stored_runs(
    role: str, refused: bool, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.ui.session.model_places.is_in_script", lambda: True)
    login(role)
    spec = replace(PairSpec(), suffix_texts=LIBRARY)
    assert (refusal_of(spec) is not None) == refused
    assert refusal_of(PairSpec()) is None
    if refused:
        monkeypatch.setattr(session_worker, "refusal_of", refusal_of)
        run = PageWorker().submit("tab", spec, "prompt", RunConfig())
        assert run.state == "failed"
