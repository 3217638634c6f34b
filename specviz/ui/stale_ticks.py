"""Middleware that drops rerun timers of a page that the browser has left.

A fragment with ``run_every`` is rerun by a timer in the browser, which names the page that the
browser believes is open. After a click on a link that is still the previous page, until the new
page's first message arrives. Streamlit would then open the old page again without its elements:
the next element has no place ("Bad delta path"), or the click is lost.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from google.protobuf.message import DecodeError
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState

_STALE = 3.0  # seconds after a change of page; a dropped timer fires again


@dataclass(slots=True)
class OpenPage:
    """The page that a browser's connection requested last, and the page before it."""

    requested: str = ""
    left: str = ""
    since: float = 0.0

    def is_stale(self, rerun: ClientState, now: float) -> bool:
        """Return whether this rerun was requested by a timer of the page that was left."""
        page = rerun.page_script_hash
        if rerun.is_auto_rerun:
            return bool(page) and page == self.left and now < self.since + _STALE
        if page != self.requested:
            self.requested, self.left, self.since = page, self.requested, now
        return False


class StaleTicks:
    """Middleware that passes on every message from a browser except stale timers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        page = OpenPage()

        async def receive_current() -> Message:
            while _is_stale(page, message := await receive()):
                pass
            return message

        await self._app(scope, receive_current, send)


def _is_stale(page: OpenPage, message: Message) -> bool:
    parsed = BackMsg()
    try:
        parsed.ParseFromString(message.get("bytes") or b"")
    except DecodeError:
        return False  # Streamlit refuses it
    return parsed.HasField("rerun_script") and page.is_stale(parsed.rerun_script, time.monotonic())
