"""What the access gate answers without a cookie, and to wrong tokens."""

from __future__ import annotations

import http.client
import logging
import re
import socket
from logging.handlers import QueueHandler
from queue import SimpleQueue
from threading import Thread

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware

from specviz.ui.access import Access, AccessGate, Penalties
from tests.access.clock import Clock
from tests.ui.gated_dashboard import RIGHT, Dashboard, dashboard

__all__ = ["dashboard"]  # a fixture


# Refusals


ROUTES = ["/", "/watch", "/_stcore/health", "/_stcore/host-config", "/_stcore/upload_file/a/b",
          "/_stcore/bidi-components/a.js", "/media/a.png", "/static/js/index.js", "/favicon.ico",
          "//x", "/..", "/nothing"]  # fmt: skip


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_no_request_passes_without_a_cookie(dashboard: Dashboard, path: str, method: str) -> None:
    answer = dashboard.answer(path, method=method)
    assert (answer.status, answer.passed) == (401, [])


def test_no_websocket_passes_without_a_cookie(dashboard: Dashboard) -> None:
    for query in ("", f"token={RIGHT}"):
        answer = dashboard.answer("/_stcore/stream", query, kind="websocket")
        assert answer.sent == [{"type": "websocket.close", "code": 1008}]
        assert not answer.passed
    cookie = dashboard.cookie()
    assert dashboard.answer("/_stcore/stream", kind="websocket", cookies=(cookie,)).passed


def test_a_refused_browser_gets_the_token_form(dashboard: Dashboard) -> None:
    answer = dashboard.answer("/watch", "run=abc&prompt=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
    assert answer.status == 401
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-store"
    text = answer.text
    assert "Open the link that was printed where specviz was started, " in text
    assert "or paste the token of that link." in text
    assert re.search(r'<input id="token" name="token"[^>]* autocomplete="off"', text)
    assert '<form method="get">' in text
    assert '<input type="hidden" name="run" value="abc">' in text
    assert "<script" not in text
    assert "//" not in re.sub(r"^<!doctype html>", "", text)  # loads nothing from other hosts
    assert "prefers-color-scheme: dark" in text


def test_only_an_error_is_drawn_as_one(dashboard: Dashboard) -> None:
    error = '<p role="alert">'
    assert error not in dashboard.answer("/watch").text
    assert f"{error}This token is wrong." in dashboard.answer("/watch", "token=wrong-token").text


@pytest.mark.parametrize("accept", [b"*/*", b"application/json", b""])
def test_other_clients_get_plain_text(dashboard: Dashboard, accept: bytes) -> None:
    answer = dashboard.answer("/_stcore/health", headers=[(b"accept", accept)])
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text.count("\n") == 1


def test_the_request_log_contains_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(token=RIGHT, chosen=True, announced=True)
    app = Starlette(middleware=[Middleware(AccessGate, access=access)])
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        logger = logging.getLogger("uvicorn.access")
        records: SimpleQueue[logging.LogRecord] = SimpleQueue()
        monkeypatch.setattr(logger, "handlers", [QueueHandler(records)])
        monkeypatch.setattr(logger, "isEnabledFor", lambda _: True)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        for query in (f"token={RIGHT}&a=1", "b=2&token=a-wrong-token"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", f"/watch?{query}")
            connection.getresponse()
            connection.close()
        server.should_exit = True
        thread.join(20)
    lines = [records.get_nowait().getMessage() for _ in range(records.qsize())]
    assert [line.split('"')[1] for line in lines] == [
        "GET /watch?a=1 HTTP/1.1", "GET /watch?b=2 HTTP/1.1",
    ]  # fmt: skip


# Wrong tokens


def test_wrong_tokens_are_delayed(dashboard: Dashboard) -> None:
    for seconds in (0.5, 1, 2, 4, 8, 8, 8):
        assert dashboard.answer(query="token=wrong").status == 401
        dashboard.clock.time += seconds - 0.01
        for token in (RIGHT, "wrong"):
            answer = dashboard.answer(query=f"token={token}")
            assert answer.status == 429
            assert answer.headers["retry-after"] == answer.headers["refresh"] == "1"
            assert "set-cookie" not in answer.headers
        dashboard.clock.time += 0.02
    assert dashboard.answer(query=f"token={RIGHT}").status == 303


def test_other_clients_are_not_delayed(dashboard: Dashboard) -> None:
    cookie = dashboard.cookie()
    dashboard.answer(query="token=wrong")
    assert dashboard.answer(query="token=wrong").status == 429
    assert dashboard.answer(query=f"token={RIGHT}", client=("198.51.100.2", 1)).status == 303
    assert dashboard.answer().status == 401  # without a token
    assert dashboard.passes(cookie=cookie)
    answer = dashboard.answer("/runs", "token=wrong&a=1", cookies=(cookie,))
    assert (answer.status, answer.headers["location"]) == (303, "./runs?a=1")
    assert "set-cookie" not in answer.headers


def test_a_cookie_does_not_bypass_the_delay(dashboard: Dashboard) -> None:
    cookie = dashboard.cookie()
    dashboard.answer(query="token=wrong", cookies=(cookie,))
    answer = dashboard.answer(query=f"token={RIGHT}", cookies=(cookie,))
    assert answer.status == 303
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("first", "second"),
    [("2001:db8::1", "2001:db8::ffff:1"), ("::ffff:198.51.100.9", "198.51.100.9"),
     ("fe80::1%eth0", "fe80::2%eth1")],
)  # fmt: skip
def test_addresses_that_count_as_one_client(dashboard: Dashboard, first: str, second: str) -> None:
    dashboard.answer(query="token=wrong", client=(first, 1))
    assert dashboard.answer(query=f"token={RIGHT}", client=(second, 1)).status == 429
    assert dashboard.answer(query=f"token={RIGHT}", client=("2001:db8:1::1", 1)).status == 303


def test_clients_without_an_address_count_as_one(dashboard: Dashboard) -> None:
    dashboard.answer(query="token=wrong", client=None)
    assert dashboard.answer(query=f"token={RIGHT}", client=None).status == 429


def test_penalties_expire() -> None:
    clock = Clock()
    penalties = Penalties(clock)
    for _ in range(4):
        penalties.add("a")
    assert penalties.remaining("a") == 4
    clock.time += 301
    assert penalties.remaining("a") == 0
    penalties.add("a")
    assert penalties.remaining("a") == 0.5


def test_the_table_of_clients_is_bounded() -> None:
    clock = Clock()
    penalties = Penalties(clock)
    for client in range(3000):
        clock.time += 0.001
        penalties.add(str(client))
    assert len(penalties._clients) == 1000
    assert penalties.remaining("2999") > 0
    clock.time += 301
    penalties.add("late")
    assert len(penalties._clients) == 1
