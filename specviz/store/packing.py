"""Traces as the run library stores them: compressed JSON."""

from __future__ import annotations

import contextlib
import zlib

from specviz.errors import StoreError
from specviz.record.numbers import SIZE
from specviz.record.server_run import AnyTrace
from specviz.store.files import MAX_BYTES
from specviz.store.traces import trace_to_json


def packed(trace: AnyTrace) -> bytes:
    """Return the compressed trace; raises StoreError if it exceeds ``MAX_BYTES``."""
    text = trace_to_json(trace)
    if len(text) > MAX_BYTES:  # a larger trace could be stored but not opened again
        raise StoreError(
            f"The run is too long for the library: over {SIZE.shown(MAX_BYTES)}.",
            remedy="Generate fewer tokens, or do not record both models' probabilities.",
        )
    return zlib.compress(text.encode("ascii"), level=3)


def unpacked(body: bytes) -> str:
    """Decompress a stored trace to JSON; raises StoreError if damaged or over ``MAX_BYTES``."""
    unpacking = zlib.decompressobj()
    with contextlib.suppress(zlib.error):
        text = unpacking.decompress(body, MAX_BYTES + 1)
        if unpacking.eof:
            return text.decode("ascii", "replace")
    raise StoreError(
        "The stored run is damaged.", remedy="Delete this run; no other run is affected."
    )
