"""The first document of a page, as a browser receives it."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from pathlib import Path

import pytest
import streamlit
from starlette.types import Message, Receive, Scope, Send

from specviz.record.trace import Trace
from specviz.store import load_trace
from specviz.ui.serving import FirstDocument
from specviz.ui.shell import PAGES, Page

STATIC = Path(streamlit.__file__).parent / "static"
DOCUMENT = (STATIC / "index.html").read_text(encoding="utf-8")
STAGE = '<div id="first-stage">'


def answer_of(path: str, query: str = "", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Return Streamlit's document after our middleware."""
    seen: list[Message] = []

    async def streamlits(scope: Scope, _receive: Receive, send: Send) -> None:
        assert not {b"if-none-match", b"accept-encoding"} & {name for name, _ in scope["headers"]}
        status = 404 if path.endswith("nothing") else 200
        kind = b"text/plain" if "health" in path else b"text/html; charset=utf-8"
        start = {"status": status, "headers": [(b"content-type", kind), (b"etag", b"old")]}
        await send({"type": "http.response.start", **start})
        half = len(DOCUMENT) // 2
        for part, more in ((DOCUMENT[:half], True), (DOCUMENT[half:], False)):
            body = {"body": part.encode(), "more_body": more}
            await send({"type": "http.response.body", **body})

    async def send(message: Message) -> None:
        seen.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    raw = [(name.replace("_", "-").encode(), each.encode()) for name, each in headers.items()]
    scope = {
        "type": "http", "method": "GET", "path": path, "query_string": query.encode(),
        "headers": raw,
    }  # fmt: skip
    asyncio.run(FirstDocument(streamlits)(scope, receive, send))
    received = {name.decode(): each.decode() for name, each in seen[0]["headers"]}
    return seen[0]["status"], received, b"".join(each.get("body", b"") for each in seen[1:])


@pytest.mark.parametrize("path", ["/", "/watch"])
def test_watch_includes_the_recorded_run(path: str) -> None:
    status, received, body = answer_of(path, "gamma=9", if_none_match="old")
    text = body.decode()
    assert (status, received["cache-control"]) == (200, "no-cache")
    assert "etag" not in received
    assert int(received["content-length"]) == len(body)
    assert text.index(STAGE) < text.index('<div id="root">')
    (data,) = re.findall(r'<script type="application/json" id="first-run">(.*?)</script>', text)
    recorded: Trace = load_trace("assets/first_trace.json")
    assert len(json.loads(data)["rounds"]["items"]) == len(recorded.rounds)


@pytest.mark.parametrize(
    ("path", "query"),
    [("/compare", ""), ("/speed", ""), ("/", "run=abc"), ("/watch", "gamma=5&tab=0f")],
)
def test_other_pages_and_runs_do_not_include_it(path: str, query: str) -> None:
    text = answer_of(path, query)[2].decode()
    assert STAGE not in text
    assert "<title>specviz</title>" in text


@pytest.mark.parametrize("path", ["/_stcore/health", "/media/x.js", "/nothing", "/runs/nothing"])
def test_other_paths_are_unchanged(path: str) -> None:
    assert answer_of(path)[2].decode() == DOCUMENT


def test_it_is_gzipped_if_the_client_accepts_it() -> None:
    plain = answer_of("/")[2]
    received, packed = answer_of("/", accept_encoding="gzip, br")[1:]
    assert received["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == plain
    assert len(packed) < len(plain) / 3


DRAWN = [page for page in PAGES if page.drawn_by]


@pytest.mark.parametrize("page", DRAWN, ids=lambda page: page.name)
def test_the_scripts_of_a_page_are_preloaded(page: Page) -> None:
    asked = re.compile(r'href="\./(static/js/[\w.-]+)"')
    ours = set(asked.findall(answer_of(f"/{page.name}")[2].decode()))
    ours -= set(asked.findall(DOCUMENT))
    assert all((STATIC / each).is_file() for each in ours)
    for kind in page.drawn_by:
        assert any(f"/{kind}." in each for each in ours), kind
