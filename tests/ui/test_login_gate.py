"""Logins through the gate: what opens a session, and what does not."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest

from specviz.access.roles import Role
from specviz.ui.access.state import LOGIN_SECONDS
from tests.ui.gated_dashboard import NAME, RIGHT
from tests.ui.login_provider import (
    IDENTITY,
    TOKENS,
    LoginDashboard,
    all_text,
    claims_of,
    login,
    signed,
)

__all__ = ["login"]  # a fixture


def test_the_page_offers_the_login_beside_the_token(login: LoginDashboard) -> None:
    answer = login.answer("/tune", "gamma=3&prompt=%22%3E%3Cb%3E")
    assert answer.status == 401
    assert "Log in to specviz" in answer.text
    assert 'href="?gamma=3&amp;prompt=%22%3E%3Cb%3E&amp;login=google"' in answer.text
    assert "Log in with Google" in answer.text
    assert 'name="token"' in answer.text
    assert "<b>" not in answer.text


def test_a_login_opens_a_session_and_returns_to_the_page(login: LoginDashboard) -> None:
    answer = login.finish(login.begin("/tune", "gamma=3&login=google&pair=Hub"))
    assert (answer.status, answer.headers["location"]) == (303, "./tune?gamma=3&pair=Hub")
    assert login.people == ["sam@uni.example"]
    assert login.passes(cookie=answer.cookie)
    (session,) = login.access.sessions.all()
    person = login.access.person_of(session)
    assert person is not None
    assert person.role is Role.STUDENT


def test_the_cookie_is_for_this_server_only(login: LoginDashboard) -> None:
    text = login.log_in().headers["set-cookie"].lower()
    assert text.startswith(f"{NAME}=")
    assert "httponly" in text
    assert "samesite=lax" in text
    state = login.begin(scheme="https")
    answer = login.finish(state, scheme="https")
    assert "secure" in answer.headers["set-cookie"].lower()


def test_streamlits_identity_never_reaches_the_browser(login: LoginDashboard) -> None:
    answer = login.log_in()
    assert IDENTITY not in all_text(answer)
    assert TOKENS not in all_text(answer)


def test_a_session_lasts_half_a_day_from_the_login(login: LoginDashboard) -> None:
    login.log_in(iat=time.time() - 200)
    (session,) = login.access.sessions.all()
    assert session.expires == pytest.approx(time.time() + LOGIN_SECONDS - 200, abs=5)


def test_the_token_still_opens_a_session_of_the_owner(login: LoginDashboard) -> None:
    answer = login.answer("/runs", f"token={RIGHT}")
    assert answer.status == 303
    assert login.people == [""]


def test_a_new_login_replaces_the_browsers_session(login: LoginDashboard) -> None:
    first = login.log_in()
    login.streamlit.identity = signed(claims_of(email="vic@uni.example"))
    login.finish(login.begin(), cookies=(first.cookie,))
    assert login.people == ["vic@uni.example"]
    assert not login.passes(cookie=first.cookie)


# Attacks: no session is opened


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"email_verified": False}, "not verified"),
        ({"email_verified": "false"}, "not verified"),
        ({"email_verified": 0}, "not verified"),
        ({"email_verified": "no"}, "not verified"),
        ({"email": None}, "not verified"),
        ({"email": ""}, "not verified"),
        ({"email": ["sam@uni.example"]}, "not verified"),
        ({"email": "sam@uni.example\n"}, "not verified"),
        ({"email": "eve@uni.example"}, "may not open"),
        ({"email": "sam@uni.example.evil"}, "may not open"),
        ({"email": "sam@evil.example"}, "may not open"),
        ({"is_logged_in": False}, "did not succeed"),
        ({"is_logged_in": "true"}, "did not succeed"),
        ({"iat": 1_700_000_000}, "did not succeed"),
        ({"iat": time.time() + 86400}, "did not succeed"),
        ({"iat": "now"}, "did not succeed"),
        ({"iat": True}, "did not succeed"),
    ],
)
def test_an_identity_that_may_not_enter(
    login: LoginDashboard, changes: dict[str, Any], words: str
) -> None:
    answer = login.log_in(**changes)
    assert answer.status == 403
    assert words in answer.text
    assert login.people == []
    assert IDENTITY not in all_text(answer)


@pytest.mark.parametrize(
    "cookie",
    [
        None, "", "x", "e30.e30.e30",
        signed(claims_of(), secret="another secret of another server"),
        signed(claims_of(), name=TOKENS),  # signed for another purpose
        signed(claims_of())[:-1],
        signed([]), signed({}),  # type: ignore[arg-type]
    ],
    ids=str.split("none empty letter unsigned secret purpose cut list dict"),  # they hold the time
)  # fmt: skip
def test_an_identity_that_streamlit_did_not_sign(login: LoginDashboard, cookie: str | None) -> None:
    login.streamlit.identity = cookie
    answer = login.finish(login.begin())
    assert (answer.status, login.people) == (403, [])


def test_an_identity_signed_long_ago(
    login: LoginDashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    with monkeypatch.context() as past:
        past.setattr(time, "time", lambda: now - 1000)
        login.streamlit.identity = signed(claims_of(iat=now))
    answer = login.finish(login.begin())
    assert (answer.status, login.people) == (403, [])


@pytest.mark.parametrize(
    "path", ["/", "/watch", "/oauth2callback", "/auth/login", "/auth/logout", "/_stcore/stream"]
)
def test_an_old_identity_cookie_opens_nothing(login: LoginDashboard, path: str) -> None:
    """Streamlit's cookie lives for 30 days in a browser that got it from another application."""
    cookies = (f"{IDENTITY}={signed(claims_of(email='ada@uni.example'))}",)
    for kind in ("http", "websocket"):
        answer = login.answer(path, kind=kind, cookies=cookies)
        assert not [each for each in answer.passed if "oauth2callback" not in each["path"]]
    assert login.people == []


