"""Failed captures on a fake GPU that behaves as torch 2.13 does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specviz.engine.graphed.playback import OnCuda

POOL = tuple[int, int]


class FakeCuda:
    """Torch's captures; if CUDA invalidates one, torch goes on recording to its memory pool."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.invalidated = self.capturing = False
        self.recording: list[POOL] = []
        self.released: list[POOL] = []
        handles = count(1)
        stream = SimpleNamespace(wait_stream=lambda _: None)
        graph = SimpleNamespace(replay=lambda: None)
        patch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, next(handles)))
        for name, made in (("Stream", stream), ("current_stream", stream), ("CUDAGraph", graph)):
            patch.setattr(torch.cuda, name, lambda *_, made=made: made)
        for name in ("device", "stream"):
            patch.setattr(torch.cuda, name, lambda _: nullcontext())
        patch.setattr(torch.cuda, "current_device", lambda: 0)
        patch.setattr(torch.cuda, "graph", self._graph)
        patch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None, raising=False)
        patch.setattr(torch._C, "_cuda_endAllocateToPool", lambda _, pool: self._end(pool))
        patch.setattr(torch._C, "_cuda_releasePool", lambda _, pool: self.released.append(pool))

    @contextmanager
    def _graph(self, graph: Any, pool: POOL, **_: Any) -> Iterator[None]:
        del graph
        if pool in self.recording:
            raise RuntimeError("beginAllocateToPool: already recording to mempool_id")
        self.recording.append(pool)
        self.capturing, self.invalidated = True, False
        try:
            yield
        finally:
            self.capturing = False
            if self.invalidated:
                raise RuntimeError("CUDA error: operation failed due to a previous error")
            self._end(pool)

    def _end(self, pool: POOL) -> None:
        if pool not in self.recording:
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
        self.recording.remove(pool)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    return FakeCuda(monkeypatch)


def failing(cuda: FakeCuda, *, invalidates: bool) -> Callable[[], None]:
    """Return a function that runs out of memory in its capture, but not in the run before."""

    def work() -> None:
        if cuda.capturing:
            cuda.invalidated = invalidates
            raise torch.OutOfMemoryError("CUDA out of memory")

    return work


@pytest.mark.parametrize("invalidates", [True, False])
def test_a_failed_capture_raises_its_own_error_and_the_next_one_works(
    cuda: FakeCuda, invalidates: bool
) -> None:
    playback = OnCuda(torch.device("cuda", 0))
    pool = playback._pool
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
            playback.capture(failing(cuda, invalidates=invalidates), [])
        assert cuda.recording == []
    assert (playback._pool == pool) is not invalidates
    assert len(cuda.released) == 2 * invalidates
    playback.capture(lambda: None, [])()


def test_a_capture_that_cannot_be_ended_raises_why(cuda: FakeCuda) -> None:
    playback = OnCuda(torch.device("cuda", 0))

    def work() -> None:
        cuda.invalidated = cuda.capturing

    with pytest.raises(RuntimeError, match="previous error"):
        playback.capture(work, [])
    playback.capture(lambda: None, [])()
