"""Dot products of adjacent matrix rows with adjacent rows of x, as LLVM intrinsics.

Each dot product has a vector accumulator of its own, so its bits do not depend on how many products
are computed together. For bfloat16, a processor with AVX512-BF16 multiplies pairs of values; x is
rounded to bfloat16 there already, so nothing is lost.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from specviz.kernels.simd import intrinsic, processor_features, size_in_bytes, stored_type, widened

_LANES, _PAIR_LANES = 8, 16  # of an accumulator
_AHEAD = 16_384  # minimum prefetch distance in bytes
_SECOND_CACHE = 2  # locality hint of llvm.prefetch: second-level cache
_FLOAT, _I32 = ir.FloatType(), ir.IntType(32)


class _BFloat(ir.Type):
    """LLVM's bfloat, which llvmlite lacks."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


def make_dots(num_weights: int, num_rows: int, ahead: int = _AHEAD) -> Any:
    """Return an intrinsic for dot products of adjacent matrix rows with adjacent rows of x.

    The kernel prefetches later matrix rows into the second-level cache: the first level allows too
    few outstanding lines to keep the memory busy.
    """

    @intrinsic
    def dots(
        typing: Any,
        like: Any,
        weights: Any,
        x: Any,
        width: Any,
        x_stride: Any,
        out: Any,
        out_stride: Any,
    ) -> Any:
        """Write ``out[row, weight] = dot(weights[weight], x[row])``; strides in float32 values."""

        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _emit_dots(builder, like, (num_weights, num_rows), ahead, args[1:])
            return context.get_dummy_value()

        return types.void(like, *[types.int64] * 6), make

    return dots


def _emit_dots(builder: Any, kind: Any, shape: tuple[int, int], distance: int, args: Any) -> None:
    weights, x, width, x_stride, out, out_stride = args
    cells = [(w, row) for row in range(shape[1]) for w in range(shape[0])]
    long, size, stored = width.type, size_in_bytes(kind), stored_type(kind)

    def pointer(address: Any, offset: Any, bytes_each: int, element: Any) -> Any:
        moved = builder.add(address, builder.mul(offset, long(bytes_each)))
        return builder.inttoptr(moved, ir.PointerType(element))

    weight_rows = [
        pointer(weights, builder.mul(width, long(w)), size, stored) for w in range(shape[0])
    ]
    x_rows = [pointer(x, builder.mul(x_stride, long(row)), 4, _FLOAT) for row in range(shape[1])]
    vectors = _PairVectors(builder) if _has_pairs(kind) else _Vectors(builder, kind)
    nothing = ir.Constant(vectors.sums, [0.0] * vectors.sums.count)
    sums = {place: cgutils.alloca_once_value(builder, nothing) for place in cells}
    for place in cells:
        builder.store(nothing, sums[place])
    fetch = _fetch(builder)
    group = builder.mul(width, long(shape[0]))
    groups_ahead = builder.add(builder.udiv(long(distance // size), group), long(1))
    ahead = builder.mul(group, groups_ahead)
    groups = builder.udiv(width, long(vectors.count))
    with cgutils.for_range(builder, groups) as loop:
        first = builder.mul(loop.index, long(vectors.count))
        weights_read = []
        for row in weight_rows:
            here = builder.gep(row, [first])
            fetch(builder.gep(here, [ahead]))
            weights_read.append(vectors.weights(here))
        for row in range(shape[1]):
            values = vectors.values(builder.gep(x_rows[row], [first]))
            for w in range(shape[0]):
                total = sums[w, row]
                added = vectors.added(builder.load(total), weights_read[w], values)
                builder.store(added, total)
    left = {place: cgutils.alloca_once(builder, _FLOAT) for place in cells}
    for place in cells:
        builder.store(_lane_sum(builder, builder.load(sums[place])), left[place])
    multiply_add = _multiply_add(builder, _FLOAT, "f32")
    done = builder.mul(groups, long(vectors.count))
    with cgutils.for_range(builder, builder.sub(width, done)) as loop:
        index = builder.add(done, loop.index)
        for w, row in cells:
            weight = builder.load(builder.gep(weight_rows[w], [index]), align=size)
            value = builder.load(builder.gep(x_rows[row], [index]), align=4)
            total = left[w, row]
            wide = widened(builder, weight, kind)
            builder.store(multiply_add(wide, value, builder.load(total)), total)
    for w, row in cells:
        place = builder.add(builder.mul(out_stride, long(row)), long(w))
        builder.store(builder.load(left[w, row]), pointer(out, place, 4, _FLOAT), align=4)


def _multiply_add(builder: Any, kind: Any, suffix: str) -> Any:
    """Return a function that emits a multiply-add, fused where the processor supports it."""
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fmuladd.{suffix}"
    )
    return lambda *values: builder.call(function, values)


def _fetch(builder: Any) -> Any:
    byte = ir.PointerType(ir.IntType(8))
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32]),
        "llvm.prefetch.p0",
    )
    return lambda place: builder.call(
        function, [builder.bitcast(place, byte), _I32(0), _I32(_SECOND_CACHE), _I32(1)]
    )


