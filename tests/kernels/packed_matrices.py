"""Quantised matrices for tests, and their products in NumPy as the kernels define them.

``python -m tests.kernels.packed_matrices TYPE …`` prints digests of products and machine code.
"""

from __future__ import annotations

import hashlib
import re
import sys
from typing import Any

import gguf
import numpy as np

from specviz.kernels import compiled
from specviz.kernels.packed import multiply_packed, product_function, row_function, x_bytes
from specviz.kernels.packed_types import PACKED_TYPES, PackedType, pack

_SCALES = {"Q6_K": (208,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q4_1": (0, 2), "Q5_1": (0, 2)}
ONE, EIGHTH = np.float32(1), np.float32(127)


def random_blocks(kind: str, rows: int, width: int) -> np.ndarray:
    """Return random blocks with scales of a usual size, uint8 [row, byte]."""
    packed, rng = PACKED_TYPES[kind], np.random.default_rng(len(kind) + rows + width)
    shape = (rows, width // packed.record_columns, packed.file_bytes)
    raw = rng.integers(0, 256, shape, np.uint8)
    for place in _SCALES.get(kind, (0,)):
        scales = rng.uniform(-0.01, 0.01, (*shape[:2], 1)).astype(np.float16)
        raw[..., place : place + 2] = scales.view(np.uint8)
    return raw.reshape(rows, -1)


def dequantised(kind: str, raw: np.ndarray) -> np.ndarray:
    return gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind])


def table_of(kind: str, raw: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the table of a matrix with one part, and the memory that it refers to."""
    blocks = pack(PACKED_TYPES[kind], raw, width)
    entry = (blocks.ctypes.data, product_function(kind), row_function(kind), raw.shape[0])
    return np.array([1, *entry]), blocks


def multiplied(table: np.ndarray, x: np.ndarray, columns: int, threads: int = 1) -> np.ndarray:
    room = np.empty((threads, x_bytes(*x.shape)), np.uint8)
    out = np.full((x.shape[0], columns), np.nan, np.float32)
    for thread in range(threads):
        multiply_packed(thread, threads, table.ctypes.data, 0, x, room, out)
    return out


def emulated(kind: str, raw: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return x @ matrix.T with the kernels' rounding, operation by operation."""
    packed = PACKED_TYPES[kind]
    codes, scales, minima = _weights(packed, raw)
    blocks = codes.shape[1]
    x_codes, x_scales = _activations(x)
    own = x_codes.reshape(len(x), blocks, packed.columns)
    totals = np.einsum("rbc,nbc->nbr", codes.astype(np.int64), own)
    wholes = own.sum(-1)
    out = np.zeros((len(x), len(raw)), np.float32)
    for block in range(blocks):
        x_scale = x_scales[:, block * packed.columns // 32, None]
        total = totals[:, block] - packed.offset * wholes[:, block, None]
        added = total.astype(np.float32) * (scales[None, :, block] * x_scale)
        if minima is not None:
            least = minima[None, :, block] * (x_scale * wholes[:, block, None].astype(np.float32))
            added = added - least if packed.is_long else added + least
        out = out + added
    return out


def _weights(packed: PackedType, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return codes [row, block, column], and scales and minima [row, block]."""
    parts = packed.unpack(raw.reshape(len(raw), -1, packed.file_bytes))
    scales, minima = (
        None if each is None else each.astype(np.float32).repeat(packed.blocks, -1)
        for each in (parts.scales, parts.minima)
    )
    assert scales is not None
    if parts.scale_factors is not None:
        scales = scales * parts.scale_factors.astype(np.float32)
    if minima is not None and parts.minimum_factors is not None:
        minima = minima * parts.minimum_factors.astype(np.float32)
    return parts.codes.reshape(len(raw), -1, packed.columns).astype(np.int64), scales, minima


def _activations(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts = x.reshape(len(x), -1, 32)
    most = np.abs(parts).max(-1)
    inverse = np.divide(EIGHTH, most, out=np.zeros_like(most), where=most > 0)
    return np.rint(parts * inverse[..., None]).astype(np.int64), most / EIGHTH


def activations(rows: int, width: int) -> np.ndarray:
    x = np.random.default_rng(rows).standard_normal((rows, width)).astype(np.float32)
    x[0, :32] = 0.0
    return x


def main() -> None:
    results, code = hashlib.sha256(), hashlib.sha256()
    for kind in sys.argv[1:]:
        raw = random_blocks(kind, 40, 256)
        table, memory = table_of(kind, raw, 256)
        results.update(multiplied(table, activations(7, 256), 40).tobytes())
        del memory
    for made in compiled.callbacks:
        named = made._library.get_asm_str()  # numba puts a random number into names
        code.update(re.sub(r"_ZN\w+", "", named).encode())
    print(results.hexdigest(), code.hexdigest())


if __name__ == "__main__":
    main()
