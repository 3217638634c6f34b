"""The one pair that is loaded. Another is let go before the next is loaded."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from specviz.pairing import PairSpec, Progress, Tell
from specviz.worker.inbox import Inbox
from specviz.worker.interrupts import Interrupted
from specviz.worker.messages import Doing, Event, MemoryUsed, PairGone, PairLoading, PairReady

if TYPE_CHECKING:
    from specviz.engine import Pair


class Resident:
    def __init__(self, send: Callable[[Event], None], inbox: Inbox) -> None:
        self._send = send
        self._inbox = inbox
        self._pair: Pair | None = None
        self._spec: PairSpec | None = None

    def get(self, spec: PairSpec) -> Pair | None:
        """The pair, if it is the one that is loaded."""
        return self._pair if self._spec == spec else None

    def load(self, spec: PairSpec, request_id: str) -> Pair:
        """The pair, loaded unless it is there already; ``Interrupted`` if that is cancelled."""
        kept = self.get(spec)
        if kept is not None:
            return kept
        self.unload()
        self._send(PairLoading(spec=spec))
        pair = _load(spec, lambda progress: self._tell(progress, request_id))
        self._pair, self._spec = pair, spec
        self._send(_ready(spec, pair))
        self._send(Doing(progress=None))
        return pair

    def unload(self) -> None:
        """Frees the models, and what a loading that broke off may have left."""
        had_pair = self._pair is not None
        self._pair = self._spec = None
        gc.collect()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()
        if had_pair:
            self._send(PairGone())

    def tell_memory(self) -> None:
        self._send(MemoryUsed(memory_bytes=_memory_bytes(self._pair)))

    def _tell(self, progress: Progress, request_id: str) -> None:
        if self._inbox.cancelled(request_id):
            raise Interrupted
        self._send(Doing(progress=progress))


def _load(spec: PairSpec, tell: Tell) -> Pair:
    tell(Progress(stage="loading", text=f"loading {spec.label}"))
    from specviz.engine import load_pair

    return load_pair(
        spec.name,
        draft=spec.draft,
        target=spec.target,
        device=spec.device,
        dtype=spec.dtype,
        step=spec.step,
        threads=spec.threads,
        needs_draft=spec.needs_draft,
        progress=tell,
    )


def _ready(spec: PairSpec, pair: Pair) -> PairReady:
    return PairReady(
        spec=spec,
        info=pair.info,
        environment=pair.environment,
        max_context=pair.max_context,
        has_chat=bool(getattr(pair.tokenizer, "chat_template", None)),
        notices=pair.notices,
    )


def _memory_bytes(pair: Pair | None) -> int | None:
    """Bytes on the GPU where the pair is on one; else resident in this process."""
    if pair is not None and pair.device.type == "cuda":
        return sys.modules["torch"].cuda.memory_allocated(pair.device)
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return None
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
