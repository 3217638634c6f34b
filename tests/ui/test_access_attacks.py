"""Attacks on the gate: cookies, origins, headers, routes, and sockets whose session has ended."""

from __future__ import annotations

import asyncio

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message
from streamlit.proto.BackMsg_pb2 import BackMsg

from specviz.access.roles import Role
from specviz.ui.access import SESSION_HEADER
from specviz.ui.access.gate import PERSON_HEADER
from specviz.ui.access.sockets import checked_receive
from tests.ui.gated_dashboard import HOST, NAME, RIGHT, Dashboard, dashboard
from tests.ui.test_access_refusals import ROUTES

__all__ = ["dashboard"]  # a fixture

SAM, VIC = "sam@uni.example", "vic@uni.example"
STREAM = "/_stcore/stream"
AGENT = ["/_stcore/agent/interact", "/_stcore/agent/openapi.json", "/_stcore/agent/mcp",
         "//_stcore//agent/interact", "/base/_stcore/agent/interact", "/_stcore/agent",
         "/_stcore/agent/"]  # fmt: skip


# Cookies


@pytest.mark.parametrize("path", [*ROUTES, *AGENT, "/_stcore/metrics", "/component/a/b.js"])
@pytest.mark.parametrize(
    "cookie",
    [f"{NAME}=", f"{NAME}={RIGHT}", f"{NAME}=1700000000.{'0' * 64}", f"{NAME}=None",
     "specviz_access_0=x", "_streamlit_user=x", f"{NAME}={'a' * 43}"],
)  # fmt: skip
def test_a_forged_cookie_opens_no_route(dashboard: Dashboard, path: str, cookie: str) -> None:
    answers = [
        dashboard.answer(each, cookies=(cookie,), headers=_plain(cookie))
        for each in (path, "/nothing/here")
    ]
    assert {each.status for each in answers} == {401}
    assert answers[0].text == answers[1].text  # whether something is there or not
    assert not any(each.passed for each in answers)


def _plain(cookie: str) -> list[tuple[bytes, bytes]]:
    return [(b"host", HOST.encode()), (b"cookie", cookie.encode())]


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_cookie_of_another_port_is_refused(dashboard: Dashboard, kind: str) -> None:
    cookie = dashboard.cookie()
    other = cookie.replace("8501", "8502")
    assert not dashboard.answer(STREAM, kind=kind, cookies=(other,)).passed
    assert not dashboard.answer(
        STREAM, kind=kind, cookies=(cookie,), server=("192.0.2.7", 1)
    ).passed


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_an_ended_session_is_refused(dashboard: Dashboard, kind: str) -> None:
    cookie = dashboard.cookie(SAM)
    assert dashboard.answer(STREAM, kind=kind, cookies=(cookie,)).passed
    dashboard.access.sessions.end_all_of(SAM)
    assert not dashboard.answer(STREAM, kind=kind, cookies=(cookie,)).passed


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_an_expired_session_is_refused(dashboard: Dashboard, kind: str) -> None:
    cookie = dashboard.cookie(SAM, seconds=60)
    dashboard.clock.time += 61
    assert not dashboard.answer(STREAM, kind=kind, cookies=(cookie,)).passed


def test_a_cookie_after_the_token_changed(dashboard: Dashboard) -> None:
    old = dashboard.answer(query=f"token={RIGHT}").cookie
    later = Dashboard()  # the server was started again, with another token
    later.access.token = "another-token-of-this-server"
    assert not later.passes(cookie=old)
    assert later.answer(query=f"token={RIGHT}", cookies=(old,)).status == 401


@pytest.mark.parametrize("path", [*ROUTES, *AGENT, "/_stcore/metrics"])
def test_the_token_opens_no_route_by_itself(dashboard: Dashboard, path: str) -> None:
    """A link with the token is only ever exchanged for a session."""
    answer = dashboard.answer(path, f"token={RIGHT}")
    assert (answer.status, answer.passed) == (303, [])
    assert RIGHT not in str(answer.sent)
    for kind, method in (("http", "POST"), ("http", "PUT"), ("websocket", "GET")):
        assert not dashboard.answer(path, f"token={RIGHT}", kind=kind, method=method).passed


# Headers that only the gate may send


@pytest.mark.parametrize("name", [SESSION_HEADER, PERSON_HEADER, SESSION_HEADER.lower()])
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_client_cannot_say_who_it_is(dashboard: Dashboard, name: str, kind: str) -> None:
    owner = dashboard.cookie()
    (session,) = dashboard.access.sessions.all()
    for value in (session.handle, dashboard.access.open_mark, owner, "ada%40uni.example"):
        forged = [(name.lower().encode(), value.encode())]
        assert not dashboard.answer(STREAM, kind=kind, more=forged).passed
        cookie = dashboard.cookie(VIC)
        (scope,) = dashboard.answer(STREAM, kind=kind, cookies=(cookie,), more=forged).passed
        assert value.encode() not in [text for _, text in scope["headers"]]


