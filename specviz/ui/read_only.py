"""Middleware of the demo: visitors can only read pages. Uploads and other changes are refused."""

from __future__ import annotations

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from specviz.access.demo import is_demo

_READING = ("GET", "HEAD", "OPTIONS")
_UPLOADS = "/upload_file"  # of Streamlit; part of the path


class ReadOnly:
    """Middleware that, in demo mode, refuses every HTTP request that could change something."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_demo() and scope["type"] == "http" and not _only_reads(scope):
            response = PlainTextResponse("The demo is read-only.\n", 403)
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _only_reads(scope: Scope) -> bool:
    return scope["method"] in _READING and _UPLOADS not in scope["path"]
