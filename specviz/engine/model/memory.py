"""Out of memory, as an error the user can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from specviz.errors import DeviceError

# As the allocator of a CPU says it, and CUDA where it takes memory for itself, such as a graph's.
_FULL = ("DefaultCPUAllocator", "CUDA error: out of memory")


@contextmanager
def memory_errors(device: torch.device) -> Iterator[None]:
    """Turns an allocation that failed, on any device, into a ``DeviceError``."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise _out_of_memory(device) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on any device."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(each in str(error) for each in _FULL)
    )


def _out_of_memory(device: torch.device) -> DeviceError:
    return DeviceError(
        f"Out of memory on {device}.",
        remedy="Use smaller models, a shorter text or a smaller number type such as bfloat16; "
        "or close other programs.",
    )
