"""HTTP to one engine: JSON pages and event streams, within limits of size and time.

Redirects are not followed, and proxies and netrc are ignored, so requests go to the given address
only. The module ``outgoing`` has the rules for addresses. Every failure is a ``ServerError``. The
key never appears in what this module returns or raises, even if an engine sends it back.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Event, Timer
from typing import Any, Literal

import httpx2

from specviz.access.demo import refuse_in_demo
from specviz.errors import ServerError
from specviz.servers.address import KeyName, checked_address, key_for, withheld_key
from specviz.servers.failures import answered, broken, unreachable
from specviz.servers.foreign_json import KeyRemover, decoded
from specviz.servers.outgoing import check_outgoing, transport_for
from specviz.values import Value

MAX_LINE = 10**6  # bytes
MAX_BODY = 64 * 10**6  # bytes of an answer
MAX_PAGE = 16 * 10**6  # bytes of a page that is read with GET
MAX_LINES = 10**6  # of one stream
_LONGEST_ERROR = 10_000  # bytes read of an error's body
_NO_SUCH_PAGE = (404, 405, 501)


class Limits(Value):
    """Time limits of one request, in seconds."""

    connect: float = 5.0
    between: float = 180.0  # before the first chunk, which may take minutes; and between chunks
    total: float = 900.0


PATIENT = Limits()
QUICK = Limits(between=10.0, total=20.0)


class Line(Value):
    """A line of a stream. ``at``: ``time.perf_counter()`` when the line's last bytes arrived."""

    text: str
    at: float


