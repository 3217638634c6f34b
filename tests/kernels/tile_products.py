"""A product with tiles, for tests and measurements of the kernel alone."""

from __future__ import annotations

import numba
import numpy as np

from specviz.kernels.tiles import tiled_product


@numba.njit
def multiply_tiles(place: int, x: np.ndarray, begin: int, end: int, out: np.ndarray) -> None:
    """Write columns ``begin`` to ``end`` of the product of x with the tiles at ``place``."""
    first, into, width = x.ctypes.data, out.ctypes.data, np.int64(x.shape[1])
    rows, stride = np.int64(x.shape[0]), np.int64(out.shape[1])
    tiled_product(place, begin, end, first, rows, width, width, into, stride)