def _lane_sum(builder: Any, vector: Any) -> Any:
    """Emit the sum of a vector's lanes; repeatedly add the upper half to the lower half."""
    lanes = vector.type.count
    while lanes > 1:
        lanes //= 2
        halves = [
            builder.shuffle_vector(
                vector, vector, ir.Constant(ir.VectorType(_I32, lanes), list(range(at, at + lanes)))
            )
            for at in (0, lanes)
        ]
        vector = builder.fadd(*halves)
    return builder.extract_element(vector, _I32(0))


class _Vectors:
    """Eight weights at a time, widened to float32."""

    count, sums = _LANES, ir.VectorType(_FLOAT, _LANES)

    def __init__(self, builder: Any, kind: Any) -> None:
        self._builder, self._kind = builder, kind
        self._multiply_add = _multiply_add(builder, self.sums, f"v{_LANES}f32")

    def weights(self, here: Any) -> Any:
        stored = ir.VectorType(stored_type(self._kind), self.count)
        vector = self._builder.bitcast(here, ir.PointerType(stored))
        loaded = self._builder.load(vector, align=size_in_bytes(self._kind))
        return widened(self._builder, loaded, self._kind, self.count)

    def values(self, here: Any) -> Any:
        vector = self._builder.bitcast(here, ir.PointerType(self.sums))
        return self._builder.load(vector, align=4)

    def added(self, total: Any, weights: Any, values: Any) -> Any:
        return self._multiply_add(weights, values, total)


class _PairVectors:
    """32 bfloat16 weights at a time; each lane of a sum takes the products of two of them."""

    count, sums = 2 * _PAIR_LANES, ir.VectorType(_FLOAT, _PAIR_LANES)
    _pairs = ir.VectorType(_BFloat(), 2 * _PAIR_LANES)

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._round = self._function("cvtne2ps2bf16", self._pairs, [self.sums] * 2)
        self._dot = self._function("dpbf16ps", self.sums, [self.sums, self._pairs, self._pairs])

    def _function(self, name: str, result: Any, arguments: list[Any]) -> Any:
        kind = ir.FunctionType(result, arguments)
        name = f"llvm.x86.avx512bf16.{name}.512"
        return cgutils.get_or_insert_function(self._builder.module, kind, name)

    def weights(self, here: Any) -> Any:
        vector = self._builder.bitcast(here, ir.PointerType(self._pairs))
        return self._builder.load(vector, align=2)

    def values(self, here: Any) -> Any:
        place = self._builder.bitcast(here, ir.PointerType(self.sums))
        low, high = (
            self._builder.load(self._builder.gep(place, [_I32(half)]), align=4) for half in (0, 1)
        )
        return self._builder.call(self._round, [high, low])

    def added(self, total: Any, weights: Any, values: Any) -> Any:
        return self._builder.call(self._dot, [total, weights, values])


def _has_pairs(kind: Any) -> bool:
    return kind == types.uint16 and {"avx512bf16", "avx512bw"} <= processor_features()
