"""Middleware that drops rerun requests for a page that the browser has left.

For a fragment with ``run_every``, a timer in the browser requests each rerun and names the open
page. After a click on a link, the timer still names the previous page until the new page's first
message arrives. Streamlit would then run the previous page again, although the browser has removed
its elements. The browser then reports "Bad delta path", or the click on the link is lost.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from google.protobuf.message import DecodeError
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState

_STALE = 3.0  # seconds after a change of page in which the previous page's reruns are dropped


@dataclass(slots=True)
class OpenPage:
    """The open page of a connection and its previous page, as Streamlit script hashes."""

    requested: str = ""
    left: str = ""
    since: float = 0.0

    def is_stale(self, rerun: ClientState, now: float) -> bool:
        """Return whether a timer of the previous page requested this rerun.

        A rerun that no timer requested is never stale. Such a rerun updates the open page.
        """
        page = rerun.page_script_hash
        if rerun.is_auto_rerun:
            return bool(page) and page == self.left and now < self.since + _STALE
        if page != self.requested:
            self.requested, self.left, self.since = page, self.requested, now
        return False


class StaleTicks:
    """Middleware that passes on every message from a browser except stale rerun requests."""

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
