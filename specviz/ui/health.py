"""The health check of the server: ``GET /health`` says whether the worker process answers.

The check is open to everybody, even if the pages require a token. So the answer contains nothing
else. The answer is kept for a moment, so that many requests cause only one question to the worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

from anyio import to_thread
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from specviz.access.demo import is_demo
from specviz.ui.session.worker import worker_answers

PATH = "/health"
_SECONDS = 3.0  # for the worker's answer
_KEPT = 2.0  # seconds


class Health:
    """Middleware that answers the health check; every other request passes unchanged."""

    def __init__(self, app: ASGIApp, answers: Callable[[float], bool] = worker_answers) -> None:
        self._app = app
        self._answers = answers
        self._lock = Lock()
        self._known: tuple[float, bool] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        healthy = is_demo() or await to_thread.run_sync(self._is_healthy)
        text, status = ("ok", 200) if healthy else ("the worker does not answer", 503)
        response = PlainTextResponse(f"{text}\n", status, {"Cache-Control": "no-store"})
        await response(scope, receive, send)

    def _is_healthy(self) -> bool:
        with self._lock:
            now = time.monotonic()
            if self._known is None or now - self._known[0] > _KEPT:
                self._known = now, self._answers(_SECONDS)
            return self._known[1]
