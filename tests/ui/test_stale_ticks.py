"""A timer of a page that was left reaches the server no more; all else does."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg

from specviz.ui import stale_ticks
from specviz.ui.stale_ticks import StaleTicks


def asked(page: str, *, timer: bool = False) -> bytes:
    said = BackMsg()
    said.rerun_script.page_script_hash = page
    said.rerun_script.is_auto_rerun = timer
    return said.SerializeToString()


def passed_on(*said: bytes | None, kind: str = "websocket") -> list[bytes | None]:
    """What Streamlit hears of what a browser said."""
    waiting: list[Message] = [{"type": "websocket.receive", "bytes": each} for each in said]
    waiting.append({"type": "websocket.disconnect"})
    heard: list[bytes | None] = []

    async def streamlits(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (message := await receive())["type"] != "websocket.disconnect":
            heard.append(message["bytes"])

    async def receive() -> Message:
        return waiting.pop(0)

    async def send(_message: Message) -> None: ...

    asyncio.run(StaleTicks(streamlits)({"type": kind}, receive, send))
    return heard


def test_a_timer_of_the_page_that_was_left_is_dropped() -> None:
    first, timer, second = asked("a"), asked("a", timer=True), asked("b")
    of_second = asked("b", timer=True)
    heard = passed_on(first, timer, second, timer, of_second, timer)
    assert heard == [first, timer, second, of_second]


def test_who_goes_back_is_followed_again() -> None:
    there, back, timer = asked("b"), asked("a"), asked("a", timer=True)
    assert passed_on(asked("a"), there, back, timer)[-1] == timer


def test_a_page_that_the_server_opens_by_itself_is_followed_after_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timer = asked("a", timer=True)
    monkeypatch.setattr(stale_ticks, "_STALE", 0.0)
    assert passed_on(asked("a"), asked("b"), timer)[-1] == timer


@pytest.mark.parametrize("odd", [None, b"", b"\xff\xff\xff", asked("", timer=True)])
def test_what_is_no_timer_of_a_page_passes(odd: bytes | None) -> None:
    assert passed_on(odd, asked("a"), odd) == [odd, asked("a"), odd]


def test_other_requests_pass_as_they_are() -> None:
    timer = asked("a", timer=True)
    assert passed_on(asked("a"), asked("b"), timer, kind="http")[-1] == timer
