"""A WebSocket client that speaks to a page without a browser, such as an attacker's program."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from types import TracebackType
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

_FINISHED = ForwardMsg.ScriptFinishedStatus.FINISHED_EARLY_FOR_RERUN
_Headers = list[tuple[str, str]]


def fetch(
    url: str, path: str, *, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], str]:
    """Return the status, the headers and the text of a response, without following redirects."""
    status, pairs, text = fetch_pairs(url, path, method=method, headers=headers)
    return status, dict(pairs), text


def fetch_pairs(
    url: str,
    path: str,
    *,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    source: str = "",
) -> tuple[int, _Headers, str]:
    """Return the status, all headers in order, and the text of a response.

    Args:
        source: The client's address, such as 127.0.0.5; by default the system chooses it.
    """
    place = urlsplit(url)
    https = place.scheme == "https"
    kind = http.client.HTTPSConnection if https else http.client.HTTPConnection
    address = (source, 0) if source else None
    connection = kind(place.hostname or "", place.port, timeout=30, source_address=address)
    connection.request(method, path, headers={"Accept": "text/html", **(headers or {})})
    answer = connection.getresponse()
    text = answer.read().decode(errors="replace")
    connection.close()
    return answer.status, [(name.lower(), value) for name, value in answer.getheaders()], text


class PageSocket:
    """The connection of one tab."""

    def __init__(self, url: str, cookie: str = "", *, resume: str = "") -> None:
        address = "ws" + url.removeprefix("http")  # https becomes wss
        protocols = [Subprotocol("streamlit")]
        if resume:  # Streamlit expects the id of the earlier connection in the third place
            protocols += [Subprotocol("unused"), Subprotocol(resume)]
        self.session_id = ""
        self.said: list[str] = []  # all texts that the page drew
        self.alerts: list[str] = []  # errors and warnings of the last message
        self.buttons: dict[str, tuple[str, str]] = {}  # ids of a button and its part, by key
        self._socket: ClientConnection = connect(
            f"{address}/_stcore/stream", origin=Origin(url), max_size=2**28,
            additional_headers={"Cookie": cookie} if cookie else None, subprotocols=protocols,
            compression=None, proxy=None, open_timeout=60,
        )  # fmt: skip

    def __enter__(self) -> PageSocket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._socket.close()

    def open(self, page: str = "", query: str = "") -> list[str]:
        """Open a page, and return the texts that it draws."""
        message = BackMsg()
        message.rerun_script.page_name = page
        message.rerun_script.query_string = query
        return self.send(message)

    def press(self, key: str, ids: dict[str, tuple[str, str]] | None = None) -> list[str]:
        """Press a button, perhaps one that only another person's page drew (``ids``)."""
        widget, part = (ids or self.buttons)[key]
        message = BackMsg()
        state = message.rerun_script.widget_states.widgets.add()
        state.id, state.trigger_value = widget, True
        message.rerun_script.fragment_id = part
        return self.send(message)

    def send(self, message: BackMsg, seconds: float = 60) -> list[str]:
        """Send a message, and return the texts that are drawn until the script ends."""
        self._socket.send(message.SerializeToString())
        drawn: list[str] = []
        self.alerts = []
        for each in self._messages(time.monotonic() + seconds):
            if each.WhichOneof("type") == "new_session":
                self.session_id = each.new_session.initialize.session_id
            if each.WhichOneof("type") == "delta":
                self._take(each, drawn)
            if each.WhichOneof("type") == "script_finished" and each.script_finished != _FINISHED:
                break
        self.said += drawn
        return drawn

    def _messages(self, until: float) -> Iterator[ForwardMsg]:
        while True:
            data = self._socket.recv(timeout=max(0.01, until - time.monotonic()))
            message = ForwardMsg()
            message.ParseFromString(data if isinstance(data, bytes) else data.encode())
            yield message

    def _take(self, message: ForwardMsg, drawn: list[str]) -> None:
        element = message.delta.new_element
        kind = element.WhichOneof("type")
        if kind in ("markdown", "alert", "html", "exception"):
            part = getattr(element, kind)
            drawn.append(str(getattr(part, "body", "") or getattr(part, "message", "")))
            if kind in ("alert", "exception"):
                self.alerts.append(drawn[-1])
        elif kind == "button":
            key = element.button.id.rpartition("-")[2]
            self.buttons[key] = element.button.id, message.delta.fragment_id
            drawn.append(element.button.label)
