"""Array layouts that the kernels expect."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

# The number 1 as each dtype is stored. 16-bit floats are stored as integers, because numpy has no
# bfloat16.
STORED_ONES: dict[str, Any] = {
    "float32": np.float32(1),
    "bfloat16": np.uint16(0x3F80),
    "float16": np.int16(0x3C00),
}
_LINE = 16  # float32 values per cache line


def scratch(*shape: int) -> np.ndarray:
    """Return an uninitialised float32 array aligned to a cache line, as weights are."""
    size = math.prod(shape)
    buffer = np.empty(size + _LINE, np.float32)
    begin = -buffer.ctypes.data % (4 * _LINE) // 4
    return buffer[begin : begin + size].reshape(shape)
