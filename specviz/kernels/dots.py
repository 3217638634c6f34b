"""Dot products of matrix rows with rows of activations, called x, as LLVM intrinsics.

An intrinsic multiplies several adjacent matrix rows by several rows of x. Every dot product is
summed in separate vector lanes, so a result's bits do not depend on how many products are computed
together. The kernels prefetch later matrix rows into the second-level cache, because the
first-level cache cannot request enough lines at a time to keep the memory busy. On AMD
processors, a line is prefetched several times, because they drop prefetches while many are pending.
On an Intel Xeon, one prefetch per line and long vectors made a step of one token 1.1 to 1.3 times
as fast, with weights in a cache and with weights in memory.

A processor with AVX512-BF16 multiplies bfloat16 weights by bfloat16 rows of x, two columns in each
lane, and adds the products in float32. On other processors, and for other weights, rows of x are
float32, and weights are converted to float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba.extending
from llvmlite import ir
from numba import types
from numba.core import cgutils

from specviz.kernels.compiled import compiled
from specviz.kernels.simd import processor_features, stored_size, stored_type, widened

intrinsic: Any = numba.extending.intrinsic
_AHEAD = 32_768  # minimum prefetch distance in bytes
_LINE = 64  # bytes of a cache line
ROWS_AT_ONCE = 6  # of x, for which the processor has registers
_AMD, _FETCHES_PER_LINE = "sse4a", 4  # an instruction set of AMD processors only
_SECOND_CACHE = 2  # locality hint of llvm.prefetch: second-level cache
_FLOAT, _I16, _I32, _I64 = ir.FloatType(), ir.IntType(16), ir.IntType(32), ir.IntType(64)


class _BFloat16(ir.Type):
    """LLVM's bfloat16, which llvmlite does not have."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat16)

    def __hash__(self) -> int:
        return hash(_BFloat16)


def has_wide_vectors() -> bool:
    """Return whether the processor has vectors of sixteen float32 values."""
    return {"avx512f", "avx512bw", "avx512vl"} <= processor_features()


def _fetch_every() -> int:
    """Return the bytes from one prefetch to the next."""
    return _LINE // _FETCHES_PER_LINE if _AMD in processor_features() else _LINE


def multiplies_pairs() -> bool:
    """Return whether the processor has instructions that multiply pairs of bfloat16 values."""
    return has_wide_vectors() and "avx512bf16" in processor_features()


def _takes_pairs(kind: Any) -> bool:
    return kind == types.uint16 and multiplies_pairs()


def _num_weights(num_rows: int) -> int:
    """Return how many matrix rows to multiply at once: as many as fit in the registers."""
    return 4 if num_rows <= 2 or has_wide_vectors() else 2


@compiled
def rows_in_pass(left: int) -> int:
    """Return how many of the ``left`` rows of x the next pass multiplies; passes are similar."""
    return left // ((left + ROWS_AT_ONCE - 1) // ROWS_AT_ONCE)


@intrinsic
def x_size(typing: Any, like: Any) -> Any:
    """Return the size in bytes of a value of x; ``like`` has the type of the weights."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _I64(2 if _takes_pairs(like) else 4)

    return types.int64(like), make


@intrinsic
def weights_at_once(typing: Any, rows: Any) -> Any:
    """Return how many matrix rows are multiplied at once by ``rows`` rows of x."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        few = builder.icmp_signed("<=", args[0], _I64(2))
        return builder.select(few, _I64(_num_weights(2)), _I64(_num_weights(3)))

    return types.int64(types.int64), make


