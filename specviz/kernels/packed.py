"""Products of a few rows with quantised matrices, and the choice of a product in a step.

Quantised matrices stay quantised in memory. Activations are quantised, too. The 32 columns of a
block share a scale, so the dot product of a block is computed in integers and is exact. The
functions for a type are compiled when a model first needs them. They are called by address, so that
other kernels do not contain the code of all types.

``converted_rows``, ``matrix_product`` and ``embed`` are the parts of a step that depend on how
weights are stored. If products read float32 rows, ``room`` is None. Otherwise, ``room`` is a
buffer in which each thread stores converted rows: quantised blocks, or bfloat16 rows
(``reads_narrow_rows``).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import types

from specviz.kernels.compiled import callback, compiled, compiled_in_order, kernel
from specviz.kernels.dots import ROWS_AT_ONCE, rows_in_pass, x_size
from specviz.kernels.packed_dots import (
    X_BYTES,
    X_FACTOR,
    X_HALVES,
    X_SCALE,
    X_SUM,
    X_WHOLE,
    make_packed_dots,
)
from specviz.kernels.packed_types import LANES, PACKED_TYPES, SHORT
from specviz.kernels.product import finish, narrow_rows, product, reads_narrow_rows, share
from specviz.kernels.simd import at, byte_at, call, larger, long_at, put, put_byte, put_int
from specviz.kernels.tiles import tiled_product

_PRODUCT = types.void(*[types.int64] * 10)
_ROW = types.void(*[types.int64] * 4)
PART_COLUMNS = 4  # int64 for a part: matrix, product function, row function, number of columns


@compiled_in_order
def quantise(x: int, x_stride: int, rows: int, width: int, out: int) -> None:
    """Quantise float32 rows; write the first 32 columns of all rows, then the next 32, etc."""
    for row in range(rows):
        for block in range(width // SHORT):
            source = x + 4 * (row * x_stride + block * SHORT)
            codes = out + X_BYTES * (block * rows + row)
            most = np.float32(0.0)
            for i in range(SHORT):
                most = larger(most, abs(at(np.float32(0.0), source, i)))
            inverse = np.float32(127.0) / most if most > np.float32(0.0) else np.float32(0.0)
            first, second = np.int32(0), np.int32(0)
            for i in range(SHORT // 2):
                code = np.int32(np.rint(at(np.float32(0.0), source, i) * inverse))
                put_byte(codes, i, code)
                first += code
            for i in range(SHORT // 2, SHORT):
                code = np.int32(np.rint(at(np.float32(0.0), source, i) * inverse))
                put_byte(codes, i, code)
                second += code
            scale = most / np.float32(127.0)
            put(codes + X_SCALE, 0, scale)
            put(codes + X_SUM, 0, scale * np.float32(first + second))
            put_int(codes + X_WHOLE, 0, np.int32(-X_FACTOR * (first + second)))
            put_int(codes + X_HALVES, 0, np.int32(-X_FACTOR * first))
            put_int(codes + X_HALVES, 1, np.int32(-X_FACTOR * second))


@cache
def product_function(name: str) -> int:
    """Return the address of the compiled product for a packed type or "F32".

    The arguments of the product are the matrix, first and last column, x (float32) and its stride,
    quantised x, rows, width, out and its stride. The first column is a multiple of 16.
    """
    if name not in PACKED_TYPES:
        return callback(name, _PRODUCT, _plain_product)
    packed = PACKED_TYPES[name]
    dots = [make_packed_dots(packed, rows) for rows in range(1, ROWS_AT_ONCE + 1)]
    one, two, three, four, five, six = dots
    record_columns, record_bytes = packed.record_columns, packed.record_bytes

    def packed_product(
        matrix: int,
        begin: int,
        end: int,
        x: int,
        x_stride: int,
        quantised: int,
        rows: int,
        width: int,
        out: int,
        out_stride: int,
    ) -> None:
        group_bytes = width // record_columns * record_bytes
        for first in range(begin, end, LANES):
            group = matrix + first // LANES * group_bytes
            columns = end - first
            row = 0
            while row < rows:
                count = rows_in_pass(rows - row)
                here = quantised + row * X_BYTES
                there = out + 4 * (row * out_stride + first)
                if count == 1:
                    one(group, here, width, rows, there, out_stride, columns)
                elif count == 2:
                    two(group, here, width, rows, there, out_stride, columns)
                elif count == 3:
                    three(group, here, width, rows, there, out_stride, columns)
                elif count == 4:
                    four(group, here, width, rows, there, out_stride, columns)
                elif count == 5:
                    five(group, here, width, rows, there, out_stride, columns)
                else:
                    six(group, here, width, rows, there, out_stride, columns)
                row += count

    return callback(name, _PRODUCT, packed_product)


def _plain_product(
    matrix: int,
    begin: int,
    end: int,
    x: int,
    x_stride: int,
    quantised: int,
    rows: int,
    width: int,
    out: int,
    out_stride: int,
) -> None:
    product(
        np.float32(0.0), matrix, np.int64(0), begin, end, x, rows, width, x_stride, out,
        out_stride, np.int64(0),
    )  # fmt: skip


@cache
def row_function(name: str) -> int:
    """Return the address of a function that dequantises a row.

    The arguments of this function are the matrix, row, width and out.
    """
    if name not in PACKED_TYPES:
        return callback(name, _ROW, _plain_row)
    packed = PACKED_TYPES[name]
    record_columns, record_bytes = packed.record_columns, packed.record_bytes
    block_columns, chunks, bits = packed.columns, packed.chunks, packed.bits
    head, factor_bytes, block_bytes = packed.head_bytes, packed.factor_bytes, packed.block_bytes
    offset, has_minimum, is_long = packed.offset, packed.has_minimum, packed.is_long

    def packed_row(matrix: int, row: int, width: int, out: int) -> None:
        lane = row % LANES
        group = matrix + row // LANES * (width // record_columns * record_bytes)
        for column in range(width):
            record = group + column // record_columns * record_bytes
            inside = column % record_columns
            block = record + head + inside // block_columns * block_bytes
            place = inside % block_columns
            chunk, byte = place // 4, 4 * lane + place % 4
            codes = block + factor_bytes
            if bits == 8:
                code = byte_at(codes, 64 * chunk + byte)
            else:
                code = byte_at(codes, 64 * (chunk // 2) + byte) >> (4 * (chunk % 2)) & 15
                if bits > 4:
                    high = byte_at(codes, 64 * (chunks // 2) + byte) >> ((bits - 4) * chunk)
                    code |= (high & ((1 << (bits - 4)) - 1)) << 4
            scale = at(np.int16(0), record, lane)
            if is_long:
                factor = byte_at(block, lane)
                if not has_minimum and factor > 127:
                    factor -= 256
                scale *= np.float32(factor)
            value = scale * np.float32(code - offset)
            if has_minimum:
                minimum = at(np.int16(0), record, LANES + lane)
                if is_long:
                    value -= minimum * np.float32(byte_at(block, LANES + lane))
                else:
                    value += minimum
            put(out, column, value)

    return callback(name, _ROW, packed_row)


def _plain_row(matrix: int, row: int, width: int, out: int) -> None:
    for column in range(width):
        put(out, column, at(np.float32(0.0), matrix, row * width + column))


@compiled
def multiply_parts(
    table: int,
    bias: int,
    begin: int,
    end: int,
    x: int,
    x_stride: int,
    quantised: int,
    rows: int,
    width: int,
    out: int,
    out_stride: int,
) -> None:
    """Write columns ``begin`` to ``end`` of the product of x and a matrix that is stored in parts.

    ``table``: the number of parts, then ``PART_COLUMNS`` int64 values for each part.
    """
    first = np.int64(0)
    for part in range(long_at(table, 0)):
        entry = table + 8 * (1 + PART_COLUMNS * part)
        columns = long_at(entry, 3)
        low, high = max(begin, first), min(end, first + columns)
        if low < high:
            arguments = (
                long_at(entry, 0), low - first, high - first, x, x_stride, quantised, rows, width,
                out + 4 * first, out_stride,
            )  # fmt: skip
            call(long_at(entry, 1), arguments)
        first += columns
    finish(np.float32(0.0), bias, begin, end, rows, out, out_stride, np.int64(0))


@compiled
def read_row(table: int, row: int, width: int, out: int) -> None:
    """Dequantise one row of a matrix that has a single part, and write it to ``out``."""
    call(long_at(table, 3), (long_at(table, 1), row, width, out))


@compiled
def converted_rows(
    like: Any, room: Any, thread: int, x: int, rows: int, width: int, x_stride: int
) -> Any:
    """Convert float32 rows to the type that products read.

    Return the address of the converted rows, or 0 if products read float32 rows.
    """
    if room is None:
        return np.int64(0)
    place = np.int64(room[thread].ctypes.data)
    if x_size(like) < 4:
        narrow_rows(like, x, x_stride, rows, width, place)
    else:
        quantise(x, x_stride, rows, width, place)
    return place


@compiled
def matrix_product(
    like: Any,
    room: Any,
    converted: int,
    tiled: int,
    matrix: int,
    bias: int,
    begin: int,
    end: int,
    x: int,
    rows: int,
    width: int,
    x_stride: int,
    out: int,
    stride: int,
) -> None:
    """Write columns ``begin`` to ``end`` of the product with a matrix.

    ``tiled``: whether the matrix is stored in tiles; it is then float32.
    """
    if room is None:
        if tiled:
            tiled_product(matrix, begin, end, x, rows, width, x_stride, out, stride)
            finish(like, bias, begin, end, rows, out, stride, np.int64(0))
        else:
            product(
                like, matrix, bias, begin, end, x, rows, width, x_stride, out, stride, np.int64(1)
            )
    elif x_size(like) < 4:
        product(
            like, matrix, bias, begin, end, converted, rows, width, width, out, stride, np.int64(1)
        )
    else:
        multiply_parts(matrix, bias, begin, end, x, x_stride, converted, rows, width, out, stride)


@compiled
def embed(like: Any, room: Any, table: int, token: int, x: Any, first: int, last: int) -> None:
    """Write columns ``first`` to ``last`` of a token's row of the embedding."""
    width = x.shape[0]
    if room is not None and x_size(like) == 4:
        if first == 0:
            read_row(table, token, width, np.int64(x.ctypes.data))
    else:
        for i in range(first, last):
            x[i] = at(like, table, token * width + i)


