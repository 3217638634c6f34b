"""Products of a few float32 rows, x, with a matrix that was copied into tiles.

A tile has 16 matrix rows. It stores one column after another, so the 16 weights of a column are
adjacent: ``tiles[tile, column, row]``. Missing rows of the last tile are zero. A vector holds
weights of one column and is multiplied by a single value of x. Compared with a matrix that is
stored row by row, less of x is read, no lanes of a vector have to be added up, and memory is read
in long streams.

A result is the sum of the sums over blocks of at most 128 columns, each added from left to right.
So its bits depend neither on the number of rows of x nor on how many tiles are multiplied at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numba.extending
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from specviz.kernels.compiled import compiled_apart
from specviz.kernels.dots import ROWS_AT_ONCE, has_wide_vectors, multiply_add, prefetch
from specviz.kernels.packed_types import LANES
from specviz.kernels.simd import put

intrinsic: Any = numba.extending.intrinsic
_FLOAT, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_Key: TypeAlias = tuple[int, int, int]
_COLUMN = 4 * LANES  # bytes
_BLOCK = 128  # columns whose weights stay in the first-level cache between passes
_STREAMS = 4  # tiles at once in a product of one row
_MOST_PARTS = 4  # of a block, prefetched by one pass each


def _shape() -> tuple[int, int]:
    """Return how many rows of x and how many tiles to multiply at once; the sums fill registers.

    Each tile is a stream. With up to six rows of x, a processor with sixteen registers reads memory
    faster with three streams and two rows at once than with one stream and six rows, although it
    reads weights from the cache more often.
    """
    return (ROWS_AT_ONCE, 4) if has_wide_vectors() else (2, 3)


@intrinsic
def _at_once(typing: Any, rows: Any) -> Any:
    """Return how many rows and tiles are multiplied at once in a product of ``rows`` rows."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        few = builder.icmp_signed("<=", args[0], _I64(ROWS_AT_ONCE))
        alone = builder.icmp_signed("==", args[0], _I64(1))
        most_rows, num_tiles = _shape()
        # With more rows, the arithmetic takes longer than reading memory.
        with_many = num_tiles if has_wide_vectors() else 1
        tiles = builder.select(few, _I64(num_tiles), _I64(with_many))
        counts = (
            builder.select(few, _I64(most_rows), _I64(ROWS_AT_ONCE)),
            builder.select(alone, _I64(_STREAMS), tiles),
        )
        return cgutils.pack_array(builder, counts)

    return types.UniTuple(types.int64, 2)(types.int64), make


def _make_dots(num_rows: int, num_tiles: int | None = None) -> Any:
    """Return an intrinsic for the products of several tiles with adjacent rows of x.

    Args:
        num_rows: The number of rows.
        num_tiles: The number of tiles; by default, that of ``_shape``. The intrinsic then does
            nothing for more rows than ``_shape`` has.
    """

    @intrinsic
    def dots(
        typing: Any,
        tile: Any,
        tile_bytes: Any,
        columns: Any,
        x: Any,
        x_stride: Any,
        out: Any,
        out_stride: Any,
        continues: Any,
        fetch: Any,
        fetch_step: Any,
    ) -> Any:
        """Write the dot products over ``columns`` columns, or add to ``out`` if it ``continues``.

        For each column, prefetch a line of each tile: the first ones are at ``fetch``, the next
        ones ``fetch_step`` bytes further.
        """

        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            most_rows, tiles = _shape()
            if num_tiles or num_rows <= most_rows:
                _Emitter(builder, num_rows, num_tiles or tiles).emit(args)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 10), make

    return dots


