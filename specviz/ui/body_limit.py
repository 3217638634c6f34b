"""ASGI middleware that refuses request bodies and WebSocket messages above the limit.

The limit is ``request_body`` of the settings. It applies to everybody, because the server must hold
a body in memory before it knows what the body asks for.
"""

from __future__ import annotations

import math
from functools import cache

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import config

from specviz.access.settings import the_settings
from specviz.record.numbers import SIZE

_UPLOAD_SIZE = "server.maxUploadSize"  # in MiB
_TOO_BIG_MESSAGE = 1009  # WebSocket close code


class _TooLargeError(Exception):
    pass


class BodyLimit:
    """Middleware that refuses what is above the limit.

    A request is answered with 413, and a WebSocket is closed with 1009. A request's declared length
    is checked before the body is read. The bytes are also counted while the body is read.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        most, received, began = the_settings().limits.request_body, 0, False
        refused = _declared_length(scope) > most

        async def counted() -> Message:
            nonlocal received, refused
            message = await receive()
            received += len(message.get("body", b""))
            if received > most:
                refused = True
                raise _TooLargeError
            return message

        async def unless_refused(message: Message) -> None:
            nonlocal began
            if not refused:
                began = True
                await send(message)

        if not refused:
            try:
                await self._app(scope, counted, unless_refused)
            except Exception:
                if not refused:
                    raise
        if refused and not began:
            text = f"The request is larger than {SIZE.shown(most)}.\n"
            await PlainTextResponse(text, 413, {"Connection": "close"})(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        closed = False

        async def checked() -> Message:
            nonlocal closed
            message = await receive()
            if _message_size(message) > the_settings().limits.request_body:
                closed = True
                await send({"type": "websocket.close", "code": _TOO_BIG_MESSAGE})
                return {"type": "websocket.disconnect", "code": _TOO_BIG_MESSAGE}
            return message

        async def unless_closed(message: Message) -> None:
            if not closed:
                await send(message)

        await self._app(scope, checked, unless_closed)


def limit_uploads() -> None:
    """Make the pages' upload boxes refuse files above the limit, and show the files' names."""
    limit = math.floor(the_settings().limits.request_body / 2**20)
    config.set_option(_UPLOAD_SIZE, max(1, min(_upload_size_at_start(), limit)))


@cache
def _upload_size_at_start() -> int:
    return int(config.get_option(_UPLOAD_SIZE))


def _declared_length(scope: Scope) -> int:
    """Return the Content-Length; 0 if there is none, or if it is not a number."""
    declared = Headers(scope=scope).get("content-length", "")
    return int(declared) if declared.isascii() and declared.isdigit() else 0


def _message_size(message: Message) -> int:
    text = message.get("text")
    return len(message.get("bytes") or b"") if text is None else len(text.encode())