@kernel
def multiply_packed(
    thread: int, threads: int, table: int, bias: int, x: Any, blocks: Any, out: Any
) -> None:
    """Write this thread's columns of x [row, width] @ matrix [column, width].T + bias.

    ``blocks``: uint8 [threads, x_bytes]; each thread writes the quantised x to its own row.
    """
    begin, end = share(out.shape[1], thread, threads)
    rows, width = x.shape
    source, quantised = np.int64(x.ctypes.data), np.int64(blocks[thread].ctypes.data)
    quantise(source, width, rows, width, quantised)
    into = np.int64(out.ctypes.data)
    multiply_parts(
        table, bias, begin, end, source, width, quantised, rows, width, into, out.shape[1]
    )


@kernel
def read_rows(table: int, rows: Any, out: Any) -> None:
    """Dequantise these rows of a matrix, and write them to ``out``."""
    for i in range(rows.shape[0]):
        read_row(table, rows[i], out.shape[1], np.int64(out[i].ctypes.data))


def x_bytes(rows: int, width: int) -> int:
    """Return the size in bytes of quantised activations with ``rows`` rows of ``width`` values."""
    return rows * width // SHORT * X_BYTES


def make_room(
    number_type: str, threads: int, rows: int, width: int, *, packed: bool
) -> np.ndarray | None:
    """Return a buffer in which each thread stores the activations that it converts for products.

    If products read float32 rows, no row is converted, so the result is None.

    Args:
        packed: Whether the weights are quantised.
    """
    if packed:
        return np.empty((threads, x_bytes(rows, width)), np.uint8)
    narrow = reads_narrow_rows(number_type)
    return np.empty((threads, 2 * rows * width), np.uint8) if narrow else None
