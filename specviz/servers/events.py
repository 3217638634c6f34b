"""The events of a stream, as ``text/event-stream`` carries them: one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from specviz.servers.connection import Line, parsed
from specviz.servers.failures import broken, message_of, refused
from specviz.servers.pieces import Event

_FIELDS = ("event:", "id:", "retry:", ":")


def events(address: str, lines: Iterable[Line]) -> Iterator[tuple[Event, float]]:
    """With the time at which each came. An event that tells of an error raises it."""
    for line in lines:
        if not line.text or line.text.startswith(_FIELDS):
            continue
        name, _, data = line.text.partition(":")
        if name not in ("data", "error"):
            raise broken(address, "answers with something that is no stream of events")
        if data.strip() == "[DONE]":
            return
        event = parsed(address, data)
        if not isinstance(event, dict):
            raise broken(address, "sends an event that is no object")
        if name == "error" or event.get("error"):
            raise refused(address, message_of(event))
        yield event, line.at