def test_the_gate_says_who_it_is(dashboard: Dashboard) -> None:
    cookie = dashboard.cookie(SAM)
    (scope,) = dashboard.answer(STREAM, kind="websocket", cookies=(cookie,)).passed
    headers = dict(scope["headers"])
    session = dashboard.access.sessions.find(headers[b"x-specviz-session"].decode())
    assert session is not None
    assert session.person == SAM
    assert headers[b"x-specviz-person"] == b"sam%40uni.example"
    assert cookie.partition("=")[2] not in headers[b"x-specviz-session"].decode()


# Where a request comes from


@pytest.mark.parametrize(
    "origins",
    [[], [b"http://evil.example"], [b"null"], [b""], [b"http://192.0.2.7"], [b"http://192.0.2.7:80"],
     [b"http://192.0.2.7:8502"], [b"http://localhost:8501"], [b"http://127.0.0.1:8501"],
     [f"http://{HOST}.evil.example".encode()], [f"http://{HOST}@evil.example".encode()],
     [f"http://evil.example/{HOST}".encode()], [f"file://{HOST}".encode()],
     [f"http://{HOST}".encode(), b"http://evil.example"], [HOST.encode()], [b"http://[::1"]],
)  # fmt: skip
@pytest.mark.parametrize("person", ["", SAM])
def test_a_socket_of_another_page_is_refused(
    dashboard: Dashboard, origins: list[bytes], person: str
) -> None:
    """Also one without an Origin, which Streamlit accepts."""
    headers = [(b"host", HOST.encode()), (b"cookie", dashboard.cookie(person).encode())]
    headers += [(b"origin", each) for each in origins]
    answer = dashboard.answer(STREAM, kind="websocket", headers=headers)
    assert answer.sent == [{"type": "websocket.close", "code": 1008}]
    assert not answer.passed


@pytest.mark.parametrize(
    ("scheme", "origin", "passes"),
    [("wss", "https", True), ("wss", "http", False), ("ws", "http", True), ("ws", "https", True)],
)
def test_under_https_a_page_of_http_is_foreign(
    dashboard: Dashboard, scheme: str, origin: str, passes: bool
) -> None:
    """Under ws, the page may be https: a proxy may send no X-Forwarded-Proto."""
    headers = [(b"host", HOST.encode()), (b"cookie", dashboard.cookie().encode())]
    headers += [(b"origin", f"{origin}://{HOST}".encode())]
    answer = dashboard.answer(STREAM, kind="websocket", headers=headers, scheme=scheme)
    assert bool(answer.passed) == passes


@pytest.mark.parametrize("hosts", [[], [b"192.0.2.7:8501", b"evil.example"]])
def test_a_socket_without_one_host_is_refused(dashboard: Dashboard, hosts: list[bytes]) -> None:
    headers = [(b"host", each) for each in hosts]
    headers += [(b"origin", b"http://192.0.2.7:8501"), (b"cookie", dashboard.cookie().encode())]
    assert not dashboard.answer(STREAM, kind="websocket", headers=headers).passed


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_another_page_sends_nothing(dashboard: Dashboard, method: str) -> None:
    cookie, path = dashboard.cookie(), "/_stcore/upload_file/a/b"
    foreign = [(b"origin", b"http://evil.example")]
    answer = dashboard.answer(path, method=method, cookies=(cookie,), more=foreign)
    assert (answer.status, answer.passed) == (403, [])
    own = [(b"origin", f"http://{HOST}".encode())]
    assert dashboard.answer(path, method=method, cookies=(cookie,), more=own).passed


@pytest.mark.parametrize("person", ["", SAM])
def test_no_other_origin_shows_the_dashboard_in_a_frame(person: str) -> None:
    """Another port of the host, for example, whose frame gets the cookie."""
    dashboard = Dashboard(app=PlainTextResponse("page"))
    open_page = dashboard.answer("/runs", cookies=(dashboard.cookie(person),))
    assert open_page.passed
    assert open_page.headers["content-security-policy"] == "frame-ancestors 'self'"
    refused = dashboard.answer("/runs").headers["content-security-policy"]
    assert "frame-ancestors 'none'" in refused


# Routes


