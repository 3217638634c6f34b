"""The access token, its cookie, and the gate in front of every route."""

from __future__ import annotations

import asyncio
import http.client
import logging
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import Message, Receive, Scope, Send
from streamlit import config

from specviz.errors import ConfigError
from specviz.ui import access as access_module
from specviz.ui.access import (
    COOKIE_SECONDS,
    TOKEN,
    Access,
    Penalties,
    TokenGate,
    announce_link,
    is_loopback,
    reachable_by_others,
    the_access,
)
from specviz.ui.serving import MIDDLEWARE

ROOT = Path(__file__).parent.parent.parent
RIGHT = "right-token-of-this-server"
NETWORK = ("192.0.2.7", 8501)
LOOPBACK = ("127.0.0.1", 8501)
NAME = "specviz_access_8501"


class Clock:
    """Both clocks of an access, set by the test."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0

    def __call__(self) -> float:
        return self.time


class Answer:
    """The gate's response, and whether the request passed."""

    def __init__(self, passed: list[Scope], sent: list[Message]) -> None:
        self.passed, self.sent = passed, sent

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def text(self) -> str:
        return b"".join(each.get("body", b"") for each in self.sent[1:]).decode()

    @property
    def cookie(self) -> str:
        return self.headers["set-cookie"].partition(";")[0]


