"""Traces as the run library keeps them: their JSON, compressed."""

from __future__ import annotations

import contextlib
import zlib

from specviz.errors import StoreError
from specviz.record.numbers import SIZE
from specviz.record.server_run import AnyTrace
from specviz.store.files import MAX_BYTES
from specviz.store.traces import trace_to_json


def packed(trace: AnyTrace) -> bytes:
    text = trace_to_json(trace)
    if len(text) > MAX_BYTES:  # it could be kept, but never opened again
        raise StoreError(
            f"The run is too long for the library: over {SIZE.shown(MAX_BYTES)}.",
            remedy="Make a shorter one, or one that does not record what both models thought.",
        )
    return zlib.compress(text.encode("ascii"), level=3)


def unpacked(body: bytes) -> str:
    """The text of a trace, within the limit that it was saved under."""
    unpacking = zlib.decompressobj()
    with contextlib.suppress(zlib.error):
        text = unpacking.decompress(body, MAX_BYTES + 1)
        if unpacking.eof:
            return text.decode("ascii", "replace")
    raise StoreError(
        "The kept run is damaged.", remedy="Delete this run; it harms no other of the library."
    )
