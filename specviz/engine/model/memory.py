"""Turn out-of-memory exceptions into errors that suggest what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from specviz.errors import DeviceError

# Messages of the CPU allocator, and of CUDA, cuBLAS and Triton for their own allocations, such as
# those of graphs, handles and kernels.
_FULL = (
    "DefaultCPUAllocator",
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "Triton Error [CUDA]: out of memory",
)


@contextmanager
def memory_errors(device: torch.device) -> Iterator[None]:
    """Turn out-of-memory exceptions inside the context into a ``DeviceError`` for ``device``."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise _out_of_memory(device) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the exception is a failed allocation on any device."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(each in str(error) for each in _FULL)
    )


def _out_of_memory(device: torch.device) -> DeviceError:
    return DeviceError(
        f"Out of memory on {device}.",
        remedy="Use smaller models, a shorter text or a smaller dtype such as bfloat16; "
        "or close other programs.",
    )
