"""A cache of loaded pairs, and the memory that a run takes.

A pair fits if the free memory of its device is at least a gigabyte plus 1.3 times its weights. To
make room, the least recently used pair is evicted first. If the free memory is unknown, the
cache holds only one pair. A pair whose files have changed is loaded again.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

from specviz.errors import DeviceError
from specviz.kernels.ahead import is_compiling
from specviz.measure.handed_texts import with_texts
from specviz.measure.load_timer import LoadTimer
from specviz.record.pairs import PairSpec, ProgressCallback, memory_margin
from specviz.record.trace import RunConfig
from specviz.store.load_times import keep_load_time

if TYPE_CHECKING:
    from specviz.engine import Pair


_MOST_PAIRS = 4  # as many as a comparison has lanes


class LoadedPairs:
    """A cache of loaded pairs that evicts the least recently used pair first."""

    def __init__(self) -> None:
        self._pairs: dict[PairSpec, Pair] = {}  # most recently used last

    def __len__(self) -> int:
        return len(self._pairs)

    def get(self, spec: PairSpec) -> Pair | None:
        """Return the pair if it is loaded and its files have not changed, else None.

        Also restore the pair's number of threads, because all pairs of a process share the number
        of threads.
        """
        pair = self._pairs.get(spec)
        if pair is None or not pair.is_current:
            return None
        _restore_threads(pair)
        return pair

    def load(
        self, spec: PairSpec, on_progress: ProgressCallback, *, before_kernels: bool = False
    ) -> Pair:
        """Return the pair, loaded if needed; an exception from ``on_progress`` aborts loading.

        The time of a load is stored. It excludes downloads, compilation and the engine's import.

        Args:
            before_kernels: Do not wait for the kernels, if they are still being compiled.
        """
        pair = self.get(spec)
        if pair is not None:
            self._pairs[spec] = self._pairs.pop(spec)
            if pair.lacks_kernels and not (before_kernels and is_compiling()):
                from specviz.engine import add_kernels

                add_kernels(pair, spec, on_progress)
            return pair
        if self._pairs.pop(spec, None) is not None:  # a pair whose files have changed
            release_memory()
        import specviz.engine  # noqa: F401  # pyright: ignore[reportUnusedImport]

        timer = LoadTimer(on_progress)
        timer.begin("making room")
        self._make_room(spec, timer)
        self._pairs[spec] = pair = self._loaded(spec, timer, before_kernels)
        keep_load_time(spec, timer.seconds_of_another_load())
        return pair

    def clear(self) -> None:
        """Free all models, including those of an aborted load."""
        self._pairs.clear()
        release_memory()

    def _make_room(self, spec: PairSpec, on_progress: ProgressCallback) -> None:
        if not self._pairs:
            return
        release_memory()
        from specviz.engine import check_pair

        needed = memory_margin(check_pair(spec, on_progress).memory_needed)
        while self._pairs and not self._has_room(spec, needed):
            del self._pairs[next(iter(self._pairs))]
            release_memory()

    def _has_room(self, spec: PairSpec, needed: int) -> bool:
        free = free_memory(spec)
        return len(self._pairs) < _MOST_PAIRS and free is not None and needed <= free

    def _loaded(self, spec: PairSpec, on_progress: ProgressCallback, before_kernels: bool) -> Pair:
        try:
            return load(spec, on_progress, before_kernels=before_kernels)
        except DeviceError:
            if not self._pairs:
                raise
        self.clear()  # outside the handler, whose traceback references loaded weights
        return load(spec, on_progress, before_kernels=before_kernels)


def load(spec: PairSpec, on_progress: ProgressCallback, *, before_kernels: bool = False) -> Pair:
    from specviz.engine import load_pair

    pair = load_pair(spec, progress=on_progress, before_kernels=before_kernels)
    return with_texts(pair, spec.suffix_texts)


def free_memory(spec: PairSpec) -> int | None:
    from specviz.engine.loading import hardware

    return hardware.free_memory(hardware.choose_device(spec.device))


class RunMemory:
    """Measures the bytes that a run takes; create the object before the run begins.

    The result is the size of the weights of all models that the run needs; shared tensors count
    once. On a GPU, the peak allocation during the run, minus the allocation before it, is added.
    """

    def __init__(self, pair: Pair, config: RunConfig) -> None:
        self._weights = _weights_bytes(pair, config)
        self._device = pair.device if pair.device.type == "cuda" else None
        self._before = 0
        if self._device is not None:
            _cuda().reset_peak_memory_stats(self._device)
            self._before = _cuda().memory_allocated(self._device)

    def measured(self) -> int:
        if self._device is None:
            return self._weights
        return self._weights + _cuda().max_memory_allocated(self._device) - self._before


def _weights_bytes(pair: Pair, config: RunConfig) -> int:
    """Return the bytes of the run's models; prompt lookup, for example, uses no draft model."""
    draft = pair.draft if config.draft_method.needs_draft else None
    models = [model for model in (pair.target, draft) if model is not None]
    head = pair.head.parameters if config.draft_method.needs_head and pair.head else ()
    weights = (*head, *(each for model in models for each in model.parameters()))
    tensors = {each.data_ptr(): each.nbytes for each in weights}
    return sum(tensors.values())


def _cuda() -> Any:
    return sys.modules["torch"].cuda


def release_memory() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def _restore_threads(pair: Pair) -> None:
    if pair.environment.device == "cpu":
        sys.modules["torch"].set_num_threads(pair.environment.threads)
