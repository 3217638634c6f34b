"""A dashboard behind the access gate, with a clock that the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specviz.access.roles import Role
from specviz.ui.access import Access, AccessGate, Penalties
from specviz.ui.access.state import TOKEN_SECONDS, BegunLogins
from tests.access.clock import Clock

RIGHT = "right-token-of-this-server"
NETWORK = ("192.0.2.7", 8501)
NAME = "specviz_access_8501"
HOST = "192.0.2.7:8501"
ROLES = {"ada@uni.example": Role.OWNER, "sam@uni.example": Role.STUDENT,
         "vic@uni.example": Role.VIEWER}  # fmt: skip


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
    """A gate in front of an application that records what passes.

    ``app`` answers in place of the application, and ``roles`` are the people who may enter.
    """

    def __init__(
        self,
        *,
        chosen: bool = False,
        providers: tuple[str, ...] = (),
        app: ASGIApp | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.clock = Clock()
        self.roles = dict(ROLES)
        now = clock or self.clock
        self.access = Access(
            token=RIGHT, chosen=chosen, providers=providers, now=now,
            penalties=Penalties(self.clock), logins=BegunLogins(self.clock),
            role_of=self.roles.get,
        )  # fmt: skip
        self.access.announced = True
        self._passed: list[Scope] = []
        self._behind = app
        self.gate = AccessGate(self._app, self.access)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._passed.append(scope)
        if self._behind is not None:
            await self._behind(scope, receive, send)

    def cookie(self, person: str = "", *, seconds: float = TOKEN_SECONDS) -> str:
        """Open a session of a person, by default of the owner with the token."""
        return f"{NAME}={self.access.sessions.open(person, seconds=seconds)}"

    def answer(
        self,
        path: str = "/",
        query: str = "",
        *,
        kind: str = "http",
        cookies: tuple[str, ...] = (),
        more: Sequence[tuple[bytes, bytes]] = (),
        **scope: Any,
    ) -> Answer:
        sent: list[Message] = []
        passed = len(self._passed)

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": f"{kind}.request"}

        headers = [(b"accept", b"text/html"), (b"host", HOST.encode()), *more]
        headers += [(b"cookie", each.encode()) for each in cookies]
        if kind == "websocket":
            headers.append((b"origin", f"http://{HOST}".encode()))
        request = {
            "type": kind, "path": path, "query_string": query.encode(), "headers": headers,
            "server": NETWORK, "client": ("198.51.100.1", 40000), "scheme": "http",
            **({"method": "GET"} if kind == "http" else {}), **scope,
        }  # fmt: skip
        asyncio.run(self.gate(request, receive, send))
        return Answer(self._passed[passed:], sent)

    def passes(self, *, cookie: str) -> bool:
        return bool(self.answer(cookies=(cookie,)).passed)


@pytest.fixture
def dashboard() -> Dashboard:
    return Dashboard()
