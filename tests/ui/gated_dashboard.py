"""A dashboard behind the access gate, with a clock that the test sets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from specviz.ui.access import (
    Access,
    Penalties,
    TokenGate,
)

RIGHT = "right-token-of-this-server"
NETWORK = ("192.0.2.7", 8501)
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
