"""The demo: every page opens with recorded runs, and nothing can be started, sent or stored."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from starlette.testclient import TestClient
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState

from specviz import ROOT
from specviz.access.roles import EVERYBODY, OPEN_OWNER, Action, Person, Role
from specviz.errors import AccessError, SpecvizError
from specviz.folders import DEMO, data_folder, is_demo
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.servers.connection import Connection
from specviz.ui import shell
from specviz.ui.access import Access, AccessGate
from specviz.ui.learn.challenges import CHALLENGES
from specviz.ui.learn.checks import Attempt
from specviz.ui.learn.steps import ENOUGH_DRAWS, STEPS
from specviz.ui.read_only import ReadOnly
from specviz.ui.recorded.learn import RecordedRuns, _offered
from specviz.ui.recorded.pages import SUBSTITUTES
from specviz.ui.session.background_jobs import the_job_queue
from specviz.ui.session.person import the_person
from specviz.ui.session.recordings import RECORDINGS, available, command_of, opened_recording
from specviz.ui.session.run_saving import the_library
from specviz.ui.session.worker import PageWorker, the_worker
from specviz.ui.shell import PAGES
from specviz.worker.parent.client import Worker
from tests.test_houses import MODELS
from tests.ui.demo_pages import IN_THE_DEMO, demo_page, start_demo, texts
from tests.ui.paging import sent

GAMMAS = (1, 3, 5, 8, 12)  # of the recorded runs
NOTE = "This is a demo: runs are recorded"
MAY_START = {
    "Run", "Compare", "Compute", "Start", "Audit", "Ask", "Inject it", "Measure it", "Check",
    "Measure under load", "Measure win rates", "Test this claim on the pair", "Run again",
    "Watch this setting", "Use these lanes in Compare", "Load the embedded pair",
}  # fmt: skip


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    start_demo(monkeypatch, home)
    yield home
    assert list(home.iterdir()) == []
    st.cache_resource.clear()


# Switching it on


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", False), ("0", False), ("no", False), ("1", True), ("true", True), ("tru", True)],
)
def test_every_value_but_no_switches_the_demo_on(
    value: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEMO, value)
    assert is_demo() is expected
    assert the_person() == (EVERYBODY if expected else OPEN_OWNER)


# Pages


@pytest.mark.parametrize("page", IN_THE_DEMO, ids=lambda page: page.name)
def test_every_page_opens_and_offers_nothing_that_cannot_work(page: Any, demo: Path) -> None:
    app = demo_page(page.name)
    assert len(texts(app)) > 80
    assert (NOTE in texts(app)) is (page.needs is not Action.READ)
    assert not {each.label for each in app.button} & MAY_START
    assert not app.get("file_uploader")
    assert [each.value for each in app.error] == []


def test_every_page_that_needs_more_than_reading_has_a_recorded_version() -> None:
    assert {each.name for each in PAGES if each.needs is not Action.READ} == SUBSTITUTES.keys()


@pytest.mark.parametrize("part", ["Quality", "Whole blocks", "Your runs"])
def test_sections_of_bias_open(part: str, demo: Path) -> None:
    app = demo_page("bias", bias_section=part)
    assert not {each.label for each in app.button} & MAY_START


@pytest.mark.parametrize(
    ("page", "key", "tab"),
    [
        ("compare", "compare_tab", "By kind"),
        ("tune", "tune_tab", "Which draft?"),
        ("tune", "tune_tab", "Along the text"),
        ("tune", "tune_tab", "Your engine"),
        ("servers", "servers_tab", "Under load"),
        ("claims", "claims_tab", "Theorems"),
        ("misleading", "misleading_tab", "This machine's batch"),
        ("rejections", "rejections_tab", "On the real pair"),
        ("speed", "speed_tab", "Over α and c"),
    ],
)
def test_tabs_open(page: str, key: str, tab: str, demo: Path) -> None:
    app = demo_page(page, **{key: tab})
    assert not {each.label for each in app.button} & MAY_START
    assert [each.value for each in app.error] == []
    assert "/home/" not in texts(app)
    assert str(ROOT) not in "\n".join([texts(app), *(each.value for each in app.code)])


def test_the_navigation_leaves_out_the_runs(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "runs" not in {each.name for each in shell._offered()}
    monkeypatch.delenv(DEMO)
    assert "runs" in {each.name for each in shell._offered()}


def test_an_owner_gets_the_pages_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "prepare", lambda *_, **__: None)
    app = demo_page("watch")
    assert "Run" in {each.label for each in app.button}
    assert NOTE not in texts(app)


def test_a_student_sees_recorded_results_where_only_owners_measure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    student = Person(key="ada@uni.example", role=Role.STUDENT)
    monkeypatch.setattr(shell, "the_person", lambda: student)
    app = demo_page("compare")
    assert "only owners may compare, tune, check or train" in texts(app)


# Watch


def test_watch_opens_with_the_first_run_and_its_tour(demo: Path) -> None:
    data = sent(demo_page("watch"))
    assert (data["run"]["id"], data["run"]["state"], data["tour"]) == (
        "recorded", "recorded", "ask",
    )  # fmt: skip
    assert data["run"]["recorded_only"]
    assert not data["run"]["forkable"]


def test_each_recording_opens_by_its_link(demo: Path) -> None:
    assert len(available()) == len(RECORDINGS)
    for each in available()[1:]:
        app = demo_page("watch", recording=each.name)
        data = sent(app)
        assert data["run"]["id"] == each.name
        assert data["rounds"]["items"]
        assert data["summary"]["figures"]
        assert command_of(each) in [block.value for block in app.code]


def test_another_prompt_shows_its_runs(demo: Path) -> None:
    app = demo_page("watch")
    app.selectbox(key="recorded_prompt").set_value("The rhyme").run()
    assert app.radio(key="recorded_run").value == "copying"
    assert sent(app)["run"]["id"] == "copying"
    assert app.query_params["recording"] in ("copying", ["copying"])


def test_an_unknown_recording_or_run_opens_the_first(demo: Path) -> None:
    for link in ({"recording": "../../etc/passwd"}, {"run": "0" * 32}):
        app = demo_page("watch", **link)
        assert sent(app)["run"]["id"] == "recorded"
        assert not app.error


# Learn


def test_a_step_is_solved_with_recorded_runs(demo: Path) -> None:
    app = demo_page("learn", step="one_pass")
    for name in ("gamma-1", "gamma-8"):
        app.selectbox(key="learn_recording_one_pass").set_value(name).run()
    assert any("Verifying 2 positions" in each.value for each in app.success)


def test_recordings_solve_every_task_that_the_demo_shows() -> None:
    recorded = {each.name: opened_recording(each) for each in available()}
    second_round = recorded["gamma-3"].trace.rounds[1].num_accepted
    answers = [None, second_round, "leftover", "rises", *GAMMAS]
    own_answer = {"rejection", "costs"}  # a number that the player or a slider shows
    for task in (*STEPS, *CHALLENGES):
        if task.name in RecordedRuns().left_out | own_answer:
            continue
        runs = [recorded[each.name] for each in _offered(task)]
        suited = [each for each in answers if isinstance(each, int) or task.asks != "number"]
        attempts = (Attempt(runs=runs, answer=each, draws=ENOUGH_DRAWS) for each in suited)
        assert any(task.check(each).done for each in attempts), task.name


def test_the_guessing_game_asks_about_a_recorded_run(demo: Path) -> None:
    app = demo_page("learn", learn="guess")
    assert "those of a recorded run" in texts(app)
    app.radio[0].set_value(0).run()
    app.button[0].click().run()
    assert not app.exception


# Refusals


def test_no_run_starts(demo: Path) -> None:
    with pytest.raises(SpecvizError, match="does not load models"):
        the_worker()
    run = PageWorker().submit("tab", PairSpec(), "Once", RunConfig())
    assert run.state == "failed"
    assert isinstance(run.error, AccessError)
    with pytest.raises(AccessError):
        the_job_queue().start(None)  # type: ignore[arg-type]


def test_no_request_is_sent_and_nothing_is_stored(demo: Path) -> None:
    with pytest.raises(SpecvizError, match="does not send requests"):
        Connection("http://127.0.0.1:9", key="SPECVIZ_SERVER_KEY")
    with pytest.raises(SpecvizError, match="does not store runs"):
        the_library()
    with pytest.raises(RuntimeError, match="no data folder"):
        data_folder()


async def _answer(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"reached"})


def test_only_reading_requests_are_answered(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = TestClient(ReadOnly(_answer))
    assert client.get("/").status_code == 200
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        for path in ("/", "/_stcore/upload_file/a/b", "/_stcore/stream", "/runs"):
            assert client.request(method, path).status_code == 403
    assert client.get("/_stcore/upload_file/a/b").status_code == 403
    monkeypatch.delenv(DEMO)
    assert client.put("/_stcore/upload_file/a/b").status_code == 200


OPENS_PAGES = """
import functools, os, sys
from streamlit.components.v2 import manifest_scanner as scanner
from tests.ui.demo_pages import IN_THE_DEMO, demo_page

