"""Timers of a page that was left, kept from the server.

A part that draws itself again asks for that by a timer of the browser, and names the page that the
browser takes for the open one. After a press of a link that is still the page before, until the
new one's first word comes. Streamlit then opens the old page again, without its elements: the next
part that is drawn has no place ("Bad delta path"), or the press of the link is lost.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from google.protobuf.message import DecodeError
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState

_STALE = 3.0  # seconds after a change of page; a timer that is dropped comes again


@dataclass(slots=True)
class OpenPage:
    """Which page a browser's connection has asked for, and which one it has left for it."""

    asked: str = ""
    left: str = ""
    since: float = 0.0

    def is_stale(self, rerun: ClientState, now: float) -> bool:
        """Whether this comes from a timer of the page that was left."""
        page = rerun.page_script_hash
        if rerun.is_auto_rerun:
            return bool(page) and page == self.left and now < self.since + _STALE
        if page != self.asked:
            self.asked, self.left, self.since = page, self.asked, now
        return False


class StaleTicks:
    """Passes on all that a browser says but such timers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        page = OpenPage()

        async def heard() -> Message:
            while _is_stale(page, message := await receive()):
                pass
            return message

        await self._app(scope, heard, send)


def _is_stale(page: OpenPage, message: Message) -> bool:
    said = BackMsg()
    try:
        said.ParseFromString(message.get("bytes") or b"")
    except DecodeError:
        return False  # Streamlit's to refuse
    return said.HasField("rerun_script") and page.is_stale(said.rerun_script, time.monotonic())
