"""Timers of a page that was left are dropped; everything else passes."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg

from specviz.ui import stale_ticks
from specviz.ui.stale_ticks import StaleTicks


def asked(page: str, *, timer: bool = False) -> bytes:
    message = BackMsg()
    message.rerun_script.page_script_hash = page
    message.rerun_script.is_auto_rerun = timer
    return message.SerializeToString()


def passed_on(*messages: bytes | None, kind: str = "websocket") -> list[bytes | None]:
    """Return the messages that reach Streamlit."""
    waiting: list[Message] = [{"type": "websocket.receive", "bytes": each} for each in messages]
    waiting.append({"type": "websocket.disconnect"})
    received: list[bytes | None] = []

    async def streamlits(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (message := await receive())["type"] != "websocket.disconnect":
            received.append(message["bytes"])

    async def receive() -> Message:
        return waiting.pop(0)

    async def send(_message: Message) -> None: ...

    asyncio.run(StaleTicks(streamlits)({"type": kind}, receive, send))
    return received


def test_a_timer_of_the_page_that_was_left_is_dropped() -> None:
    first, timer, second = asked("a"), asked("a", timer=True), asked("b")
    of_second = asked("b", timer=True)
    received = passed_on(first, timer, second, timer, of_second, timer)
    assert received == [first, timer, second, of_second]


def test_timers_pass_after_going_back() -> None:
    there, back, timer = asked("b"), asked("a"), asked("a", timer=True)
    assert passed_on(asked("a"), there, back, timer)[-1] == timer


def test_timers_of_a_page_opened_by_the_server_pass_after_a_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timer = asked("a", timer=True)
    monkeypatch.setattr(stale_ticks, "_STALE", 0.0)
    assert passed_on(asked("a"), asked("b"), timer)[-1] == timer


@pytest.mark.parametrize("odd", [None, b"", b"\xff\xff\xff", asked("", timer=True)])
def test_other_messages_pass(odd: bytes | None) -> None:
    assert passed_on(odd, asked("a"), odd) == [odd, asked("a"), odd]


def test_other_requests_pass_unchanged() -> None:
    timer = asked("a", timer=True)
    assert passed_on(asked("a"), asked("b"), timer, kind="http")[-1] == timer