class Dashboard:
    """A gate in front of an application that records what passes."""

    def __init__(self, *, chosen: bool = False) -> None:
        self.clock = Clock()
        self.access = Access(
            token=RIGHT, chosen=chosen, now=self.clock, penalties=Penalties(self.clock)
        )
        self.access.announced = True
        self._passed: list[Scope] = []
        self._gate = TokenGate(self._app, self.access)

    async def _app(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        self._passed.append(scope)

    def answer(
        self,
        path: str = "/",
        query: str = "",
        *,
        kind: str = "http",
        cookies: tuple[str, ...] = (),
        **scope: Any,
    ) -> Answer:
        sent: list[Message] = []
        passed = len(self._passed)

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": f"{kind}.request"}

        headers = [(b"accept", b"text/html"), *((b"cookie", each.encode()) for each in cookies)]
        request = {
            "type": kind, "path": path, "query_string": query.encode(), "headers": headers,
            "server": NETWORK, "client": ("198.51.100.1", 40000), "scheme": "http",
            **({"method": "GET"} if kind == "http" else {}), **scope,
        }  # fmt: skip
        asyncio.run(self._gate(request, receive, send))
        return Answer(self._passed[passed:], sent)

    def passes(self, *, cookie: str) -> bool:
        return bool(self.answer(cookies=(cookie,)).passed)


@pytest.fixture
def dashboard() -> Dashboard:
    return Dashboard()


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Rebuild the access from the environment; restore options afterwards."""
    monkeypatch.delenv(TOKEN, raising=False)
    options = ("server.address", "server.port", "server.baseUrlPath", "server.sslCertFile")
    kept = {name: config.get_option(name) for name in options}
    config.set_option("server.address", "127.0.0.1")
    the_access.cache_clear()
    yield monkeypatch
    for name, value in kept.items():
        config.set_option(name, value)
    the_access.cache_clear()


def test_the_gate_is_in_front_of_everything() -> None:
    assert MIDDLEWARE[0].cls is TokenGate


# When the gate is active


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.9.1", "localhost", "LOCALHOST", "::1", "[::1]", "::ffff:127.0.0.1"]
)
def test_loopback_addresses(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["", "0.0.0.0", "::", "192.168.1.5", "::ffff:192.168.1.5", "fe80::1%eth0", "localhost.example",
     "127.0.0.1.example", "2130706433", "127.1", "/run/specviz.socket"],
)  # fmt: skip
def test_other_addresses(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("server", [LOOPBACK, ("::1", 8501, 0, 0)[:2], ("::ffff:127.0.0.1", 8501)])
def test_gate_is_inactive_on_loopback(
    environment: pytest.MonkeyPatch, dashboard: Dashboard, server: tuple[str, int]
) -> None:
    assert not reachable_by_others()
    for kind in ("http", "websocket"):
        (scope,) = dashboard.answer(query=f"token={RIGHT}", kind=kind, server=server).passed
        assert scope["query_string"] == f"token={RIGHT}".encode()
    assert not dashboard.access.reached


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "", None, "192.168.1.5", "a-host"])
def test_a_configured_network_address_activates_the_gate(
    environment: pytest.MonkeyPatch, dashboard: Dashboard, address: str | None
) -> None:
    config.set_option("server.address", address)
    assert reachable_by_others()
    assert dashboard.answer(server=LOOPBACK).status == 401


def test_a_chosen_token_activates_it_on_loopback(environment: pytest.MonkeyPatch) -> None:
    environment.setenv(TOKEN, RIGHT)
    assert reachable_by_others()
    assert Dashboard(chosen=True).answer(server=LOOPBACK).status == 401


@pytest.mark.parametrize("server", [NETWORK, ("/run/specviz.socket", None), None])
def test_a_connection_to_a_network_address_activates_it(
    environment: pytest.MonkeyPatch, server: tuple[str, int | None] | None
) -> None:
    dashboard = Dashboard()
    environment.setattr(access_module, "the_access", lambda: dashboard.access)
    assert dashboard.answer(server=LOOPBACK).passed
    assert not reachable_by_others()
    assert dashboard.answer(server=server).status == 401
    assert reachable_by_others()


def test_the_lifespan_passes(dashboard: Dashboard) -> None:
    assert dashboard.answer(kind="lifespan").passed


# The token


def test_the_token_is_long_and_needs_no_escaping_in_a_link(environment: pytest.MonkeyPatch) -> None:
    token = the_access().token
    assert len(token) >= 43
    assert re.fullmatch(r"[\w.~-]+", token)
    assert not the_access().chosen


@pytest.mark.parametrize(
    ("token", "reason"),
    [("", "0 characters"), ("fifteen-letters", "15 characters"), ("sixteen letters!", "link"),
     ("sixteen+letters+", "link"), ("sechzehnzeichenä", "link"), ("a" * 20 + "\n", "link")],
)  # fmt: skip
def test_an_unusable_token_is_refused(
    environment: pytest.MonkeyPatch, token: str, reason: str
) -> None:
    environment.setenv(TOKEN, token)
    with pytest.raises(ConfigError, match=f"^{TOKEN} .*{reason}") as raised:
        the_access()
    assert not token or token not in str(raised.value)


def test_the_app_does_not_start_with_an_unusable_token(environment: pytest.MonkeyPatch) -> None:
    environment.setenv(TOKEN, "short")
    ended = subprocess.run(
        [sys.executable, "-c", "import app"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"{TOKEN} has only 5 characters.")
    assert ended.stderr.count("\n") == 1


def test_a_token_is_exchanged_for_a_cookie(dashboard: Dashboard) -> None:
    answer = dashboard.answer("/watch", f"gamma=5&token={RIGHT}&pair=Hub")
    assert answer.status == 303
    assert answer.headers["location"] == "./watch?gamma=5&pair=Hub"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert RIGHT not in str(answer.sent)
    parts = {each.strip().lower() for each in answer.headers["set-cookie"].split(";")[1:]}
    assert parts == {"httponly", "samesite=lax", "path=/", f"max-age={COOKIE_SECONDS}"}
    assert answer.cookie.startswith(f"{NAME}=")
    assert dashboard.passes(cookie=answer.cookie)


@pytest.mark.parametrize("scheme", ["https", "wss"])
def test_the_cookie_is_secure_under_https(dashboard: Dashboard, scheme: str) -> None:
    answer = dashboard.answer(query=f"token={RIGHT}", scheme=scheme)
    assert "; secure" in answer.headers["set-cookie"].lower()


def test_many_browsers_use_one_token(dashboard: Dashboard) -> None:
    for each in range(30):
        dashboard.clock.time += 1
        client = (f"198.51.100.{each}", 40000)
        assert dashboard.answer(query=f"token={RIGHT}", client=client).status == 303


@pytest.mark.parametrize("end", ["", "%0A", "%26gamma%3D3"])
def test_the_form_accepts_a_pasted_link(dashboard: Dashboard, end: str) -> None:
    pasted = f"token=+http%3A%2F%2F192.0.2.7%3A8501%2F%3Ftoken%3D{RIGHT}{end}"
    assert dashboard.answer(query=pasted).status == 303


@pytest.mark.parametrize(
    "token",
    ["wrong", RIGHT[:-1], f"{RIGHT}a", RIGHT.upper(), "%C3%A4%E2%82%AC", "%FF%FE", "%00", "ä€",
     "%ED%A0%80", "a" * 10000],
)  # fmt: skip
def test_a_wrong_token_is_refused(dashboard: Dashboard, token: str) -> None:
    answer = dashboard.answer(query=f"token={token}")
    assert answer.status == 401
    assert "This token is wrong" in answer.text
    assert "set-cookie" not in answer.headers


def test_one_request_is_one_attempt(dashboard: Dashboard) -> None:
    assert dashboard.answer(query=f"token=wrong&token={RIGHT}").status == 401
    dashboard.clock.time += 60
    answer = dashboard.answer(query=f"%74oken={RIGHT}&token=wrong&a=1")
    assert (answer.status, answer.headers["location"]) == (303, "./?a=1")


@pytest.mark.parametrize("method", ["POST", "HEAD", "OPTIONS", "PUT", "DELETE"])
def test_only_get_exchanges_a_token(dashboard: Dashboard, method: str) -> None:
    assert dashboard.answer(query=f"token={RIGHT}", method=method).status == 401


# The redirect


@pytest.mark.parametrize(
    "path",
    ["//evil.example/", "//evil.example", "///evil.example/a", "/\\evil.example/",
     "/\\\\evil.example", "/http://evil.example/", "/a/http:evil.example",
     "/javascript:alert(1)", "/..//evil.example",
     "/\t/evil.example", "/a\r\nLocation: http://evil.example/", "/@evil.example", "/a?b#c", "/ä"],
)  # fmt: skip
def test_the_redirect_stays_on_this_host(dashboard: Dashboard, path: str) -> None:
    location = dashboard.answer(path, f"token={RIGHT}").headers["location"]
    assert location.startswith("./")
    assert re.fullmatch(r"[!-~]+", location)
    assert "\\" not in location
    came = urlsplit(urljoin("http://192.0.2.7:8501/base/page", location))
    assert (came.scheme, came.netloc, came.query, came.fragment) == (
        "http", "192.0.2.7:8501", "", ""
    )  # fmt: skip


@pytest.mark.parametrize(
    ("query", "left"),
    [("prompt=a%26b+c&token={}&x", "prompt=a%26b+c&x"), ("token={}", ""),
     ("token={}&tokens=1", "tokens=1"), ("a=%0d%0a&token={}", "a=%0d%0a"),
     ("a=\r\nSet-Cookie: b=1&token={}", "a=%0D%0ASet-Cookie:%20b=1"),
     ("a=<b>#c&token={}", "a=%3Cb%3E%23c"), ("url=//evil.example&token={}", "url=//evil.example")],
)  # fmt: skip
def test_the_redirect_keeps_other_parameters(dashboard: Dashboard, query: str, left: str) -> None:
    location = dashboard.answer("/tune", query.format(RIGHT)).headers["location"]
    assert location == (f"./tune?{left}" if left else "./tune")


# The cookie


def test_a_cookie_survives_a_restart_with_the_same_token(dashboard: Dashboard) -> None:
    cookie = f"{NAME}={dashboard.access.cookie()}"
    assert Dashboard().passes(cookie=cookie)
    other = Dashboard()
    other.access.token = "another-token-of-another-server"
    assert not other.passes(cookie=cookie)


def test_a_cookie_expires(dashboard: Dashboard) -> None:
    cookie = f"{NAME}={dashboard.access.cookie()}"
    dashboard.clock.time += COOKIE_SECONDS - 1
    assert dashboard.passes(cookie=cookie)
    dashboard.clock.time += 1
    assert not dashboard.passes(cookie=cookie)


def test_a_cookie_from_the_future_is_refused(dashboard: Dashboard) -> None:
    cookie = f"{NAME}={dashboard.access.cookie()}"
    dashboard.clock.time -= 200
    assert dashboard.passes(cookie=cookie)
    dashboard.clock.time -= 200
    assert not dashboard.passes(cookie=cookie)


def test_an_altered_cookie_is_refused(dashboard: Dashboard) -> None:
    value = dashboard.access.cookie()
    issued, signature = value.split(".")
    altered = [
        f"{int(issued) + 1}.{signature}", f"{issued}.{signature[:-1]}", f"{issued}.", issued,
        f"{issued}.{signature}0", f".{signature}", "", ".", f"{issued}.{signature.upper()}", RIGHT,
        f"{issued}.ä", f"²{issued}.{signature}", f'"{value}"',
    ]  # fmt: skip
    assert not any(dashboard.passes(cookie=f"{NAME}={each}") for each in altered)
    assert not dashboard.passes(cookie=f"specviz_access_8502={value}")
    assert not dashboard.passes(cookie=f"x{NAME}={value}")
    assert dashboard.passes(cookie=f"{NAME}={value}")


def test_one_valid_cookie_among_several_is_enough(dashboard: Dashboard) -> None:
    value = dashboard.access.cookie()
    assert dashboard.passes(cookie=f"a=b;{NAME}=old.one; {NAME}={value} ;_streamlit_xsrf=2|a")
    assert dashboard.answer(cookies=("a=b", f"{NAME}={value}")).passed
    assert not dashboard.passes(cookie=f"a={NAME}={value}")


def test_two_dashboards_on_one_host_have_separate_cookies(dashboard: Dashboard) -> None:
    names = {
        dashboard.answer(query=f"token={RIGHT}", server=("192.0.2.7", port)).cookie.split("=")[0]
        for port in (8501, 8502)
    }
    assert names == {"specviz_access_8501", "specviz_access_8502"}


def test_opening_a_link_again_renews_the_cookie(dashboard: Dashboard) -> None:
    old = f"{NAME}={dashboard.access.cookie()}"
    dashboard.clock.time += 1000
    answer = dashboard.answer("/runs", f"token={RIGHT}&a=1", cookies=(old,))
    assert answer.status == 303
    assert answer.cookie != old


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
    cookie = f"{NAME}={dashboard.access.cookie()}"
    assert dashboard.answer("/_stcore/stream", kind="websocket", cookies=(cookie,)).passed


def test_a_refused_browser_gets_the_token_form(dashboard: Dashboard) -> None:
    answer = dashboard.answer("/watch", "run=abc&prompt=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
    assert answer.status == 401
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-store"
    text = answer.text
    assert "Open the link that was printed where specviz was started, or paste its token." in text
    assert re.search(r'<input id="token" name="token"[^>]* autocomplete="off"', text)
    assert '<form method="get">' in text
    assert '<input type="hidden" name="run" value="abc">' in text
    assert "<script" not in text
    assert "//" not in re.sub(r"^<!doctype html>", "", text)  # loads nothing from other hosts
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize("accept", [b"*/*", b"application/json", b""])
def test_other_clients_get_plain_text(dashboard: Dashboard, accept: bytes) -> None:
    answer = dashboard.answer("/_stcore/health", headers=[(b"accept", accept)])
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text.count("\n") == 1


def test_the_request_log_contains_no_token(caplog: pytest.LogCaptureFixture) -> None:
    access = Access(token=RIGHT, chosen=True, announced=True)
    app = Starlette(middleware=[Middleware(TokenGate, access=access)])
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        with caplog.at_level(logging.INFO, "uvicorn.access"):
            thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
            thread.start()
            for query in (f"token={RIGHT}&a=1", "b=2&token=a-wrong-token"):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                connection.request("GET", f"/watch?{query}")
                connection.getresponse()
                connection.close()
            server.should_exit = True
            thread.join(20)
    lines = [each.getMessage() for each in caplog.records if each.name == "uvicorn.access"]
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
    cookie = f"{NAME}={dashboard.access.cookie()}"
    dashboard.answer(query="token=wrong")
    assert dashboard.answer(query="token=wrong").status == 429
    assert dashboard.answer(query=f"token={RIGHT}", client=("198.51.100.2", 1)).status == 303
    assert dashboard.answer().status == 401  # without a token
    assert dashboard.passes(cookie=cookie)
    answer = dashboard.answer("/runs", "token=wrong&a=1", cookies=(cookie,))
    assert (answer.status, answer.headers["location"]) == (303, "./runs?a=1")
    assert "set-cookie" not in answer.headers


def test_a_cookie_does_not_bypass_the_delay(dashboard: Dashboard) -> None:
    cookie = f"{NAME}={dashboard.access.cookie()}"
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


# The link


def test_the_link_is_printed_once(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.setattr(config, "_server_mode", "starlette-app")
    environment.setattr(config, "is_manually_set", lambda _: False)
    config.set_option("server.port", 8765)
    announce_link()
    assert capsys.readouterr().err == ""  # only this machine can reach it
    environment.setenv(TOKEN, RIGHT)
    the_access.cache_clear()
    announce_link()
    line, link = capsys.readouterr().err.splitlines()
    assert "access token" in line
    assert link.strip() == f"http://127.0.0.1:8765/?token={RIGHT}"
    assert the_access().announced


@pytest.mark.parametrize(
    ("address", "shown"),
    [("0.0.0.0", "192.0.2.9"), ("", "192.0.2.9"), ("::", "192.0.2.9"), ("192.0.2.7", "192.0.2.7"),
     ("2001:db8::1", "[2001:db8::1]"), ("a-host", "a-host")],
)  # fmt: skip
def test_the_host_in_the_link(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], address: str, shown: str
) -> None:
    environment.setattr(config, "_server_mode", "starlette-app")
    environment.setattr(config, "is_manually_set", lambda _: False)
    environment.setattr(access_module.net_util, "get_internal_ip", lambda: "192.0.2.9")
    config.set_option("server.address", address)
    config.set_option("server.port", 8765)
    config.set_option("server.baseUrlPath", "/a/b/")
    config.set_option("server.sslCertFile", "cert.pem")
    announce_link()
    link = capsys.readouterr().err.splitlines()[1].strip()
    assert link == f"https://{shown}:8765/a/b/?token={the_access().token}"


def test_under_another_asgi_server_the_first_refusal_prints_the_link(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.setenv(TOKEN, RIGHT)
    environment.setattr(config, "_server_mode", "asgi-server")
    announce_link()
    assert capsys.readouterr().err == ""
    dashboard = Dashboard(chosen=True)
    dashboard.access.announced = False
    environment.setattr(access_module, "the_access", lambda: dashboard.access)
    for _ in range(2):
        dashboard.answer(headers=[(b"host", b"evil.example")], server=("::ffff:192.0.2.7", 80))
    lines = capsys.readouterr().err.splitlines()
    assert [each.strip() for each in lines[1:]] == [f"http://192.0.2.7:80/?token={RIGHT}"]