@pytest.mark.parametrize("path", AGENT)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
@pytest.mark.parametrize("person", ["", SAM, VIC])
def test_nobody_uses_the_agent_routes(
    dashboard: Dashboard, path: str, method: str, person: str
) -> None:
    answer = dashboard.answer(path, method=method, cookies=(dashboard.cookie(person),))
    assert (answer.status, answer.passed) == (404, [])


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_a_viewer_uploads_nothing(dashboard: Dashboard, method: str) -> None:
    path = "/_stcore/upload_file/session/file"
    refused = [dashboard.answer(p, method=method, cookies=(dashboard.cookie(VIC),))
               for p in (path, f"/base{path}", "//_stcore/upload_file/x/y")]  # fmt: skip
    assert [(each.status, each.passed) for each in refused] == [(403, [])] * 3
    assert len({each.text for each in refused}) == 1
    assert dashboard.answer(path, method=method, cookies=(dashboard.cookie(SAM),)).passed


# Sockets whose session ends


class Socket:
    """Passes a browser's messages through the gate while a session is open."""

    def __init__(self, dashboard: Dashboard, person: str) -> None:
        self.dashboard, self.sent = dashboard, list[Message]()
        dashboard.cookie(person)
        handle = dashboard.access.sessions.all()[-1].handle
        access = dashboard.access

        async def arrives() -> Message:
            if not self.next:
                return {"type": "websocket.disconnect", "code": 1000}
            return {"type": "websocket.receive", "bytes": self.next.pop()}

        async def send(message: Message) -> None:
            self.sent.append(message)

        self.next = list[bytes]()
        self._receive = checked_receive(
            arrives, send, lambda: access.person_of(access.sessions.find(handle)),
            dashboard.clock,
        )  # fmt: skip

    async def _received(self) -> Message:
        return await self._receive()

    def pass_on(self, message: BackMsg) -> BackMsg | None:
        """Return what the page receives when the browser sends a message, or None."""
        self.next = [message.SerializeToString()]
        received = asyncio.run(self._received())
        if received["type"] == "websocket.disconnect":
            return None
        parsed = BackMsg()
        parsed.ParseFromString(received["bytes"])
        return parsed


def press(key: str = "run") -> BackMsg:
    """Return the message of a pressed button."""
    message = BackMsg()
    state = message.rerun_script.widget_states.widgets.add()
    state.id, state.trigger_value = f"$$ID-0-{key}", True
    message.rerun_script.fragment_id = "part"
    return message


def test_messages_pass_while_the_session_is_open(dashboard: Dashboard) -> None:
    socket = Socket(dashboard, SAM)
    for _ in range(3):
        assert socket.pass_on(press()) == press()


@pytest.mark.parametrize("ending", ["expired", "ended", "not listed"])
def test_after_its_end_a_press_reaches_no_page(dashboard: Dashboard, ending: str) -> None:
    socket = Socket(dashboard, SAM)
    if ending == "expired":
        dashboard.clock.time += 10**7
    elif ending == "ended":
        dashboard.access.sessions.end_all_of(SAM)
    else:
        del dashboard.roles[SAM]
    given = socket.pass_on(press())
    assert given is not None
    assert given.WhichOneof("type") == "rerun_script"
    assert not given.rerun_script.widget_states.widgets
    assert not given.rerun_script.fragment_id
    for _ in range(3):  # parts of the page that redraw themselves
        assert socket.pass_on(press()) is None
    assert socket.sent == []
    dashboard.clock.time += 31
    assert socket.pass_on(press()) is None
    assert socket.sent == [{"type": "websocket.close", "code": 1008}]


def for_the_server(kind: str) -> BackMsg:
    """Return a message that Streamlit obeys for all tabs or in the server's folders."""
    message = BackMsg()
    if kind in ("install_skills", "dismiss_skills_nudge"):
        getattr(message.backend_operation_request, kind).SetInParent()
    else:
        setattr(message, kind, True)
    return message


@pytest.mark.parametrize("person", [SAM, VIC])
@pytest.mark.parametrize(
    "kind",
    ["clear_cache", "set_run_on_save", "load_git_info", "debug_shutdown_runtime", "install_skills",
     "dismiss_skills_nudge"],
)  # fmt: skip
def test_only_an_owner_commands_the_server(dashboard: Dashboard, kind: str, person: str) -> None:
    assert Socket(dashboard, person).pass_on(for_the_server(kind)) is None
    assert Socket(dashboard, "").pass_on(for_the_server(kind)) == for_the_server(kind)


@pytest.mark.parametrize("kind", ["deferred_file", "dataframe_chunk"])
def test_a_tab_may_ask_for_its_own_data(dashboard: Dashboard, kind: str) -> None:
    message = BackMsg()
    getattr(message.backend_operation_request, kind).SetInParent()
    assert Socket(dashboard, VIC).pass_on(message) == message


def test_a_lower_role_keeps_the_connection(dashboard: Dashboard) -> None:
    """The role is checked where the work is done."""
    socket = Socket(dashboard, SAM)
    dashboard.roles[SAM] = Role.VIEWER
    assert socket.pass_on(press()) == press()
