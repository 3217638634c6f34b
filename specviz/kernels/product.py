"""Multiply a few rows of activations, x, by a weight matrix.

Each weight is read once for up to six rows, directly from the model's memory. The terms of a sum
are always added in the same order, so the bits of a result depend neither on the number of rows nor
on the split among threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from specviz.kernels.compiled import compiled, compiled_apart, compiled_in_order, kernel
from specviz.kernels.dots import (
    ROWS_AT_ONCE,
    make_dots,
    multiplies_pairs,
    rows_in_pass,
    weights_at_once,
    x_size,
)
from specviz.kernels.packed_types import LANES
from specviz.kernels.simd import at, put, put_stored, rounded, size_of


@compiled_in_order
def finish(
    like: Any, bias: int, begin: int, end: int, rows: int, out: int, stride: int, rounds: int
) -> None:
    """Add the bias, if any, to columns ``begin`` to ``end`` of a product; round if ``rounds``."""
    if bias or (rounds and size_of(like) < 4):
        for row in range(rows):
            line = out + 4 * row * stride
            for place in range(begin, end):
                value = at(np.float32(0.0), line, place)
                if bias:
                    value += at(like, bias, place)
                put(line, place, rounded(like, value))


def _make_product(name: str, *, fetches: bool) -> Any:
    """Return a product function that prefetches weights or not; the machine code has this name."""
    single = make_dots(1, num_weights=1, fetches=fetches)
    one, two, three, four, five, six = (make_dots(n, fetches=fetches) for n in range(1, 7))

    def product(
        like: Any,
        weights: int,
        bias: int,
        begin: int,
        end: int,
        x: int,
        rows: int,
        width: int,
        x_stride: int,
        out: int,
        stride: int,
        rounds: int,
    ) -> None:
        """Multiply rows of activations by rows ``begin`` to ``end`` of a matrix, and add the bias.

        That is, out[row, begin:end] = x[row] @ weights[begin:end].T + bias[begin:end]. ``weights``,
        ``bias``, ``x`` and ``out`` are addresses. x is float32, or of the stored type if
        ``reads_narrow_rows``. ``rounds``: whether to round results to the stored type, as in
        transformers. Rows of x are processed in groups of at most six. Each weight is read
        once per group: from memory for the first group, from a cache for later groups. The first
        group prefetches half of the coming weights and the later groups the other half, so that
        memory reads overlap all passes.
        """
        size = size_of(like)
        place = begin
        while place < end:
            source = weights + place * width * size
            unrolled = weights_at_once(rows)
            if place + unrolled > end:
                unrolled = 1
            row, shift = 0, np.int64(rows > ROWS_AT_ONCE)
            while row < rows:
                count = rows_in_pass(rows - row) if unrolled > 1 else 1
                here = x + x_size(like) * row * x_stride
                there = out + 4 * (row * stride + place)
                fetch = width // 2 if row else 0
                given = (like, source, here, width, x_stride, there, stride, fetch, shift)
                if unrolled == 1:
                    single(*given)
                elif count == 1:
                    one(*given)
                elif count == 2:
                    two(*given)
                elif count == 3:
                    three(*given)
                elif count == 4:
                    four(*given)
                elif count == 5:
                    five(*given)
                else:
                    six(*given)
                row += count
            place += unrolled
        finish(like, bias, begin, end, rows, out, stride, rounds)

    product.__name__ = product.__qualname__ = name
    return compiled_apart(product)


product = _make_product("product", fetches=True)
# For a head's keys: a prefetch would mostly read past their end.
cached_product = _make_product("cached_product", fetches=False)


def reads_narrow_rows(number_type: str) -> bool:
    """Return whether products with weights of this dtype read x in the dtype of the weights."""
    return number_type == "bfloat16" and multiplies_pairs()


@compiled
def narrow_rows(like: Any, x: int, x_stride: int, rows: int, width: int, out: int) -> None:
    """Convert float32 rows to the stored type, and write them one after another."""
    for row in range(rows):
        for i in range(width):
            value = at(np.float32(0.0), x, row * x_stride + i)
            put_stored(like, out, row * width + i, value)


@compiled
def share(total: int, thread: int, threads: int) -> tuple[int, int]:
    """Return where this thread's part of ``total`` items begins and ends.

    A part begins at a multiple of 16. It ends at a multiple of 16 or at ``total``.
    """
    groups = (total + LANES - 1) // LANES
    begin, end = groups * thread // threads, groups * (thread + 1) // threads
    return min(total, begin * LANES), min(total, end * LANES)


@kernel
def multiply(
    like: Any,
    thread: int,
    threads: int,
    weights: int,
    bias: int,
    x: Any,
    out: Any,
) -> None:
    """Write this thread's columns of x [row, width] @ weights [column, width].T + bias."""
    begin, end = share(out.shape[1], thread, threads)
    source = np.int64(x.ctypes.data)
    rows, width = x.shape
    if x_size(like) < 4:
        narrow = np.empty((rows, width), np.uint16)
        narrow_rows(like, source, width, rows, width, np.int64(narrow.ctypes.data))
        source = np.int64(narrow.ctypes.data)
    into, stride = np.int64(out.ctypes.data), out.shape[1]
    product(like, weights, bias, begin, end, source, rows, width, width, into, stride, np.int64(1))