scanner.scan_component_manifests = functools.cache(scanner.scan_component_manifests)
for each in IN_THE_DEMO:
    demo_page(each.name)
del os.environ["SPECVIZ_DEMO"]
assert demo_page("watch").title
import specviz.ui.watch.run_player, specviz.ui.widgets.run_controls
import specviz.ui.servers.draft_section, specviz.ui.servers.answer_player
import specviz.ui.widgets.pair_panel, specviz.ui.train.sections
import specviz.ui.train.result_section

print(*{name.split(".")[0] for name in sys.modules})
"""


def test_the_pages_import_no_models(tmp_path: Path) -> None:
    """Open all pages of the demo and Watch itself, then import what other pages need."""
    done = subprocess.run(
        [sys.executable, "-c", OPENS_PAGES], cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=300, env=os.environ | {DEMO: "1", "SPECVIZ_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    loaded = set(done.stdout.split())
    assert loaded >= {"streamlit", "specviz"}
    assert not loaded & MODELS


def test_no_message_clears_the_caches_of_the_server(demo: Path) -> None:
    """Streamlit obeys such a message from every tab."""
    messages = [BackMsg(clear_cache=True), BackMsg(rerun_script=ClientState())]
    waiting = [
        {"type": "websocket.receive", "bytes": each.SerializeToString()} for each in messages
    ]
    passed: list[Any] = []

    async def receive() -> Any:
        return waiting.pop(0) if waiting else {"type": "websocket.disconnect", "code": 1000}

    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        while (message := await receive())["type"] == "websocket.receive":
            passed.append(message["bytes"])

    scope = {
        "type": "websocket", "path": "/_stcore/stream", "headers": [], "query_string": b"",
        "server": ("127.0.0.1", 8501), "client": ("127.0.0.1", 50000),
    }  # fmt: skip
    asyncio.run(AccessGate(app, Access(token="a" * 20))(scope, receive, _ignore))
    assert passed == [messages[1].SerializeToString()]


async def _ignore(_message: Any) -> None:
    pass
