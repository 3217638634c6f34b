"""Tensors as kernels see them: addresses, and arrays over the same memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

# Half precision is held as whole numbers, since numpy has no bfloat16.
_STORED = {
    torch.float32: torch.float32,
    torch.bfloat16: torch.uint16,
    torch.float16: torch.int16,
}
_LINE = 16  # values
_LIKE = {
    torch.float32: np.float32(0),
    torch.bfloat16: np.uint16(0),
    torch.float16: np.int16(0),
}


def fits(tensor: torch.Tensor) -> bool:
    """Whether a kernel can read this tensor in place."""
    return tensor.device.type == "cpu" and tensor.dtype in _STORED and tensor.is_contiguous()


def like(dtype: torch.dtype) -> Any:
    """A value of the stored type."""
    return _LIKE[dtype]


def array(tensor: torch.Tensor) -> np.ndarray:
    """The same memory."""
    return tensor.detach().view(_STORED[tensor.dtype]).numpy()


def address(tensor: torch.Tensor | None) -> int:
    """Where a tensor begins; 0 for none. The tensor must outlive the address."""
    return 0 if tensor is None else tensor.data_ptr()


def scratch(*shape: int) -> np.ndarray:
    """Room for float32 values that begins where a line of the cache does, as weights do."""
    size = math.prod(shape)
    room = np.empty(size + _LINE, np.float32)
    begin = -room.ctypes.data % (4 * _LINE) // 4
    return room[begin : begin + size].reshape(shape)
