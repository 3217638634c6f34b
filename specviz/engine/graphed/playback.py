"""Work that a device does again and again: captured once, played, marked in time, and fetched.

On CUDA work is a graph: what it reads and writes keeps its place in memory, and playing it is one
call. Elsewhere the same work is done by calling it. Either way the host waits only for values that
it has fetched, and then only until these are there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import torch

Work: TypeAlias = Callable[[], None]
Mark: TypeAlias = Any  # a moment as the device reaches it

_SLOTS = 3  # values on their way at once: those of two rounds, and one that nobody waits for


class Playback(Protocol):
    def capture(self, work: Work, state: Sequence[torch.Tensor]) -> Work:
        """What plays the work; ``state`` is as it was before."""
        ...

    def mark(self) -> Mark: ...

    def between(self, earlier: Mark, later: Mark) -> float:
        """Seconds; both have been reached."""
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
    """Work is a graph; values arrive in pinned memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = torch.cuda.graph_pool_handle()
        self._slots: dict[int, list[torch.Tensor]] = {}  # by how many values they take
        self._fetched = 0

    @torch.inference_mode()
    def capture(self, work: Work, state: Sequence[torch.Tensor]) -> Work:
        """Done once before, so that libraries choose their kernels and take their memory."""
        with torch.cuda.device(self._device):
            here: Any = torch.cuda.current_stream(self._device)
            side: Any = torch.cuda.Stream(self._device)
            before = [each.clone() for each in state]
            side.wait_stream(here)
            with torch.cuda.stream(side):
                work()
                for each, was in zip(state, before, strict=True):
                    each.copy_(was)
            here.wait_stream(side)
            graph: Any = torch.cuda.CUDAGraph()
            with torch.cuda.graph(
                graph, pool=self._pool, stream=side, capture_error_mode="thread_local"
            ):
                work()
        return graph.replay

    def mark(self) -> Mark:
        event: Any = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def between(self, earlier: Mark, later: Mark) -> float:
        return earlier.elapsed_time(later) / 1e3

    def fetch(self, values: torch.Tensor) -> Callable[[], list[float]]:
        size = values.shape[0]
        slots = self._slots.setdefault(size, [])
        if len(slots) < _SLOTS:
            slots.append(torch.empty(size, dtype=values.dtype, pin_memory=True))
        slot = slots.pop(0)
        slots.append(slot)
        slot.copy_(values, non_blocking=True)
        arrived = self.mark()

        def wait() -> list[float]:
            arrived.synchronize()
            return slot.tolist()

        return wait

    def wait(self) -> None:
        torch.cuda.synchronize(self._device)


def has_graphs(device: torch.device) -> bool:
    return device.type == "cuda"


def playback_on(device: torch.device) -> Playback:
    return OnCuda(device) if has_graphs(device) else OnHost()