def make_dots(num_rows: int, num_weights: int | None = None, *, fetches: bool = True) -> Any:
    """Return an intrinsic for dot products of adjacent matrix rows with adjacent rows of x.

    Args:
        num_rows: The number of rows of x.
        num_weights: The number of matrix rows; by default, the result of ``weights_at_once``.
        fetches: Whether to prefetch the coming matrix rows.
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
        fetch: Any,
        shift: Any,
    ) -> Any:
        """Write the dot product of each matrix row and each row of x to ``out[row, weight]``.

        ``x_stride``, ``out_stride`` and ``fetch`` count values, not bytes. The coming matrix rows
        are prefetched from column ``fetch`` on: all of the width if ``shift`` is 0, and half of it
        if ``shift`` is 1.
        """

        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            shape = (num_weights or _num_weights(num_rows), num_rows)
            _Emitter(builder, like, shape, fetches).emit(args[1:])
            return context.get_dummy_value()

        return types.void(like, *[types.int64] * 8), make

    return dots


class _Emitter:
    """Emits the LLVM code of an intrinsic that ``make_dots`` returns."""

    def __init__(self, builder: Any, kind: Any, shape: tuple[int, int], fetches: bool) -> None:
        self._builder = builder
        self._kind = kind
        self._shape = shape
        self._fetches = fetches
        self._paired = _takes_pairs(kind)
        lanes = 16 if has_wide_vectors() else 8
        columns = lanes * (2 if self._paired else 1)
        # A product of one or two rows waits for memory. Each of its vectors has one prefetch;
        # measured, short vectors with more prefetches read faster on AMD processors.
        short = shape[1] <= 2 and fetches
        self._parts = max(1, columns * stored_size(kind) // _fetch_every()) if short else 1
        self._lanes, self._columns = lanes // self._parts, columns // self._parts

    def emit(self, args: Sequence[Any]) -> None:
        """Emit the code; ``args``: the intrinsic's arguments without ``like``."""
        weights, x, width, x_stride, out, out_stride, fetched, shift = args
        builder, all_columns = self._builder, _I64(self._parts * self._columns)
        weight_rows = self._rows(weights, width, stored_type(self._kind), self._shape[0])
        x_rows = self._rows(x, x_stride, _I16 if self._paired else _FLOAT, self._shape[1])
        sums = [[[self._no_sum() for _ in weight_rows] for _ in x_rows] for _ in range(self._parts)]
        multiply_add = self._multiply_add()

        def add(first: Any, part: int, load: Callable[[Any], Any]) -> None:
            read = [self._factor(load(builder.gep(row, [first]))) for row in weight_rows]
            for row, totals in zip(x_rows, sums[part], strict=True):
                values = load(builder.gep(row, [first]))
                for weight, total in zip(read, totals, strict=True):
                    builder.store(multiply_add(weight, values, builder.load(total)), total)

        ahead = builder.add(self._values_ahead(width), fetched)
        fetch_line = prefetch(builder)
        steps = range(0, self._columns, _fetch_every() // stored_size(self._kind))

        def fetch(first: Any) -> None:
            for begin in steps:
                place = builder.add(builder.lshr(first, shift), _I64(begin))
                for row in weight_rows:
                    fetch_line(builder.gep(row, [builder.add(place, ahead)]))

        groups = builder.udiv(width, all_columns)
        with cgutils.for_range(builder, groups) as loop:
            for part in range(self._parts):
                offset = _I64(part * self._columns)
                first = builder.add(builder.mul(loop.index, all_columns), offset)
                if self._fetches and len(x_rows) > 2:
                    every = builder.icmp_signed("==", builder.and_(loop.index, shift), _I64(0))
                    with builder.if_then(every, likely=True):
                        fetch(first)
                elif self._fetches:  # in the only pass
                    fetch(first)
                add(first, part, self._load)
        done = builder.mul(groups, all_columns)
        for part in range(self._parts):
            first = builder.add(done, _I64(part * self._columns))
            left = builder.sub(width, first)
            with builder.if_then(builder.icmp_signed(">", left, _I64(0)), likely=False):
                add(first, part, self._masked_load(left))
        for number in range(self._shape[1]):
            result = self._lane_sums(
                [
                    self._whole([each[number][weight] for each in sums])
                    for weight in range(self._shape[0])
                ]
            )
            place = self._pointer(out, builder.mul(out_stride, _I64(number)), result.type)
            builder.store(result, place, align=4)

    def _no_sum(self) -> Any:
        nothing = _zeros(_FLOAT, self._lanes)
        total = cgutils.alloca_once_value(self._builder, nothing)
        self._builder.store(nothing, total)
        return total

    def _whole(self, parts: list[Any]) -> Any:
        """Emit code that loads the parts of a sum; return the parts joined into one vector."""
        loaded = [self._builder.load(each) for each in parts]
        while len(loaded) > 1:
            pairs = [loaded[first : first + 2] for first in range(0, len(loaded), 2)]
            places = range(2 * loaded[0].type.count)
            order = ir.Constant(ir.VectorType(_I32, len(places)), list(places))
            loaded = [self._builder.shuffle_vector(*pair, order) for pair in pairs]
        return loaded[0]

    def _multiply_add(self) -> Callable[..., Any]:
        if self._paired:
            return pair_multiply_add(self._builder, self._lanes)
        return multiply_add(self._builder, self._lanes)

    def _factor(self, weights: Any) -> Any:
        if self._paired:
            return weights
        return widened(self._builder, weights, self._kind, self._lanes)

    def _load(self, place: Any) -> Any:
        """Emit code that loads the vector that starts at the pointer ``place``."""
        element = place.type.pointee
        pointer = ir.PointerType(ir.VectorType(element, self._columns))
        return self._builder.load(self._builder.bitcast(place, pointer), align=_bytes(element))

    def _masked_load(self, count: Any) -> Callable[[Any], Any]:
        """Return a function that emits code to load the first ``count`` values of a vector.

        The other lanes are 0.
        """
        builder, columns = self._builder, self._columns
        places = ir.VectorType(_I64, columns)
        one = builder.insert_element(ir.Constant(places, ir.Undefined), count, _I32(0))
        counts = builder.shuffle_vector(one, one, _zeros(_I32, columns))
        mask = builder.icmp_signed("<", ir.Constant(places, list(range(columns))), counts)

        def load(place: Any) -> Any:
            element = place.type.pointee
            vector = ir.VectorType(element, columns)
            pointer = ir.PointerType(vector)
            name = "f32" if element == _FLOAT else "i16"
            function = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(vector, [pointer, _I32, mask.type, vector]),
                f"llvm.masked.load.v{columns}{name}.p0",
            )
            nothing = _zeros(element, columns)
            align = _I32(_bytes(element))
            return builder.call(function, [builder.bitcast(place, pointer), align, mask, nothing])

        return load

    def _lane_sums(self, vectors: list[Any]) -> Any:
        """Emit the sum of the lanes of each vector; return the vector of these sums.

        There are one, two or four vectors. In each of them, the upper half of the lanes is
        repeatedly added to the lower half. Pairs of vectors are joined, so that one instruction
        adds the halves of both.
        """
        lanes = vectors[0].type.count
        while lanes > 1:
            pairs = [vectors[first : first + 2] for first in range(0, len(vectors), 2)]
            vectors = [self._halves_added(pair, lanes) for pair in pairs]
            lanes //= 2
        return vectors[0]

    def _halves_added(self, vectors: list[Any], lanes: int) -> Any:
        """Emit the addition of the two halves of each group of ``lanes`` lanes.

        The groups are in one or two vectors. The sums of all groups form one vector.
        """
        places = range(sum(each.type.count for each in vectors))
        lower = [each for each in places if each % lanes < lanes // 2]
        upper = [each + lanes // 2 for each in lower]
        kind = ir.VectorType(_I32, len(lower))
        return self._builder.fadd(
            *(
                self._builder.shuffle_vector(vectors[0], vectors[-1], ir.Constant(kind, half))
                for half in (lower, upper)
            )
        )

    def _pointer(self, address: Any, offset: Any, element: Any) -> Any:
        builder = self._builder
        size = _I64(_bytes(getattr(element, "element", element)))
        moved = builder.add(address, builder.mul(offset, size))
        return builder.inttoptr(moved, ir.PointerType(element))

    def _rows(self, address: Any, stride: Any, element: Any, count: int) -> list[Any]:
        offsets = [self._builder.mul(stride, _I64(row)) for row in range(count)]
        return [self._pointer(address, each, element) for each in offsets]

    def _values_ahead(self, width: Any) -> Any:
        """Emit the distance at which weights are prefetched, as a number of values.

        The distance is a whole number of groups. A group consists of the matrix rows that are
        multiplied at once.
        """
        builder = self._builder
        group = builder.mul(width, _I64(self._shape[0]))
        values = _I64(_AHEAD // stored_size(self._kind))
        return builder.mul(group, builder.add(builder.udiv(values, group), _I64(1)))


def prefetch(builder: Any) -> Callable[[Any], Any]:
    """Return a function that emits a prefetch of a pointer's line into the second-level cache."""
    byte = ir.PointerType(ir.IntType(8))
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32]),
        "llvm.prefetch.p0",
    )
    return lambda place: builder.call(
        function, [builder.bitcast(place, byte), _I32(0), _I32(_SECOND_CACHE), _I32(1)]
    )


def multiply_add(builder: Any, lanes: int) -> Callable[..., Any]:
    """Return a function that emits ``weight * value + total``, fused if the processor can do it."""
    kind = ir.VectorType(_FLOAT, lanes)
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fmuladd.v{lanes}f32"
    )
    return lambda *values: builder.call(function, values)


def pair_multiply_add(builder: Any, lanes: int) -> Callable[..., Any]:
    """Return a function that emits ``total`` plus the products of two bfloat16 columns."""
    total_type = ir.VectorType(_FLOAT, lanes)
    pairs = ir.VectorType(_BFloat16(), 2 * lanes)
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(total_type, [total_type, pairs, pairs]),
        f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}",
    )
    return lambda *values: builder.call(
        function, [values[-1], *(builder.bitcast(each, pairs) for each in values[:-1])]
    )


def _zeros(element: Any, count: int) -> Any:
    zero = 0.0 if element == _FLOAT else 0
    return ir.Constant(ir.VectorType(element, count), [zero] * count)


def _bytes(element: Any) -> int:
    return 4 if element == _FLOAT else 2
