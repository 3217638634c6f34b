"""Events of the player: handled once, only for the shown run, and validated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
import streamlit as st

from specviz.record.forks import Fork
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig, Trace
from specviz.store import Library
from specviz.store.saving import save_run, summary_of
from specviz.ui.runs import table
from specviz.ui.session.history import RECORDED, History, recorded_run
from specviz.ui.session.moments import valid_moment
from specviz.ui.watch import player_events
from specviz.ui.watch.sharing import show_downloads
from specviz.worker.parent.client import Run, Worker
from tests.traces import full_trace
from tests.ui.paging import opened, sent, sound, until


class FakeWorker:
    """A worker that only records requests."""

    def __init__(self) -> None:
        self.runs: list[tuple[PairSpec, str, RunConfig]] = []

    def submit(
        self, session: str, spec: PairSpec, prompt: str, config: RunConfig, *, before_kernels: bool
    ) -> Run:
        assert before_kernels
        self.runs.append((spec, prompt, config))
        run = Run(session=session, spec=spec, config=config, on_stop=lambda _: None)
        run.end("stopped")
        return run


@pytest.fixture
def history() -> History:
    history = History()
    history.open("kept", "a run", sampled())
    return history


def sampled() -> Trace:
    trace = full_trace()
    return replace(trace, config=replace(trace.config, temperature=0.7))


def handle(
    history: History, state: dict[str, Any], patch: pytest.MonkeyPatch
) -> tuple[bool, FakeWorker]:
    worker = FakeWorker()
    patch.setattr(player_events, "player_state", lambda _key, name: state.get(name))
    drawn = player_events.handle_player_events(cast("Worker", worker), history, "tab", "player")
    return drawn, worker


REQUEST: dict[str, Any] = {"run": "kept", "round": 0, "place": 0, "number": 5, "draw": 0.25}


def test_a_fork_request_is_handled_once(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, worker = handle(history, {"fork": {**REQUEST, "rank": None}}, monkeypatch)
    trace = sampled()
    token = trace.rounds[0].candidates[0].token_id
    fork = Fork(round=0, place=0, token_id=token, uniform=0.25, of="kept")
    [(_, prompt, config)] = worker.runs
    assert drawn
    assert prompt == trace.prompt.text
    assert config == replace(trace.config, forks=(fork,))
    assert history.opened is None
    again, worker = handle(history, {"fork": {**REQUEST, "rank": None}}, monkeypatch)
    assert (again, worker.runs) == (False, [])


def finished_run(trace: Trace) -> Run:
    run = Run(session="tab", spec=PairSpec(), config=trace.config, on_stop=lambda _: None)
    run.conclude(replace(trace, rounds=()))
    for entry in trace.rounds:
        run.add(entry)
    run.end("done")
    return run


def test_redraws_before_the_first_round_begin_no_second_fork(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The player shows the original run until the fork has a round."""
    history, original = History(), finished_run(sampled())
    history.add(original)
    request = {"fork": {**REQUEST, "rank": None, "run": original.id}}
    drawn, worker = handle(history, request, monkeypatch)
    assert (drawn, len(worker.runs)) == (True, 1)
    assert history.shown().id == original.id
    again, worker = handle(history, request, monkeypatch)
    assert (again, worker.runs) == (False, [])
    request["fork"]["number"] += 1
    _, worker = handle(history, request, monkeypatch)
    assert len(worker.runs) == 1


