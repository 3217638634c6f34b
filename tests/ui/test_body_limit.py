"""Request bodies and WebSocket messages above the limit, with and without a declared length."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send
from streamlit import config

from specviz.access.settings import SETTINGS
from specviz.ui.access import AccessGate
from specviz.ui.body_limit import BodyLimit, limit_uploads
from specviz.ui.health import Health
from specviz.ui.serving import MIDDLEWARE

LIMIT = 100_000


@pytest.fixture(autouse=True)
def limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(f"[limits]\nrequest_body = {LIMIT}")
    monkeypatch.setenv(SETTINGS, str(path))
    return path


class Reader:
    """An application that reads everything, and notes what it read and whether it failed."""

    def __init__(self, *, early: bool = False, swallows: bool = False) -> None:
        self.read = 0
        self.messages: list[Message] = []
        self._early, self._swallows = early, swallows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._early:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        more = True
        while more:
            try:
                message = await receive()
            except Exception:
                if not self._swallows:
                    raise
                await send({"type": "http.response.start", "status": 500, "headers": []})
                return
            self.messages.append(message)
            self.read += len(message.get("body", b"") or message.get("bytes", b"") or b"")
            more = message.get("more_body", message["type"] == "websocket.receive")
        if scope["type"] == "http" and not self._early:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["type"] == "http":
            await send({"type": "http.response.body", "body": b"done"})


def answer(app: Reader, messages: list[Message], *, length: str | None = None, kind: str = "http"):
    sent: list[Message] = []
    waiting = iter(messages)

    async def receive() -> Message:
        return next(waiting)

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [] if length is None else [(b"content-length", length.encode())]
    scope = {"type": kind, "method": "PUT", "path": "/_stcore/upload_file", "headers": headers}
    asyncio.run(BodyLimit(app)(scope, receive, send))
    return sent


def chunks(total: int, size: int = 40_000) -> list[Message]:
    parts = [min(size, total - begin) for begin in range(0, total, size)]
    return [
        {"type": "http.request", "body": b"x" * part, "more_body": index < len(parts) - 1}
        for index, part in enumerate(parts)
    ]


def test_the_limit_is_behind_the_gate_and_before_everything_else() -> None:
    assert [each.cls for each in MIDDLEWARE[:3]] == [Health, AccessGate, BodyLimit]


@pytest.mark.parametrize("length", ["100001", "99999999999999999999"])
def test_a_declared_length_is_refused_before_the_body_is_read(length: str) -> None:
    app = Reader()
    sent = answer(app, [], length=length)
    assert sent[0]["status"] == 413
    assert b"larger than 100 kB" in sent[1]["body"]
    assert app.messages == []


@pytest.mark.parametrize("length", [None, "5", "-1", "x", "١٢", ""])
@pytest.mark.parametrize("swallows", [False, True])
def test_a_false_or_missing_length_does_not_help(length: str | None, swallows: bool) -> None:
    app = Reader(swallows=swallows)
    sent = answer(app, chunks(LIMIT + 1), length=None if length == "١٢" else length)
    assert [each.get("status") for each in sent] == [413, None]
    assert app.read <= LIMIT


def test_nothing_more_is_sent_after_an_early_answer() -> None:
    sent = answer(Reader(early=True), chunks(LIMIT + 1))
    assert [each["type"] for each in sent] == ["http.response.start"]


def test_bodies_within_the_limit_pass() -> None:
    app = Reader()
    sent = answer(app, chunks(LIMIT), length=str(LIMIT))
    assert (sent[0]["status"], app.read) == (200, LIMIT)


def test_errors_of_the_application_are_not_hidden() -> None:
    with pytest.raises((StopIteration, RuntimeError)):
        answer(Reader(), [{"type": "http.request", "body": b"", "more_body": True}])


@pytest.mark.parametrize("content", [{"bytes": b"x" * (LIMIT + 1)}, {"text": "ä" * 50_001}])
def test_a_large_message_closes_the_websocket(content: Message) -> None:
    app = Reader()
    small: Message = {"type": "websocket.receive", "bytes": b"x" * LIMIT}
    sent = answer(app, [small, {"type": "websocket.receive", **content}], kind="websocket")
    assert [(each["type"], each["code"]) for each in sent] == [("websocket.close", 1009)]
    assert [each["type"] for each in app.messages] == ["websocket.receive", "websocket.disconnect"]


@pytest.fixture
def upload_size() -> Iterator[None]:
    before = config.get_option("server.maxUploadSize")
    yield
    config.set_option("server.maxUploadSize", before)


@pytest.mark.usefixtures("upload_size")
def test_the_upload_boxes_know_the_limit(limit: Path) -> None:
    before = config.get_option("server.maxUploadSize")
    for text, size in (("'20 MB'", 19), ("100000", 1), ("'900 GB'", before)):
        limit.write_text(f"[limits]\nrequest_body = {text}")
        limit_uploads()
        assert config.get_option("server.maxUploadSize") == size
    limit.write_text("")
    limit_uploads()
    assert config.get_option("server.maxUploadSize") == before
