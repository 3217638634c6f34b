"""The loaded pairs. The dashboard knows only the pair that was requested last."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import psutil

from specviz.measure.load_timer import LoadTimer
from specviz.measure.loaded_pairs import LoadedPairs
from specviz.record.pairs import LoadPart, PairSpec, Progress
from specviz.worker.child.inbox import Inbox
from specviz.worker.child.interrupts import Interrupted
from specviz.worker.child.model_limits import check_download
from specviz.worker.messages import Doing, Event, MemoryUsed, PairGone, PairLoading, PairReady

if TYPE_CHECKING:
    from specviz.engine import Pair


class WorkerPairs:
    def __init__(self, send: Callable[[Event], None], inbox: Inbox) -> None:
        self._send = send
        self._inbox = inbox
        self._pairs = LoadedPairs()
        self._reported: PairSpec | None = None  # the loaded pair that the dashboard knows of
        self._notices: tuple[str, ...] = ()  # of this pair, as reported
        self._parts: tuple[LoadPart, ...] = ()

    def get(self, spec: PairSpec) -> Pair | None:
        """Return the pair, or None if the pair is not loaded."""
        return self._pairs.get(spec)

    def load(self, spec: PairSpec, request_id: str, *, before_kernels: bool = False) -> Pair:
        """Return the pair, loading it if needed.

        Args:
            before_kernels: Do not wait for the kernels, if they are still being compiled.

        Raises:
            Interrupted: The loading was cancelled.
        """
        timer = LoadTimer(lambda progress: self._on_progress(progress, request_id))
        if self._pairs.get(spec) is None:
            self._reported = None
            self._send(PairLoading(spec=spec))
            opening = Progress(activity="loading", text=f"loading {spec.label}")
            self._on_progress(opening, request_id)
            timer.begin("importing the engine")
            import specviz.engine  # noqa: F401  # pyright: ignore[reportUnusedImport]

            timer(opening)
        pair = self._pairs.load(spec, timer, before_kernels=before_kernels)
        if self._reported != spec:
            self._parts = timer.parts()
        self._report(spec, pair)
        return pair

    def add_kernels(self, spec: PairSpec) -> None:
        """Let the steps of a loaded pair use the kernels, which have been compiled meanwhile."""
        pair = self._pairs.get(spec)
        if pair is not None and pair.lacks_kernels:
            self._pairs.load(spec, lambda _progress: None)
            if self._reported == spec:
                self._report(spec, pair)

    def _report(self, spec: PairSpec, pair: Pair) -> None:
        """Send what the dashboard does not know yet about the pair."""
        if (spec, pair.notices) == (self._reported, self._notices):
            return
        self._send(
            PairReady(spec=spec, has_chat=pair.has_chat, parts=self._parts, notices=pair.notices)
        )
        self._send(Doing(progress=None))
        self._reported, self._notices = spec, pair.notices

    def unload(self) -> None:
        """Free all models, including models from an interrupted load."""
        had_pairs = len(self._pairs) > 0
        self._pairs.clear()
        self._reported = None
        if had_pairs:
            self._send(PairGone())

    def report_memory(self) -> None:
        pair = self._pairs.get(self._reported) if self._reported else None
        self._send(MemoryUsed(memory_bytes=_memory_bytes(pair)))

    def _on_progress(self, progress: Progress, request_id: str) -> None:
        if self._inbox.cancelled(request_id):
            raise Interrupted
        check_download(progress)
        self._send(Doing(progress=progress))


def _memory_bytes(pair: Pair | None) -> int:
    """Return the bytes in use: GPU memory for a pair on a GPU, otherwise the process's memory."""
    if pair is not None and pair.device.type == "cuda":
        return sys.modules["torch"].cuda.memory_allocated(pair.device)
    return psutil.Process().memory_info().rss