class _Emitter:
    """Emits the LLVM code of an intrinsic that ``_make_dots`` returns.

    A sum has a key: the row of x, the tile, and the part of the tile that fits into a vector.
    """

    def __init__(self, builder: Any, num_rows: int, num_tiles: int) -> None:
        self._builder = builder
        self._lanes = LANES if has_wide_vectors() else LANES // 2
        self._vector = ir.VectorType(_FLOAT, self._lanes)
        self._rows, self._tiles = range(num_rows), range(num_tiles)
        self._vectors = [(tile, part) for tile in self._tiles for part in range(self._parts)]
        self._keys = [(row, *each) for row in self._rows for each in self._vectors]

    @property
    def _parts(self) -> int:
        return LANES // self._lanes

    def emit(self, args: Sequence[Any]) -> None:
        """Emit the code; ``args``: the intrinsic's arguments."""
        tile, tile_bytes, columns, x, x_stride, out, out_stride, continues, fetch, fetch_step = args
        builder = self._builder
        x_rows = [self._pointer(self._moved(x, 4 * row, x_stride), _FLOAT) for row in self._rows]
        places = [self._moved(tile, number, tile_bytes) for number in self._tiles]
        fetches = [self._moved(fetch, number, tile_bytes) for number in self._tiles]
        begin, loop, done = builder.block, *self._blocks("loop", "done")
        builder.branch(loop)

        builder.position_at_end(loop)
        column, *sums = builder.phi(_I64), *(builder.phi(self._vector) for _ in self._keys)
        following = builder.add(column, _I64(1))
        for each in fetches:
            coming = builder.add(each, builder.mul(column, fetch_step))
            prefetch(builder)(self._pointer(coming, ir.IntType(8)))
        values = [builder.gep(each, [column]) for each in x_rows]
        here = [builder.add(each, builder.mul(column, _I64(_COLUMN))) for each in places]
        totals = self._emit_column(values, here, dict(zip(self._keys, sums, strict=True)))
        nothing = ir.Constant(self._vector, [0.0] * self._lanes)
        for phi, first, later in zip(
            (column, *sums),
            (_I64(0), *[nothing] * len(sums)),
            (following, *(totals[key] for key in self._keys)),
            strict=True,
        ):
            phi.add_incoming(first, begin)
            phi.add_incoming(later, loop)
        builder.cbranch(builder.icmp_signed("<", following, columns), loop, done)

        builder.position_at_end(done)
        self._store(totals, out, out_stride, continues)

    def _emit_column(self, values: list[Any], places: list[Any], sums: dict[_Key, Any]) -> Any:
        """Emit the products of one column; return the new sums.

        Args:
            values: Pointers to the column's value of each row of x.
            places: The addresses of the column's weights, one for each tile.
        """
        multiply = multiply_add(self._builder, self._lanes)
        totals = dict[_Key, Any]()
        if len(self._rows) < len(self._vectors):  # the smaller operand stays in registers
            spread = [self._spread(each) for each in values]
            for each in self._vectors:
                weights = self._weights(places, each)
                for row in self._rows:
                    totals[row, *each] = multiply(weights, spread[row], sums[row, *each])
        else:
            read = {each: self._weights(places, each) for each in self._vectors}
            for row in self._rows:
                value = self._spread(values[row])
                for each, weights in read.items():
                    totals[row, *each] = multiply(weights, value, sums[row, *each])
        return totals

    def _weights(self, places: list[Any], vector: tuple[int, int]) -> Any:
        tile, part = vector
        place = self._builder.add(places[tile], _I64(4 * self._lanes * part))
        return self._builder.load(self._pointer(place, self._vector), align=4)

    def _spread(self, pointer: Any) -> Any:
        builder = self._builder
        one = builder.insert_element(
            ir.Constant(self._vector, ir.Undefined), builder.load(pointer), _I32(0)
        )
        order = ir.Constant(ir.VectorType(_I32, self._lanes), [0] * self._lanes)
        return builder.shuffle_vector(one, one, order)

    def _store(self, totals: dict[_Key, Any], out: Any, out_stride: Any, continues: Any) -> None:
        """Emit code that writes the sums to ``out``, or adds them if it ``continues``."""
        builder = self._builder
        places = {}
        for row, tile, part in self._keys:
            first = builder.add(out, _I64(_COLUMN * tile + 4 * self._lanes * part))
            place = self._moved(first, 4 * row, out_stride)
            places[row, tile, part] = self._pointer(place, self._vector)
        with builder.if_else(builder.icmp_signed("!=", continues, _I64(0))) as (more, only):
            with more:
                for key, place in places.items():
                    total = builder.fadd(builder.load(place, align=4), totals[key])
                    builder.store(total, place, align=4)
            with only:
                for key, place in places.items():
                    builder.store(totals[key], place, align=4)

    def _blocks(self, *names: str) -> list[Any]:
        return [self._builder.append_basic_block(name) for name in names]

    def _moved(self, place: Any, count: int, by: Any) -> Any:
        return self._builder.add(place, self._builder.mul(_I64(count), by))

    def _pointer(self, place: Any, kind: Any) -> Any:
        return self._builder.inttoptr(place, ir.PointerType(kind))


