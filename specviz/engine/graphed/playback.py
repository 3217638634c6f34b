"""Capture, run and time stages, and fetch values from the device.

A stage is a function without arguments that the device runs repeatedly. On CUDA a stage is a CUDA
graph: its inputs and outputs keep their addresses, and one call replays it. On other devices a
stage calls its function. The host waits only for values that it fetches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeAlias

import torch

Stage: TypeAlias = Callable[[], None]
Mark: TypeAlias = Any  # a point in the device's queue


class Playback(Protocol):
    def capture(self, function: Stage, state: Sequence[torch.Tensor]) -> Stage:
        """Return a captured version of the function (a stage), which the device can run again.

        Capturing may run the function. The ``state`` tensors keep their values.
        """
        ...

    def mark(self) -> Mark: ...

    def between(self, earlier: Mark, later: Mark) -> float:
        """Return the seconds between two marks; wait until both have been reached."""
        ...

    def fetch(self, values: torch.Tensor) -> Callable[[], list[float]]:
        """Queue a copy of values `[n]` to the host.

        Returns:
            A function that waits for the copy and returns the values.
        """
        ...

    def wait(self) -> None:
        """Wait until the device has finished all queued work."""
        ...


class OnHost:
    """Runs functions by calling them, without CUDA graphs."""

    def capture(self, function: Stage, state: Sequence[torch.Tensor]) -> Stage:
        del state
        return torch.inference_mode()(function)

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
    """Runs functions as CUDA graphs, and fetches values through pinned memory.

    All graphs are captured on one stream into one memory pool, so they share temporary memory. This
    is safe because the graphs run one after the other, and no graph reads temporary values of an
    earlier run.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = torch.cuda.graph_pool_handle()
        self._side: Any = torch.cuda.Stream(device)

    def capture(self, function: Stage, state: Sequence[torch.Tensor]) -> Stage:
        """Return the function as a CUDA graph.

        A warm-up run before the capture selects kernels and allocates buffers.
        """
        function = torch.inference_mode()(
            function
        )  # only the function: tensors of the capture must stay mutable
        here: Any = torch.cuda.current_stream(self._device)
        before = [each.clone() for each in state]
        graph: Any = torch.cuda.CUDAGraph()
        self._side.wait_stream(here)
        try:
            # These contexts restore the current stream, which a failed capture does not.
            with torch.cuda.device(self._device), torch.cuda.stream(self._side):
                function()
                for each, was in zip(state, before, strict=True):
                    each.copy_(was)
                self._capture_into(graph, function)
        finally:
            here.wait_stream(self._side)
        return graph.replay

    def _capture_into(self, graph: Any, function: Stage) -> None:
        """Capture the function; if the function raises an exception, raise this exception.

        If CUDA has invalidated the capture, ending the capture raises a second exception. This
        would hide the first, for example that memory ran out.
        """
        failure: Exception | None = None
        try:
            with _own_workspaces(), self._captured(graph):
                try:
                    function()
                except Exception as error:
                    failure = error
                    raise
        except Exception as error:
            if error is not failure:  # the capture could not be ended
                self._leave_pool()
            raise failure or error from None
        finally:
            del failure  # its traceback has this frame

    def _leave_pool(self) -> None:
        """Take another memory pool, because torch still records to the current pool.

        Torch stops recording only if CUDA ends the capture without an error. Until then, torch
        refuses a second capture into the pool.
        """
        index, pool = torch.cuda.current_device(), self._pool
        with suppress(RuntimeError):  # the capture may have been ended by then
            torch._C._cuda_endAllocateToPool(index, pool)
            torch._C._cuda_releasePool(index, pool)
        self._pool = torch.cuda.graph_pool_handle()

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
        """Queue a copy to pinned memory, which torch does not reuse before the copy is done."""
        buffer = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
        buffer.copy_(values, non_blocking=True)
        arrived = self.mark()

        def wait() -> list[float]:
            arrived.synchronize()
            return buffer.tolist()

        return wait

    def wait(self) -> None:
        torch.cuda.synchronize(self._device)


@contextmanager
def _own_workspaces() -> Iterator[None]:
    """Make cuBLAS allocate its workspaces from the graph's pool in the ``with`` block.

    Otherwise cuBLAS would own the workspaces and free them during another capture, although this
    graph still writes to them.
    """
    torch._C._cuda_clearCublasWorkspaces()
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()


def has_graphs(device: torch.device) -> bool:
    return device.type == "cuda"


def playback_on(device: torch.device) -> Playback:
    return OnCuda(device) if has_graphs(device) else OnHost()