class Connection:
    """A connection that sends requests to one address, one at a time.

    ``stop`` may be called from any thread. ``seconds`` limits the total time of all requests, in
    addition to the limits of each request.
    """

    def __init__(
        self,
        address: str,
        *,
        key: KeyName,
        allow_remote: bool = False,
        limits: Limits = QUICK,
        seconds: float = math.inf,
    ) -> None:
        refuse_in_demo("send requests")
        self.address = checked_address(address, allow_remote=allow_remote)
        check_outgoing(self.address)
        self._key_name: KeyName = key
        self._key = key_for(key, self.address)
        self.remover = KeyRemover(self._key)
        self._limits = limits
        self._until = time.monotonic() + seconds
        self.lacks_page = False  # whether the last error was that a page does not exist
        self._stopped, self._late = Event(), Event()
        self._socket: socket.socket | None = None

    def __repr__(self) -> str:
        return f"Connection({self.address!r})"

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def get(self, path: str) -> Any:
        """Return a JSON page; None if there is no such page, or if the page is not JSON."""
        return self._json_or_none(self._got(path))

    def get_text(self, path: str) -> str | None:
        """Return a page; None if there is no such page."""
        return self._shown(self._got(path))

    def look(self, path: str) -> Any:
        """Return the JSON of a page that only some engines have; None on any error status."""
        return self._json_or_none(self._looked_at(path))

    def look_text(self, path: str) -> str | None:
        return self._shown(self._looked_at(path))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        with self._open("POST", path, body) as response:
            self._check(response)
            return self.parsed(self._text(response, path))

    def lines(self, path: str, body: Mapping[str, Any]) -> Iterator[Line]:
        """Yield the lines of a streamed answer as they arrive, not yet decoded."""
        with self._open("POST", path, body) as response:
            self._check(response)
            yield from self._split(self._pieces(response, path))

    def parsed(self, text: str) -> Any:
        """Decode JSON and remove the API key from it; raises ServerError if it is not JSON."""
        return self._decoded(text, self.remover)

    def parsed_event(self, text: str) -> Any:
        """Decode an event without removing the key.

        The key may be split over several events, so it is removed later, from whole rounds.
        """
        return self._decoded(text, KeyRemover(None))

    def _decoded(self, text: str, remover: KeyRemover) -> Any:
        try:
            return decoded(text, remover)
        except ValueError:
            raise broken(self.address, "sends an answer that is not JSON") from None

    def stop(self) -> None:
        """End the current request at once; the thread that waits for the answer gets an error."""
        self._stopped.set()
        self._hang_up()

    def _got(self, path: str) -> str | None:
        with self._open("GET", path) as response:
            if response.status_code in _NO_SUCH_PAGE:
                return None
            self._check(response)
            return self._text(response, path)

    def _looked_at(self, path: str) -> str | None:
        with self._open("GET", path) as response:
            return self._text(response, path) if response.is_success else None

    @contextmanager
    def _open(
        self, method: Literal["GET", "POST"], path: str, body: Mapping[str, Any] | None = None
    ) -> Iterator[httpx2.Response]:
        left = self._until - time.monotonic()
        watch = Timer(max(0.0, min(self._limits.total, left)), self._run_late)
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
            transport=transport_for(self.address),
            trust_env=False,
            event_hooks={"request": [self._listen]},
        )

    def _listen(self, request: httpx2.Request) -> None:
        request.extensions = {**request.extensions, "trace": self._note}

    def _note(self, event: str, info: Mapping[str, Any]) -> None:
        """Store the socket, so that another thread can close the connection."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._socket = info["return_value"].get_extra_info("socket")
            if self._stopped.is_set() or self._late.is_set():
                self._hang_up()

    def _hang_up(self) -> None:
        if (current := self._socket) is not None:
            with suppress(OSError):
                # Not ``current.shutdown``: an SSL socket would first send a closing message.
                socket.socket.shutdown(current, socket.SHUT_RDWR)

    def _run_late(self) -> None:
        self._late.set()
        self._hang_up()

    def _check(self, response: httpx2.Response) -> None:
        if not response.is_success:
            self.lacks_page = response.status_code in _NO_SUCH_PAGE
            body = self._first_part(response)
            raise answered(self.address, response, body, self.remover, self._key_problem())

    def _key_problem(self) -> tuple[str, str]:
        """Return what is wrong and the remedy, if the engine refuses the key or asks for a key."""
        name = self._key_name
        if self._key is not None:
            return f"refuses the key in {name}", f"Set {name} to a key that the engine accepts."
        if withheld := withheld_key(name, self.address):
            return f"asks for a key. {withheld}", f"Set {name}_FOR={self.address} to send this key."
        return "asks for a key", f"Set {name} to the key, and {name}_FOR={self.address}."

    def _first_part(self, response: httpx2.Response) -> str:
        """Return the beginning of an error response's body."""
        body = b""
        for piece in response.iter_raw():
            body += piece
            if len(body) > _LONGEST_ERROR:
                return self.remover.from_cut(body[:_LONGEST_ERROR].decode(errors="replace"))
        return body.decode(errors="replace")

    def _text(self, response: httpx2.Response, path: str) -> str:
        return b"".join(self._pieces(response, path)).decode(errors="replace")

    def _shown(self, text: str | None) -> str | None:
        return None if text is None else self.remover.from_text(text)

    def _json_or_none(self, text: str | None) -> Any:
        try:
            return None if text is None else decoded(text, self.remover)
        except ValueError:
            return None

    def _pieces(self, response: httpx2.Response, path: str) -> Iterator[bytes]:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise broken(self.address, f"sends {path} compressed, which was not requested")
        size, most = 0, MAX_PAGE if response.request.method == "GET" else MAX_BODY
        for piece in response.iter_raw():
            size += len(piece)
            if size > most:
                raise broken(self.address, f"sends more than {most // 10**6} MB for {path}")
            yield piece
            self._check_time()
        self._check_time()

    def _check_time(self) -> None:
        if self._stopped.is_set() or self._late.is_set():
            raise self._explained(None)

    def _split(self, pieces: Iterator[bytes]) -> Iterator[Line]:
        line, count = bytearray(), 0
        for piece in pieces:
            at = time.perf_counter()
            *ends, rest = piece.split(b"\n")
            count += len(ends)
            if count > MAX_LINES:
                raise broken(self.address, f"sends more than {MAX_LINES:,} lines")
            for end in ends:
                line += end
                yield Line(text=self._bounded(line).decode(errors="replace").rstrip("\r"), at=at)
                self._check_time()
                line = bytearray()
            line += rest
            self._bounded(line)
        if line:
            yield Line(text=line.decode(errors="replace"), at=time.perf_counter())

    def _bounded(self, line: bytearray) -> bytearray:
        if len(line) > MAX_LINE:
            raise broken(self.address, f"sends a line of more than {MAX_LINE // 10**6} MB")
        return line

    def _explained(self, error: Exception | None) -> ServerError:
        if self._stopped.is_set():
            return ServerError(f"The answer of {self.address} was stopped.", remedy="Ask again.")
        if self._late.is_set():
            return broken(self.address, f"did not finish within {self._limits.total:g} s")
        limits = self._limits
        return unreachable(self.address, error, limits.connect, limits.between, self.remover)