@pytest.mark.parametrize("state", ["", "state1", "state9", "state1&state=state1", "../x", "%00"])
def test_a_callback_that_nobody_began(login: LoginDashboard, state: str) -> None:
    answer = login.answer("/oauth2callback", f"code=c&state={state}")
    assert answer.status in (303, 400)
    assert (answer.passed, login.people) == ([], [])


def test_a_callback_counts_once(login: LoginDashboard) -> None:
    state = login.begin()
    first, second = login.finish(state), login.finish(state)
    assert (first.status, second.status) == (303, 400)
    assert "used already" in second.text
    assert login.people == ["sam@uni.example"]


def test_two_states_in_one_callback(login: LoginDashboard) -> None:
    one, two = login.begin(), login.begin()
    answer = login.answer("/oauth2callback", f"code=c&state={one}&state={two}")
    assert (answer.status, login.people) == (400, [])


def test_a_login_must_be_finished_soon(login: LoginDashboard) -> None:
    state = login.begin()
    login.clock.time += 601
    assert login.finish(state).status == 400
    assert login.people == []


def test_a_refusal_by_the_provider(login: LoginDashboard) -> None:
    state = login.begin()
    login.streamlit.identity = None
    answer = login.answer("/oauth2callback", f"error=access_denied&state={state}")
    assert (answer.status, login.people) == (403, [])
    assert "did not succeed" in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "HEAD", "DELETE", "OPTIONS"])
def test_only_get_logs_in(login: LoginDashboard, method: str) -> None:
    assert login.answer("/", "login=google", method=method).status == 401
    state = login.begin()
    assert login.answer("/oauth2callback", f"code=c&state={state}", method=method).status == 401
    assert login.people == []


@pytest.mark.parametrize("provider", ["", "other", "Google", "google%00", "../google", "default"])
def test_another_provider(login: LoginDashboard, provider: str) -> None:
    answer = login.answer("/", f"login={provider}")
    assert (answer.passed, login.streamlit.logins) == ([], 0)


PATHS = ["//evil.example/", "//evil.example", "///evil.example/a", "/\\evil.example/",
         "/http://evil.example/", "/a/http:evil.example", "/javascript:alert(1)",
         "/a\r\nLocation: http://evil.example/", "/@evil.example", "/\t/evil.example"]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("query", ["", "&next=//evil.example", "&redirect_uri=http://evil.example"])
def test_a_login_returns_to_this_host_only(login: LoginDashboard, path: str, query: str) -> None:
    location = login.finish(login.begin(path, f"login=google{query}")).headers["location"]
    assert location.startswith("./")
    came = urlsplit(urljoin("http://192.0.2.7:8501/base/page", location))
    assert (came.scheme, came.netloc) == ("http", "192.0.2.7:8501")


