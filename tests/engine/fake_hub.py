"""A small fake Hub that speaks the real protocol on a local port.

A repository is a folder on disk; errors use the real status codes and headers, so the installed
client raises its own exceptions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha1, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from urllib.parse import unquote, urlsplit

COMMIT = "0" * 39 + "1"
PIECE = 4096  # bytes of a file sent at once
_XET_STORE = "/xet-store"


class FakeHub(ThreadingHTTPServer):
    """``repositories`` maps an id to its folder; ``gated`` ids refuse their files.

    Files in ``held`` are sent only by half until ``release`` is set; ``pace`` is the seconds
    between pieces of all others. With ``xet`` the weights are in a Xet store that never answers.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Path] = {}
        self.gated: set[str] = set()
        self.broken = False
        self.sent: list[str] = []
        self.held: set[str] = set()
        self.release = Event()
        self.pace = 0.0
        self.xet = False
        self.xet_asked = Event()

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
        hub.release.set()
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
        hub_id = "/".join(path.removeprefix("/api/models").split("/")[1:3])
        folder = self.server.repositories.get(hub_id)
        if self.server.broken:
            self._send(418, b"", {})
        elif path.startswith(_XET_STORE):
            self.server.xet_asked.set()
            self.server.release.wait()
        elif folder is None:
            self._send(401, b"", {"X-Error-Code": "RepoNotFound"})
        elif "/xet-read-token/" in path:
            self._send(200, b"", self._xet_access())
        elif path.startswith("/api/models/"):
            self._send(200, self._describe(folder, hub_id, "/tree/" in path), {})
        elif hub_id in self.server.gated:
            self._send(403, b"", {"X-Error-Code": "GatedRepo"})
        else:
            self._send_file(folder / path.split(f"/resolve/{COMMIT}/")[1])

    def _describe(self, folder: Path, hub_id: str, tree: bool) -> bytes:
        return json.dumps(_listing(folder, hub_id, tree, self.server.xet)).encode()

    def _xet_access(self) -> dict[str, str]:
        return {
            "X-Xet-Cas-Url": self.server.url + _XET_STORE,
            "X-Xet-Access-Token": "token",
            "X-Xet-Token-Expiration": str(int(time.time()) + 3600),
        }

    def _send_file(self, file: Path) -> None:
        if self.command == "GET":
            self.server.sent.append(file.name)
        etag = f'"{sha1(file.read_bytes()).hexdigest()}"'
        self._send(200, file.read_bytes(), {"ETag": etag, "X-Repo-Commit": COMMIT}, file.name)

    def _send(self, status: int, body: bytes, headers: dict[str, str], name: str = "") -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            with suppress(ConnectionError):  # the client may have hung up
                self._send_pieces(body, name in self.server.held)

    def _send_pieces(self, body: bytes, held: bool) -> None:
        for start in range(0, len(body), PIECE):
            if held and start >= len(body) // 2:
                self.server.release.wait()
            self.wfile.write(body[start : start + PIECE])
            time.sleep(self.server.pace)


def _listing(folder: Path, hub_id: str, tree: bool, xet: bool) -> object:
    files = [file for file in sorted(folder.iterdir()) if file.is_file()]
    if not tree:
        return {"id": hub_id, "sha": COMMIT, "siblings": [{"rfilename": f.name} for f in files]}
    return [_entry(file, xet and file.suffix == ".safetensors") for file in files]


def _entry(file: Path, xet: bool) -> dict[str, object]:
    body = file.read_bytes()
    plain = {
        "type": "file",
        "path": file.name,
        "size": len(body),
        "oid": sha1(body).hexdigest(),
    }
    digest = sha256(body).hexdigest()
    stored = {"lfs": {"oid": digest, "size": len(body), "pointerSize": 9}, "xetHash": digest}
    return plain | stored if xet else plain
