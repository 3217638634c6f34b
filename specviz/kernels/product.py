"""Multiply few rows by a weight matrix.

Each weight is read once for up to six rows, directly from the model's memory. The terms of a sum
are always added in the same order, so the bits of a result depend neither on the number of rows nor
on the split among threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from specviz.kernels.compiled import compiled, compiled_apart, kernel
from specviz.kernels.packed_types import LANES
from specviz.kernels.simd import at, make_dots, put, rounded, size_of

_four_by_one, _four_by_two = make_dots(4, 1), make_dots(4, 2)
_two_by_three, _two_by_four = make_dots(2, 3), make_dots(2, 4)
_two_by_five, _two_by_six = make_dots(2, 5), make_dots(2, 6)
_one_by_one = make_dots(
    1, 1, ahead=4096
)  # a single row is read in order: a shorter prefetch distance is faster
_LONG = 768  # width from which float32 rows are read one at a time: sequential reads are faster


@compiled_apart
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
    """Write out[row, begin:end] = x[row] @ weights[begin:end].T + bias.

    ``weights``, ``bias``, ``x`` and ``out`` are addresses. ``rounds``: whether to round results to
    the stored type, as transformers does. Rows of x are processed in groups of at most six, because
    the processor has registers for six; each weight is read once per group.
    """
    size = size_of(like)
    place = begin
    while place < end:
        source = weights + place * width * size
        unrolled = 4 if rows <= 2 else 2
        if place + unrolled > end or (rows == 1 and size == 4 and width >= _LONG):
            unrolled = 1
        row = 0
        while row < rows:
            left = rows - row
            count = left // ((left + 5) // 6) if unrolled > 1 else 1
            here = x + 4 * row * x_stride
            there = out + 4 * (row * stride + place)
            if unrolled == 1:
                _one_by_one(like, source, here, width, x_stride, there, stride)
            elif count == 1:
                _four_by_one(like, source, here, width, x_stride, there, stride)
            elif count == 2:
                _four_by_two(like, source, here, width, x_stride, there, stride)
            elif count == 3:
                _two_by_three(like, source, here, width, x_stride, there, stride)
            elif count == 4:
                _two_by_four(like, source, here, width, x_stride, there, stride)
            elif count == 5:
                _two_by_five(like, source, here, width, x_stride, there, stride)
            else:
                _two_by_six(like, source, here, width, x_stride, there, stride)
            row += count
        place += unrolled
    if bias or (rounds and size < 4):
        for row in range(rows):
            line = out + 4 * row * stride
            for place in range(begin, end):
                value = at(np.float32(0.0), line, place)
                if bias:
                    value += at(like, bias, place)
                put(line, place, rounded(like, value))


@compiled
def share(total: int, thread: int, threads: int) -> tuple[int, int]:
    """Return the begin and end of this thread's part of ``total`` items, in multiples of 16."""
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
    """Write this thread's columns of x [row, width] @ weights [place, width].T + bias."""
    begin, end = share(out.shape[1], thread, threads)
    source = np.int64(x.ctypes.data)
    rows, width = x.shape
    into, stride = np.int64(out.ctypes.data), out.shape[1]
    product(like, weights, bias, begin, end, source, rows, width, width, into, stride, np.int64(1))
