"""A download is served only to the person for whom it was made, and to the owner."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from starlette.types import Message, Receive, Scope, Send

from specviz.access.roles import EVERYBODY, OPEN_OWNER, Person, Role
from specviz.ui import downloads
from specviz.ui.access import PERSON_IN_SCOPE
from specviz.ui.downloads import (
    OfferedFiles,
    OwnDownloads,
    download_button,
    the_offered_files,
)
from specviz.ui.serving import MIDDLEWARE
from specviz.ui.session import person
from tests.store.persons import ADA, PERSONS
from tests.ui.gated_dashboard import Dashboard, dashboard

__all__ = ["dashboard"]  # fixture

HASH = "0123456789abcdef" * 2
BOB = Person(key="bob@uni.example", role=Role.STUDENT)
SECRET = b"the trace of ada"


@pytest.fixture(autouse=True)
def files(monkeypatch: pytest.MonkeyPatch) -> OfferedFiles:
    made = OfferedFiles()
    monkeypatch.setattr(downloads, "the_offered_files", lambda: made)
    return made


def offered(data: Any, role: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Draw a download button for a person; return the data that Streamlit gets."""
    drawn: list[Any] = []
    monkeypatch.setattr(st, "download_button", lambda _label, given, *_, **__: drawn.append(given))
    monkeypatch.setattr(person, "the_person", lambda: PERSONS[role])
    download_button("Download", data, "file.json", key="x")
    return drawn[0]


def asked_path(path: str, who: Person | None, **scope: Any) -> str:
    """Return the path with which the request reaches Streamlit."""
    reached: list[Scope] = []

    async def streamlits(inner: Scope, _receive: Receive, _send: Send) -> None:
        reached.append(inner)

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(_message: Message) -> None: ...

    request = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), **scope}
    if who is not None:
        request[PERSON_IN_SCOPE] = who
    kept = {HASH: SECRET}
    asyncio.run(OwnDownloads(streamlits, kept.get)(request, receive, send))
    assert reached[0].get("raw_path", b"").decode() == reached[0]["path"]
    return reached[0]["path"]


def is_served(who: Person | None, path: str = f"/media/{HASH}.json", **scope: Any) -> bool:
    return asked_path(path, who, **scope) == path


@pytest.mark.parametrize(
    ("who", "served"),
    [
        (PERSONS["ada"], True),
        (BOB, False),
        (PERSONS["viewer"], False),
        (Person(key=ADA, role=Role.VIEWER), False),  # the role ended
        (EVERYBODY, False),
        (None, False),
        (PERSONS["owner"], True),
        (OPEN_OWNER, True),
    ],
)
def test_a_file_is_served_to_its_person(
    who: Person | None, served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered(SECRET, "ada", monkeypatch)
    assert is_served(who) == served


@pytest.mark.parametrize(
    "path",
    [f"/media/{HASH}", f"/media/{HASH}.json", f"/base/media/{HASH}.json", f"/media/{HASH}.x"],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_no_spelling_of_the_address_helps(
    path: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered(SECRET, "ada", monkeypatch)
    assert not is_served(BOB, path, method=method, headers=[(b"range", b"bytes=0-3")])


def test_a_refused_file_is_answered_as_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    offered(SECRET, "ada", monkeypatch)
    path = asked_path(f"/media/{HASH}.json", BOB)
    assert path == f"/media/{'0' * 32}"  # Streamlit has no such file


def test_a_file_made_on_a_click_belongs_to_the_person_of_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make = offered(SECRET.decode, "ada", monkeypatch)
    monkeypatch.setattr(person, "the_person", lambda: PERSONS["owner"])  # outside of a script
    assert not is_served(PERSONS["ada"])
    assert make() == SECRET.decode()
    assert is_served(PERSONS["ada"])
    assert not is_served(BOB)


def test_the_same_content_belongs_to_each_person_who_got_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offered(SECRET, "ada", monkeypatch)
    offered(SECRET, "viewer", monkeypatch)
    assert is_served(PERSONS["ada"])
    assert is_served(PERSONS["viewer"])
    assert not is_served(BOB)


def test_a_file_that_nobody_was_offered_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_served(PERSONS["ada"])
    assert is_served(PERSONS["owner"])


@pytest.mark.parametrize("role", ["open", "demo"])
def test_without_a_login_nothing_is_noted_or_refused(
    role: str, files: OfferedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offered(SECRET, role, monkeypatch) is SECRET
    assert not files._persons
    assert is_served(None)


def test_other_requests_pass() -> None:
    assert is_served(BOB, "/_stcore/health")
    assert is_served(BOB, "/media/another.png")
    assert is_served(BOB, f"/media/{HASH}", type="websocket")


def test_the_files_offered_longest_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "_MOST", 2)
    files = OfferedFiles()
    for content in (b"a", b"b", b"a", b"c"):
        files.offer(content, BOB)
    assert [files.may_fetch(each, BOB) for each in (b"a", b"b", b"c")] == [True, False, True]


def test_the_middleware_is_in_place() -> None:
    assert OwnDownloads in [each.cls for each in MIDDLEWARE]
    assert the_offered_files() is the_offered_files()


def test_all_downloads_of_the_pages_are_noted() -> None:
    """Streamlit's own button would offer a file that no person may fetch."""
    root = Path(downloads.__file__).parent.parent.parent
    for file in (*(root / "specviz" / "ui").rglob("*.py"), *(root / "pages").glob("*.py")):
        names = {
            node.attr for node in ast.walk(ast.parse(file.read_text("utf-8")))
            if isinstance(node, ast.Attribute)
        }  # fmt: skip
        assert "download_button" not in names or file.name == "downloads.py", file


@pytest.mark.parametrize("address", ["sam@uni.example", "ada@uni.example", ""])
def test_the_gate_names_the_person_of_each_request(address: str, dashboard: Dashboard) -> None:
    (scope,) = dashboard.answer(f"/media/{HASH}", cookies=(dashboard.cookie(address),)).passed
    assert scope[PERSON_IN_SCOPE].key == address


def test_the_gate_names_the_owner_of_an_open_connection(dashboard: Dashboard) -> None:
    dashboard.answer("/")  # a connection from outside, so the dashboard is reachable
    (scope,) = dashboard.answer(f"/media/{HASH}", server=("127.0.0.1", 8501)).passed
    assert scope[PERSON_IN_SCOPE] == OPEN_OWNER


def test_a_client_cannot_name_itself(dashboard: Dashboard) -> None:
    more = [(PERSON_IN_SCOPE.encode(), b"ada@uni.example")]
    cookie = dashboard.cookie("sam@uni.example")
    (scope,) = dashboard.answer(f"/media/{HASH}", cookies=(cookie,), more=more).passed
    assert scope[PERSON_IN_SCOPE].key == "sam@uni.example"
