"""Work that a device does again and again: captured once, played, marked in time, and fetched.

On CUDA work is a graph: what it reads and writes keeps its place in memory, and playing it is one
call. Elsewhere the same work is done by calling it. Either way the host waits only for values that
it has fetched, and then only until these are there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import torch

Work: TypeAlias = Callable[[], None]
Mark: TypeAlias = Any  # a moment as the device reaches it


class Playback(Protocol):
    def capture(self, work: Work, state: Sequence[torch.Tensor]) -> Work:
        """What plays the work; ``state`` is as it was before."""
        ...

    def mark(self) -> Mark: ...

    def between(self, earlier: Mark, later: Mark) -> float:
        """Seconds; the call waits until both have been reached."""
        ...

    def fetch(self, values: torch.Tensor) -> Callable[[], list[float]]:
        """Values [n] as they are when all that was played has been done; the call waits for it."""
        ...

    def wait(self) -> None:
        """For all that was played."""
        ...


class OnHost:
    """Work is done where it is asked for."""

    def capture(self, work: Work, state: Sequence[torch.Tensor]) -> Work:
        del state
        return torch.inference_mode()(work)

    def mark(self) -> float:
        return time.perf_counter()

    def between(self, earlier: float, later: float) -> float:
        return later - earlier

    def fetch(self, values: torch.Tensor) -> Callable[[], list[float]]:
        found = values.tolist()
        return lambda: found

    def wait(self) -> None:
        pass


class OnCuda:
    """Work is a graph; values arrive in pinned memory.

    All graphs are captured on one stream into one pool, so that what one needs on its way serves
    the others; that is safe as they are played one after the other and keep nothing there.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = torch.cuda.graph_pool_handle()
        self._side: Any = torch.cuda.Stream(device)

    def capture(self, work: Work, state: Sequence[torch.Tensor]) -> Work:
        """Done once before, so that libraries choose their kernels and what stays is made."""
        work = torch.inference_mode()(work)  # alone: a capture's own numbers must be mutable
        here: Any = torch.cuda.current_stream(self._device)
        before = [each.clone() for each in state]
        graph: Any = torch.cuda.CUDAGraph()
        self._side.wait_stream(here)
        try:
            # Entered here, too: a capture that fails leaves its stream the current one.
            with torch.cuda.device(self._device), torch.cuda.stream(self._side):
                work()
                for each, was in zip(state, before, strict=True):
                    each.copy_(was)
                with _own_workspaces(), self._captured(graph):
                    work()
        finally:
            here.wait_stream(self._side)
        return graph.replay

    def _captured(self, graph: Any) -> Any:
        return torch.cuda.graph(
            graph, pool=self._pool, stream=self._side, capture_error_mode="thread_local"
        )

    def mark(self) -> Mark:
        event: Any = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def between(self, earlier: Mark, later: Mark) -> float:
        later.synchronize()
        return earlier.elapsed_time(later) / 1e3

    def fetch(self, values: torch.Tensor) -> Callable[[], list[float]]:
        """Torch keeps pinned memory, and gives it to nobody else before the copy is done."""
        place = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
        place.copy_(values, non_blocking=True)
        arrived = self.mark()

        def wait() -> list[float]:
            arrived.synchronize()
            return place.tolist()

        return wait

    def wait(self) -> None:
        torch.cuda.synchronize(self._device)


@contextmanager
def _own_workspaces() -> Iterator[None]:
    """What products work in comes from the graph's pool, as all that it takes. Otherwise it would
    be the library's, who frees it when somebody else captures, and the graph would still write."""
    torch._C._cuda_clearCublasWorkspaces()
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()


def has_graphs(device: torch.device) -> bool:
    return device.type == "cuda"


def playback_on(device: torch.device) -> Playback:
    return OnCuda(device) if has_graphs(device) else OnHost()
