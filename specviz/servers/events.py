"""Parse the events of a ``text/event-stream``: one JSON object per line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from specviz.servers.connection import Connection, Line
from specviz.servers.failures import broken, refused
from specviz.servers.pieces import Event

_FIELDS = ("event:", "id:", "retry:", ":")


class EventStream:
    """An iterable of events with their arrival times; raises the error that an event reports.

    ``done``: whether the stream sent its end mark.
    """

    def __init__(self, connection: Connection, lines: Iterable[Line]) -> None:
        self._connection, self._lines = connection, lines
        self.done = False

    def __iter__(self) -> Iterator[tuple[Event, float]]:
        for line in self._lines:
            if not line.text or line.text.startswith(_FIELDS):
                continue
            name, _, data = line.text.partition(":")
            if name not in ("data", "error"):
                raise broken(
                    self._connection.address, "sends an answer that is not an event stream"
                )
            if data.strip() == "[DONE]":
                self.done = True
                return
            yield self._event(name, data), line.at

    def _event(self, name: str, data: str) -> Event:
        event = self._connection.parsed_event(data)
        if not isinstance(event, dict):
            raise broken(self._connection.address, "sends an event that is not a JSON object")
        if name == "error" or event.get("error"):
            raise refused(self._connection.address, event, self._connection.remover)
        return event
