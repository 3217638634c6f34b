"""The pairs that are loaded, and what the dashboard is told of them.

It is told of one, the pair asked for last.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import psutil

from specviz.measure.loaded_pairs import LoadedPairs
from specviz.record.pairs import PairSpec, Progress
from specviz.worker.child.inbox import Inbox
from specviz.worker.child.interrupts import Interrupted
from specviz.worker.messages import Doing, Event, MemoryUsed, PairGone, PairLoading, PairReady

if TYPE_CHECKING:
    from specviz.engine import Pair


class WorkerPairs:
    def __init__(self, send: Callable[[Event], None], inbox: Inbox) -> None:
        self._send = send
        self._inbox = inbox
        self._pairs = LoadedPairs()
        self._told: PairSpec | None = None  # the pair that the dashboard was told is loaded

    def get(self, spec: PairSpec) -> Pair | None:
        """The pair, if it is loaded."""
        return self._pairs.get(spec)

    def load(self, spec: PairSpec, request_id: str) -> Pair:
        """The pair, loaded if it is not yet; raises ``Interrupted`` if that is cancelled."""
        if self._pairs.get(spec) is None:
            self._told = None
            self._send(PairLoading(spec=spec))
            self._tell(Progress(activity="loading", text=f"loading {spec.label}"), request_id)
        pair = self._pairs.load(spec, lambda progress: self._tell(progress, request_id))
        if self._told != spec:
            self._send(_ready(spec, pair))
            self._send(Doing(progress=None))
            self._told = spec
        return pair

    def unload(self) -> None:
        """Free the models, and whatever an interrupted loading left behind."""
        had_pairs = len(self._pairs) > 0
        self._pairs.clear()
        self._told = None
        if had_pairs:
            self._send(PairGone())

    def tell_memory(self) -> None:
        pair = self._pairs.get(self._told) if self._told else None
        self._send(MemoryUsed(memory_bytes=_memory_bytes(pair)))

    def _tell(self, progress: Progress, request_id: str) -> None:
        if self._inbox.cancelled(request_id):
            raise Interrupted
        self._send(Doing(progress=progress))


def _ready(spec: PairSpec, pair: Pair) -> PairReady:
    has_chat = bool(getattr(pair.tokenizer, "chat_template", None))
    return PairReady(spec=spec, has_chat=has_chat)


def _memory_bytes(pair: Pair | None) -> int:
    """Bytes in use: of the GPU if the pair is on one, else of this process."""
    if pair is not None and pair.device.type == "cuda":
        return sys.modules["torch"].cuda.memory_allocated(pair.device)
    return psutil.Process().memory_info().rss