def test_a_fork_stops_the_run_without_a_body(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[Run] = []
    config = sampled().config
    extra = Run(session="tab", spec=PairSpec(), config=config, on_stop=stopped.append)
    history.run_without_body, history.own["kept"] = ("kept", extra), None
    handle(history, {"fork": {**REQUEST, "rank": None}}, monkeypatch)
    assert stopped == [extra]
    assert (history.run_without_body, history.own) == (None, {})


@pytest.mark.parametrize(
    "event",
    [
        None, "fork", {}, {**REQUEST, "run": "another"}, {**REQUEST, "round": 10**9},
        {**REQUEST, "round": -1}, {**REQUEST, "place": -1}, {**REQUEST, "place": 60},
        {**REQUEST, "draw": "0.5"}, {**REQUEST, "draw": None}, {**REQUEST, "round": 0.5},
        {**REQUEST, "rank": 10**6, "draw": None}, {**REQUEST, "rank": 1}, {**REQUEST, "more": 1},
    ],
)  # fmt: skip
def test_invalid_forks_are_ignored(
    event: object, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, worker = handle(history, {"fork": event}, monkeypatch)
    assert (drawn, worker.runs) == (False, [])


def test_the_recorded_run_is_forked_without_a_link_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History()
    drawn, worker = handle(history, {"fork": {**REQUEST, "run": RECORDED}}, monkeypatch)
    ((spec, prompt, config),) = worker.runs
    recorded = recorded_run().trace
    assert drawn
    assert spec == PairSpec(target_body="90M")
    assert prompt == recorded.prompt.text
    assert [(each.at, each.of) for each in config.forks] == [((0, 0), None)]


def test_the_recorded_run_can_be_forked_once_its_pair_is_loaded() -> None:
    app = opened()
    until(app, lambda: sent(app)["run"]["forkable"])
    assert sent(app)["run"]["id"] == RECORDED


def replay_of(history: History, patch: pytest.MonkeyPatch) -> str:
    """Return the replay that the page offers."""
    offered: dict[str, str] = {}
    patch.setattr(st, "download_button", lambda label, data, **_: offered.update({label: data}))
    show_downloads(history)
    return offered["Download a replay (HTML)"]


def test_a_replay_opens_at_the_requested_moment(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = replay_of(history, monkeypatch)
    at = {"round": "2", "token": "2.1", "strange": "x" * 9, "speed": "9" * 99}
    drawn, _ = handle(history, {"moment": {"run": "kept", "at": at, "number": 1}}, monkeypatch)
    after = replay_of(history, monkeypatch)
    assert drawn
    assert '"moment":null' in before
    assert '"moment":{"round":"2","token":"2.1"}' in after


def test_a_replay_opens_at_the_last_requested_moment(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        event = {"run": "kept", "at": {"round": str(number), "step": "1"}, "number": number}
        handle(history, {"moment": event}, monkeypatch)
        replay = replay_of(history, monkeypatch)
        assert f'"moment":{{"round":"{number}","step":"1"}}' in replay


def test_a_moment_that_is_not_unicode_is_ignored(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = {"run": "kept", "at": {"round": "\ud83d"}, "number": 1}
    drawn, _ = handle(history, {"moment": event}, monkeypatch)
    assert not drawn


def test_a_moment_in_a_link_reaches_the_player() -> None:
    run = save_run(Library(), sampled())
    moment = {"round": "2", "step": "3", "token": "2.1", "speed": "2", "draw": "0.25"}
    app = opened(run=run, **moment)
    assert sent(app)["moment"] == moment
    assert sent(app)["link"]["kept"]
    assert sent(app)["run"]["forkable"]
    app.button(key="close_opened").click().run()
    assert sent(app)["moment"] is None
    assert valid_moment({"round": "", "speed": "x" * 25}) == {}


def test_a_new_moment_in_the_link_replaces_the_old_one() -> None:
    run = save_run(Library(), sampled())
    app = opened(run=run, round="1", token="1.1")
    app.query_params["round"] = "2"
    del app.query_params["token"]
    assert sent(sound(app.run()))["moment"] == {"round": "2"}


def test_a_saved_fork_is_shown_beside_the_original() -> None:
    trace = sampled()
    library = Library()
    other = save_run(library, trace)
    judged = trace.rounds[0].candidates[0]
    fork = Fork(round=0, place=0, token_id=judged.token_id, uniform=judged.uniform, of=other)
    forked = replace(trace, config=replace(trace.config, forks=(fork,)))
    run = save_run(library, forked)
    data = sent(opened(run=run))
    assert data["forked"]["id"] == other
    assert "".join(data["forked"]["texts"]) in trace.text
    assert summary_of(forked).fork == "round 1, token 1"
    assert "forked at round 1, token 1" in table._what_differs(library.row(run))
    library.delete([other])
    library.purge(older_than_days=-1)
    assert sent(opened(run=run))["forked"] is None
