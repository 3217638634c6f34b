"""Arrays as kernels take them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

# The number 1 as each number type is stored: half precision as whole numbers, since numpy has no
# bfloat16.
STORED_ONES: dict[str, Any] = {
    "float32": np.float32(1),
    "bfloat16": np.uint16(0x3F80),
    "float16": np.int16(0x3C00),
}
_LINE = 16  # values


def scratch(*shape: int) -> np.ndarray:
    """Room for float32 values that begins where a line of the cache does, as weights do."""
    size = math.prod(shape)
    room = np.empty(size + _LINE, np.float32)
    begin = -room.ctypes.data % (4 * _LINE) // 4
    return room[begin : begin + size].reshape(shape)
