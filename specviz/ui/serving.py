"""ASGI middleware and startup of the server.

The document that Streamlit sends first is empty, and a browser needs more than a second to fill it.
``FirstDocument`` adds the first view of Watch and preloads the scripts that the page will need.
Meanwhile the server starts the worker process for the first run.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs

import streamlit
from anyio import to_thread
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specviz.access.demo import is_demo
from specviz.ui.access import AccessGate, announce_link
from specviz.ui.access.inner_requests import answer_of
from specviz.ui.body_limit import BodyLimit, limit_uploads
from specviz.ui.downloads import OwnDownloads
from specviz.ui.ending import Ending
from specviz.ui.health import Health
from specviz.ui.read_only import ReadOnly
from specviz.ui.session.server_rules import guard_outgoing
from specviz.ui.session.tabs import TAB_LINK
from specviz.ui.session.worker import store_unfinished_runs, the_worker
from specviz.ui.shell import PAGES, Page
from specviz.ui.stale_ticks import StaleTicks
from specviz.ui.watch.first_stage import RECORDING_LINK, first_stage_body, first_stage_head
from specviz.ui.watch.library_run import RUN_LINK

_SCRIPTS = Path(streamlit.__file__).parent / "static" / "static" / "js"
_IMPORTED = re.compile(r"""(?:from|import)\s*["'`]\./([\w.-]+\.js)["'`]""")
# Request headers that refer to the unmodified document on disk.
_NOT_PASSED_ON = {b"accept-encoding", b"if-none-match", b"if-modified-since", b"range"}
_ROOT = '<div id="root">'


@asynccontextmanager
async def get_ready(_app: object) -> AsyncIterator[None]:
    """Print the link with the access token and start the worker process in the background.

    The worker process starts this early because it needs several seconds to import its libraries.
    The demo has no worker process. When the server ends, runs in progress are stopped and stored.
    """
    announce_link()
    guard_outgoing()
    limit_uploads()
    if is_demo():
        yield
        return
    Thread(target=the_worker, name="get ready", daemon=True).start()
    ending = Ending(store_unfinished_runs)
    with ending.at_signals():
        yield
        await to_thread.run_sync(ending.wait)


class FirstDocument:
    """Middleware that adds the page's first view to Streamlit's empty document."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        page = _page_of(scope)
        if page is None:
            await self._app(scope, receive, send)
            return
        headers = [each for each in scope["headers"] if each[0] not in _NOT_PASSED_ON]
        start, body = await answer_of(self._app, {**scope, "headers": headers}, receive)
        if start["status"] == 200 and _is_html(start):
            await _document(body.decode(), page, scope)(scope, receive, send)
        else:
            await send(start)
            await send({"type": "http.response.body", "body": body})


MIDDLEWARE = [
    Middleware(Health),  # before the gate: it is open to everybody
    Middleware(AccessGate),
    Middleware(BodyLimit),
    Middleware(ReadOnly),
    Middleware(FirstDocument),
    Middleware(StaleTicks),
    Middleware(OwnDownloads),
]


def _is_html(start: Message) -> bool:
    return "text/html" in Headers(raw=start["headers"]).get("content-type", "")


def _document(source: str, page: Page, scope: Scope) -> Response:
    plain, packed = _documents(source, page, _opens_with_stage(scope, page))
    headers = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if "gzip" not in Headers(scope=scope).get("accept-encoding", ""):
        return Response(plain, headers=headers, media_type="text/html")
    headers["Content-Encoding"] = "gzip"
    return Response(packed, headers=headers, media_type="text/html")


def _page_of(scope: Scope) -> Page | None:
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    name = scope["path"].strip("/") or PAGES[0].name
    return next((page for page in PAGES if page.name == name), None)


def _opens_with_stage(scope: Scope, page: Page) -> bool:
    """Return whether the page is Watch and its link names no run and no tab to restore."""
    query = parse_qs(scope["query_string"].decode("latin-1"))
    return page is PAGES[0] and not query.keys() & {RUN_LINK, TAB_LINK, RECORDING_LINK}


@cache
def _documents(source: str, page: Page, with_stage: bool) -> tuple[bytes, bytes]:
    """Return Streamlit's document with preload links and, if ``with_stage``, Watch's first view.

    The result is the document in two encodings: plain and gzipped.
    """
    head = "".join(_preloads(source, page))
    body = ""
    if with_stage:
        head, body = head + first_stage_head(), first_stage_body()
    html = source.replace("<title>Streamlit</title>", "<title>specviz</title>")
    html = html.replace("</head>", f"{head}</head>", 1).replace(_ROOT, f"{body}{_ROOT}", 1)
    plain = html.encode()
    return plain, gzip.compress(plain, 6)


def _preloads(source: str, page: Page) -> Iterator[str]:
    """Yield preload links for the page's Streamlit scripts and for the scripts they import.

    Without preload links, the browser requests these scripts late: after the page's first element
    has arrived, and after the scripts of other elements.
    """
    found = [path.name for kind in page.drawn_by for path in _SCRIPTS.glob(f"{kind}.*.js")]
    for name in found:  # grows while it is iterated over
        if f"/{name}" in source:
            continue  # Streamlit's document already requests it
        yield f'<link rel="modulepreload" crossorigin href="./static/js/{name}">\n'
        text = (_SCRIPTS / name).read_text(encoding="utf-8")
        found += [each for each in _IMPORTED.findall(text) if each not in found]
