"""HTTP to one engine: JSON pages, and streams of events, within bounds of size and time.

Redirects are not followed, nor the settings of proxies or netrc in the environment: what is sent
goes to the address that was given and nowhere else. Every failure is one ``ServerError``. The key
is in no error, not even where an engine repeats it.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Timer
from typing import Any, Literal

import httpx2

from specviz.errors import ServerError
from specviz.servers.address import KeyName, checked_address, key_of
from specviz.servers.failures import answered, broken, unreachable

MAX_LINE = 10**6  # bytes
MAX_BODY = 64 * 10**6
_SHORTEST_SECRET = 8  # characters
_NO_SUCH_PAGE = (404, 405, 501)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds."""

    connect: float = 5.0
    between: float = 60.0  # two pieces, and before the first one
    total: float = 900.0


PATIENT = Limits()
QUICK = Limits(between=10.0, total=20.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """``at``: of ``time.perf_counter``, when its last piece came."""

    text: str
    at: float


class Connection:
    """Requests to one address, one at a time. ``stop`` may be called from any thread."""

    def __init__(
        self, address: str, *, key: KeyName, allow_remote: bool = False, limits: Limits = QUICK
    ) -> None:
        self.address = checked_address(address, allow_remote=allow_remote)
        self._key_name: KeyName = key
        self._key = key_of(key)
        self._limits = limits
        self._stopped, self._late = Event(), Event()
        self._socket: socket.socket | None = None

    def __repr__(self) -> str:
        return f"Connection({self.address!r})"

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def get(self, path: str) -> Any:
        """A JSON page; None if there is no such page, or it is none of JSON."""
        return _json_or_none(self.get_text(path))

    def get_text(self, path: str) -> str | None:
        """None if there is no such page."""
        with self._open("GET", path) as response:
            if response.status_code in _NO_SUCH_PAGE:
                return None
            self._check(response)
            return self._text(response, path)

    def look(self, path: str) -> Any:
        """A JSON page that only some engines have: None whatever else is answered."""
        return _json_or_none(self.look_text(path))

    def look_text(self, path: str) -> str | None:
        with self._open("GET", path) as response:
            return self._text(response, path) if response.is_success else None

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        with self._open("POST", path, body) as response:
            self._check(response)
            return parsed(self.address, self._text(response, path))

    def lines(self, path: str, body: Mapping[str, Any]) -> Iterator[Line]:
        """The lines of a streamed answer, as they come."""
        with self._open("POST", path, body) as response:
            self._check(response)
            yield from self._split(self._pieces(response, path))

    def stop(self) -> None:
        """Ends what is under way at once; the thread that waits for it is told so by an error."""
        self._stopped.set()
        self._hang_up()

    @contextmanager
    def _open(
        self, method: Literal["GET", "POST"], path: str, body: Mapping[str, Any] | None = None
    ) -> Iterator[httpx2.Response]:
        watch = Timer(self._limits.total, self._run_late)
        watch.daemon = True
        watch.start()
        try:
            with self._client() as client, client.stream(method, path, json=body) as response:
                yield response
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise self._explained(error) from None
        finally:
            watch.cancel()
            self._socket = None

    def _client(self) -> httpx2.Client:
        limits = self._limits
        headers = {"Accept-Encoding": "identity"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        return httpx2.Client(
            base_url=self.address,
            headers=headers,
            timeout=httpx2.Timeout(limits.between, connect=limits.connect),
            follow_redirects=False,
            verify=self.address.startswith("https:"),  # reading the certificates takes 0.1 s
            trust_env=False,
            event_hooks={"request": [self._listen]},
        )

    def _listen(self, request: httpx2.Request) -> None:
        request.extensions = {**request.extensions, "trace": self._note}

    def _note(self, event: str, info: Mapping[str, Any]) -> None:
        """Keeps the socket, so that another thread can hang up."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._socket = info["return_value"].get_extra_info("socket")
            if self._stopped.is_set() or self._late.is_set():
                self._hang_up()

    def _hang_up(self) -> None:
        if (held := self._socket) is not None:
            with suppress(OSError):
                # Of the plain socket: one that is encrypted would say goodbye first.
                socket.socket.shutdown(held, socket.SHUT_RDWR)

    def _run_late(self) -> None:
        self._late.set()
        self._hang_up()

    def _check(self, response: httpx2.Response) -> None:
        if not response.is_success:
            known = (self._key_name, self._key is not None)
            raise answered(self.address, response, self._error_text(response), known)

    def _text(self, response: httpx2.Response, path: str) -> str:
        return self._shown(b"".join(self._pieces(response, path)))

    def _shown(self, data: bytes | bytearray) -> str:
        """As text, without the key: but for keys so short that they may well stand for nothing."""
        text = data.decode(errors="replace")
        hidden = self._key is not None and len(self._key) >= _SHORTEST_SECRET
        return text.replace(self._key, "[key]") if hidden and self._key else text

    def _pieces(self, response: httpx2.Response, path: str) -> Iterator[bytes]:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise broken(self.address, f"sends {path} compressed, which was not asked for")
        size = 0
        for piece in response.iter_raw():
            size += len(piece)
            if size > MAX_BODY:
                raise broken(self.address, f"sends more than {MAX_BODY // 10**6} MB for {path}")
            yield piece
        if self._stopped.is_set() or self._late.is_set():
            raise self._explained(None)

    def _split(self, pieces: Iterator[bytes]) -> Iterator[Line]:
        held = bytearray()
        for piece in pieces:
            at = time.perf_counter()
            *ends, rest = piece.split(b"\n")
            for end in ends:
                held += end
                yield Line(text=self._shown(self._bounded(held)).rstrip("\r"), at=at)
                held = bytearray()
            held += rest
            self._bounded(held)
        if held:
            yield Line(text=self._shown(held), at=time.perf_counter())

    def _bounded(self, line: bytearray) -> bytearray:
        if len(line) > MAX_LINE:
            raise broken(self.address, f"sends a line of more than {MAX_LINE // 10**6} MB")
        return line

    def _error_text(self, response: httpx2.Response) -> str:
        """The first part of what it says of an error, without the key."""
        said = b""
        for piece in response.iter_raw():
            said += piece
            if len(said) > 10_000:
                break
        text = said[:10_000].decode(errors="replace")
        return text.replace(self._key, "[key]") if self._key else text

    def _explained(self, error: Exception | None) -> ServerError:
        if self._stopped.is_set():
            return ServerError(f"The answer of {self.address} was stopped.", remedy="Ask again.")
        if self._late.is_set():
            return broken(self.address, f"is not done after {self._limits.total:g} s")
        return unreachable(self.address, error, self._limits.connect, self._limits.between)


def _json_or_none(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def parsed(address: str, text: str | bytes) -> Any:
    """What was to be JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise broken(address, "answers with something that is no JSON") from None
