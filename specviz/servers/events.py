"""The events of a stream, as ``text/event-stream`` carries them: one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from specviz.servers.connection import Connection, Line
from specviz.servers.failures import broken, refused
from specviz.servers.pieces import Event

_FIELDS = ("event:", "id:", "retry:", ":")


class EventStream:
    """Events with the time at which each came. An event that reports an error raises it.

    ``done``: whether the stream said that it was over.
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
                    self._connection.address, "answers with something that is no stream of events"
                )
            if data.strip() == "[DONE]":
                self.done = True
                return
            yield self._event(name, data), line.at

    def _event(self, name: str, data: str) -> Event:
        event = self._connection.parsed_event(data)
        if not isinstance(event, dict):
            raise broken(self._connection.address, "sends an event that is no object")
        if name == "error" or event.get("error"):
            raise refused(self._connection.address, event, self._connection.remover)
        return event
