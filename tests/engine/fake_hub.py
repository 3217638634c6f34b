"""The Hub, small enough to run inside a test: its real protocol over a local port.

A repository is a folder on disk; errors are the status codes and headers that the real
one sends, so that the installed client raises its own exceptions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

COMMIT = "0" * 39 + "1"


class FakeHub(ThreadingHTTPServer):
    """``repositories`` maps an id to its folder; ``gated`` ids refuse their files."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Path] = {}
        self.gated: set[str] = set()
        self.broken = False
        self.sent: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def running_hub() -> Iterator[FakeHub]:
    hub = FakeHub()
    thread = Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its own name)
        pass

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        api = path.startswith("/api/models/")
        hub_id = "/".join(path.removeprefix("/api/models").split("/")[1:3])
        folder = self.server.repositories.get(hub_id)
        if self.server.broken:
            self._send(418, b"", {})
        elif folder is None:
            self._send(401, b"", {"X-Error-Code": "RepoNotFound"})
        elif api:
            self._send(200, json.dumps(_listing(folder, hub_id, "/tree/" in path)).encode(), {})
        elif hub_id in self.server.gated:
            self._send(403, b"", {"X-Error-Code": "GatedRepo"})
        else:
            self._send_file(folder / path.split(f"/resolve/{COMMIT}/")[1])

    def _send_file(self, file: Path) -> None:
        if self.command == "GET":
            self.server.sent.append(file.name)
        etag = f'"{sha1(file.read_bytes()).hexdigest()}"'
        self._send(200, file.read_bytes(), {"ETag": etag, "X-Repo-Commit": COMMIT})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def _listing(folder: Path, hub_id: str, tree: bool) -> object:
    files = [file for file in sorted(folder.iterdir()) if file.is_file()]
    if not tree:
        return {"id": hub_id, "sha": COMMIT, "siblings": [{"rfilename": f.name} for f in files]}
    return [
        {
            "type": "file",
            "path": file.name,
            "size": file.stat().st_size,
            "oid": sha1(file.read_bytes()).hexdigest(),
        }
        for file in files
    ]