def test_the_code_and_the_state_are_not_logged(login: LoginDashboard) -> None:
    """The server logs the query of the scope that it gave to the gate."""
    seen: list[bytes] = []
    plain = login.gate.__call__

    async def gate(scope: Any, receive: Any, send: Any) -> None:
        await plain(scope, receive, send)
        seen.append(scope["query_string"])

    state = login.begin()
    login.gate = gate  # type: ignore[assignment]
    login.finish(state)
    assert seen == [b""]
    login.answer("/", "a=1&login=google&logout=secret&token=secret")
    assert seen[1] == b"a=1"


def test_one_client_cannot_begin_endless_logins(login: LoginDashboard) -> None:
    for _ in range(100):
        login.begin()
    assert login.answer("/", "login=google").status == 429
    assert login.streamlit.logins == 100
    assert login.begin(client=("198.51.100.2", 1))
    login.clock.time += 601
    assert login.begin()


def test_a_long_address_is_not_kept(login: LoginDashboard) -> None:
    answer = login.finish(login.begin("/", f"prompt={'a' * 5000}&login=google"))
    assert answer.headers["location"] == "./"


def test_a_provider_that_does_not_answer(login: LoginDashboard) -> None:
    login.streamlit.answers = 400
    answer = login.answer("/", "login=google")
    assert (answer.status, "does not answer" in answer.text) == (502, True)


# Leaving


def leaving(login: LoginDashboard) -> str:
    return login.access.sessions.all()[-1].leaving


def test_logging_out_ends_the_session_here_and_at_the_provider(login: LoginDashboard) -> None:
    cookie = login.log_in().cookie
    answer = login.answer("/watch", f"logout={leaving(login)}", cookies=(cookie,))
    assert (answer.status, answer.headers["location"]) == (303, "https://login.example/end")
    assert f'{NAME}=""' in answer.headers["set-cookie"] or "max-age=0" in str(answer.sent).lower()
    assert f"{IDENTITY}=" in login.streamlit.cookies_at_logout
    assert f"{TOKENS}=" in login.streamlit.cookies_at_logout
    assert cookie not in login.streamlit.cookies_at_logout
    assert not login.passes(cookie=cookie)
    assert login.answer("/oauth2callback").headers["location"] == "./"  # back from the provider


def test_logging_out_without_a_page_of_the_provider(login: LoginDashboard) -> None:
    login.streamlit.end_session = "/"
    cookie = login.log_in().cookie
    answer = login.answer("/watch", f"logout={leaving(login)}", cookies=(cookie,))
    assert (answer.status, "You are logged out." in answer.text) == (200, True)
    assert login.people == []


def test_the_owner_with_the_token_logs_out(login: LoginDashboard) -> None:
    cookie = login.cookie()
    answer = login.answer("/", f"logout={leaving(login)}", cookies=(cookie,))
    assert answer.status == 200
    assert not answer.passed
    assert not login.passes(cookie=cookie)


@pytest.mark.parametrize("sent", ["", "1", "true", "other"])
def test_another_site_cannot_log_somebody_out(login: LoginDashboard, sent: str) -> None:
    cookie = login.log_in().cookie
    other = login.cookie("vic@uni.example")
    for query in (f"logout={sent}", f"logout={leaving(login)}"):  # the second is of another session
        login.answer("/watch", query, cookies=(cookie,))
        assert login.passes(cookie=cookie)
        assert login.passes(cookie=other)


@pytest.mark.parametrize("path", ["/auth/login", "/auth/logout"])
def test_streamlits_own_routes_are_closed(login: LoginDashboard, path: str) -> None:
    assert login.answer(path, "provider=x").status == 401
    answer = login.answer(path, "provider=x", cookies=(login.cookie(),))
    assert (answer.status, answer.passed) == (404, [])


# The role


def test_a_person_who_is_no_longer_listed_is_refused_at_once(login: LoginDashboard) -> None:
    cookie = login.log_in().cookie
    del login.roles["sam@uni.example"]
    answer = login.answer("/watch", cookies=(cookie,))
    assert (answer.status, answer.passed) == (403, [])
    assert "may not open" in answer.text
    assert not login.answer("/_stcore/stream", kind="websocket", cookies=(cookie,)).passed


def test_a_change_of_the_role_counts_at_once(login: LoginDashboard) -> None:
    login.log_in()
    (session,) = login.access.sessions.all()
    for role in (Role.OWNER, Role.VIEWER):
        login.roles["sam@uni.example"] = role
        person = login.access.person_of(session)
        assert person is not None
        assert person.role is role
