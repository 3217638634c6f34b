"""When the access gate is active, its token and cookie, and the printed link."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from starlette.responses import PlainTextResponse
from streamlit import config

from specviz.errors import ConfigError
from specviz.ui.access import (
    TOKEN,
    AccessGate,
    announce_link,
    gate,
    is_loopback,
    link,
    reachable_by_others,
    state,
    the_access,
)
from specviz.ui.access.state import TOKEN_SECONDS
from specviz.ui.health import Health
from specviz.ui.serving import MIDDLEWARE
from tests.ui.gated_dashboard import NAME, NETWORK, RIGHT, Dashboard, dashboard

__all__ = ["dashboard"]  # a fixture

ROOT = Path(__file__).parent.parent.parent
LOOPBACK = ("127.0.0.1", 8501)


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
    assert [each.cls for each in MIDDLEWARE[:2]] == [Health, AccessGate]


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


@pytest.mark.parametrize("demo", [False, True])
def test_no_other_page_shows_a_local_dashboard_in_a_frame(
    environment: pytest.MonkeyPatch, demo: bool
) -> None:
    """The page could lead clicks to it. The demo may be shown: a click there changes nothing."""
    environment.setattr(gate, "is_demo", lambda: demo)
    answer = Dashboard(app=PlainTextResponse("page")).answer("/runs", server=LOOPBACK)
    assert answer.passed
    policy = answer.headers.get("content-security-policy")
    assert policy == (None if demo else "frame-ancestors 'self'")


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
    environment.setattr(state, "the_access", lambda: dashboard.access)
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
    assert parts == {"httponly", "samesite=lax", "path=/", f"max-age={TOKEN_SECONDS}"}
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


def test_a_session_ends_with_its_server(dashboard: Dashboard) -> None:
    cookie = dashboard.cookie()
    assert dashboard.passes(cookie=cookie)
    assert not Dashboard().passes(cookie=cookie)


def test_a_cookie_expires(dashboard: Dashboard) -> None:
    cookie = dashboard.cookie()
    dashboard.clock.time += TOKEN_SECONDS - 1
    assert dashboard.passes(cookie=cookie)
    dashboard.clock.time += 1
    assert not dashboard.passes(cookie=cookie)


def test_a_cookie_from_the_future_is_refused(dashboard: Dashboard) -> None:
    cookie = dashboard.cookie()
    dashboard.clock.time -= 200
    assert dashboard.passes(cookie=cookie)
    dashboard.clock.time -= 200
    assert not dashboard.passes(cookie=cookie)


def test_an_altered_cookie_is_refused(dashboard: Dashboard) -> None:
    value = dashboard.cookie().partition("=")[2]
    (session,) = dashboard.access.sessions.all()
    altered = [
        value[:-1], f"{value}0", value.swapcase(), "", ".", RIGHT, "ä", f'"{value}"', f"{value}=",
        session.handle, session.leaving, dashboard.access.open_mark,
    ]  # fmt: skip
    assert not any(dashboard.passes(cookie=f"{NAME}={each}") for each in altered)
    assert not dashboard.passes(cookie=f"specviz_access_8502={value}")
    assert not dashboard.passes(cookie=f"x{NAME}={value}")
    assert dashboard.passes(cookie=f"{NAME}={value}")


def test_one_valid_cookie_among_several_is_enough(dashboard: Dashboard) -> None:
    value = dashboard.cookie().partition("=")[2]
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
    old = dashboard.cookie()
    dashboard.clock.time += 1000
    answer = dashboard.answer("/runs", f"token={RIGHT}&a=1", cookies=(old,))
    assert answer.status == 303
    assert answer.cookie != old


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
    line, printed = capsys.readouterr().err.splitlines()
    assert "access token" in line
    assert printed.strip() == f"http://127.0.0.1:8765/?token={RIGHT}"
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
    environment.setattr(link.net_util, "get_internal_ip", lambda: "192.0.2.9")
    config.set_option("server.address", address)
    config.set_option("server.port", 8765)
    config.set_option("server.baseUrlPath", "/a/b/")
    config.set_option("server.sslCertFile", "cert.pem")
    announce_link()
    printed = capsys.readouterr().err.splitlines()[1].strip()
    assert printed == f"https://{shown}:8765/a/b/?token={the_access().token}"


def test_under_another_asgi_server_the_first_refusal_prints_the_link(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.setenv(TOKEN, RIGHT)
    environment.setattr(config, "_server_mode", "asgi-server")
    announce_link()
    assert capsys.readouterr().err == ""
    dashboard = Dashboard(chosen=True)
    dashboard.access.announced = False
    environment.setattr(state, "the_access", lambda: dashboard.access)
    for _ in range(2):
        dashboard.answer(headers=[(b"host", b"evil.example")], server=("::ffff:192.0.2.7", 80))
    lines = capsys.readouterr().err.splitlines()
    assert [each.strip() for each in lines[1:]] == [f"http://192.0.2.7:80/?token={RIGHT}"]