_row = _make_dots(1, _STREAMS)
_one, _two, _three, _four, _five, _six = (_make_dots(n) for n in range(1, 7))
_one_on_tile, _two_on_tile, _three_on_tile, _four_on_tile, _five_on_tile, _six_on_tile = (
    _make_dots(n, 1) for n in range(1, 7)
)


@compiled_apart
def tiled_product(
    matrix: int,
    begin: int,
    end: int,
    x: int,
    rows: int,
    width: int,
    x_stride: int,
    out: int,
    stride: int,
) -> None:
    """Write out[row, begin:end] = x[row] @ matrix[begin:end].T; ``begin`` is a multiple of 16.

    Rows of x are processed in groups, in one pass each. All passes multiply the same block of
    columns before the next block is read, so they find its weights in a cache. Each of the first
    passes prefetches its part of the next block, so memory reads overlap these passes.
    """
    tile_bytes = _COLUMN * width
    blocks = (width + _BLOCK - 1) // _BLOCK
    block = (width + blocks - 1) // blocks
    most_rows, most_tiles = _at_once(rows)
    parts = min((rows + most_rows - 1) // most_rows, _MOST_PARTS)
    buffer = np.empty((rows if end % LANES else 0, LANES), np.float32)  # of an incomplete tile
    place = begin
    while place < end:
        tiles = most_tiles if place + LANES * most_tiles <= end else np.int64(1)
        first = matrix + place // LANES * tile_bytes
        results, results_stride = out + 4 * place, stride
        valid = end - place
        if valid < LANES:
            results, results_stride = np.int64(buffer.ctypes.data), LANES
        column = 0
        while column < width:
            columns = min(block, width - column)
            source = first + _COLUMN * column
            coming = source + _COLUMN * columns
            if column + columns == width:
                coming = first + tiles * tile_bytes
            row = 0
            number = 0
            while row < rows:
                count = (rows - row) // ((rows - row + most_rows - 1) // most_rows)
                fetch = coming + number * (_COLUMN // parts) * columns
                given = (
                    source, tile_bytes, columns, x + 4 * (row * x_stride + column), x_stride,
                    results + 4 * row * results_stride, results_stride, column, fetch,
                    _COLUMN // parts,
                )  # fmt: skip
                if tiles > 1:
                    if rows == 1:
                        _row(*given)
                    elif count == 1:
                        _one(*given)
                    elif count == 2:
                        _two(*given)
                    elif count == 3:
                        _three(*given)
                    elif count == 4:
                        _four(*given)
                    elif count == 5:
                        _five(*given)
                    else:
                        _six(*given)
                elif count == 1:
                    _one_on_tile(*given)
                elif count == 2:
                    _two_on_tile(*given)
                elif count == 3:
                    _three_on_tile(*given)
                elif count == 4:
                    _four_on_tile(*given)
                elif count == 5:
                    _five_on_tile(*given)
                else:
                    _six_on_tile(*given)
                row += count
                number = min(number + 1, parts - 1)
            column += columns
        if valid < LANES:
            for row in range(rows):
                for i in range(valid):
                    put(out, row * stride + place + i, buffer[row, i])
        place += LANES * tiles
