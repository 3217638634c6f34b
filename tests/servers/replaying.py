"""A local test server that replays recorded answers, or misbehaves."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).with_name("answers")
Behave = Callable[["Handler"], None]


@dataclass
class Page:
    """The answer to a request: bytes in chunks, or a behaviour."""

    body: bytes = b""
    status: int = 200
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    behave: Behave | None = None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    body: Any = None  # of a POST

    @property
    def served(self) -> Served:
        assert isinstance(self.server, Served)
        return self.server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self.body = json.loads(self.rfile.read(length))
        self.served.bodies.append(self.body)
        self._answer()

    def _answer(self) -> None:
        self.served.asked.append((self.path, dict(self.headers)))
        page = self.served.pages.get(self.path)
        if page is None:
            self.send(Page(status=404, body=b'{"detail":"Not Found"}'))
        elif page.behave is not None:
            page.behave(self)
        else:
            self.send(page)

    def send(self, page: Page) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.body)))
        for name, value in page.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(page.body)

    def begin_stream(self) -> None:
        """Begin an answer that ends with the connection."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()

    def event(self, value: object) -> None:
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
        self.wfile.flush()

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Log nothing."""


class Served(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, pages: Mapping[str, Page]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages = dict(pages)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.bodies: list[dict[str, object]] = []
        self.over = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect."""


@contextmanager
def served(pages: Mapping[str, Page]) -> Iterator[Served]:
    server = Served(pages)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


class EveryPage(dict[str, Page]):
    """Serve the same behaviour on every page."""

    def __init__(self, behave: Behave) -> None:
        super().__init__()
        self._page = Page(behave=behave)

    def get(self, _path: str, _default: Any = None) -> Any:
        return self._page


@contextmanager
def answering(behave: Behave) -> Iterator[Served]:
    """Serve one behaviour on every page."""
    with served({}) as server:
        server.pages = EveryPage(behave)
        yield server


@contextmanager
def replayed(engine: str, answer: str | None = None) -> Iterator[Served]:
    """Serve a recorded engine: its pages, and one answer to every request."""
    record = json.loads((ANSWERS / engine / "pages.json").read_text(encoding="utf-8"))
    pages = {
        path: Page(body=page["body"].encode(), status=page["status"], kind=page["kind"])
        for path, page in record["pages"].items()
    }
    if answer is not None:
        body = (ANSWERS / engine / f"{answer}.sse").read_bytes()
        pages[record["answers"][answer]["path"]] = Page(body=body, kind="text/event-stream")
    with served(pages) as server:
        yield server


def events_page(events: Sequence[object], *, done: bool = True) -> Page:
    body = "".join(f"data: {json.dumps(each)}\n\n" for each in events)
    return Page(
        body=(body + ("data: [DONE]\n\n" if done else "")).encode(), kind="text/event-stream"
    )
