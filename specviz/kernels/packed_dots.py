"""Dot products with packed rows, as LLVM intrinsics.

A code is the integer that stores a quantised weight or activation. For a block of weights and a
block of activations, the dot product of the codes is an exact ``integer``. The blocks are then
added in order: ``sum += integer * (scale * x_scale) ± minimum * x_sum``. Each operation is rounded
to float32. ``scale`` and ``minimum`` belong to the weights, ``x_scale`` and ``x_sum`` to the
activations. So the result does not depend on the instructions of the processor or on the number of
rows.

Activations are quantised in blocks of 32 columns. A block has ``X_BYTES`` bytes: 32 signed codes,
their scale, the scale times the sum of the codes, and three sums of codes, each times -8: of all
codes, of the first half, and of the second half. For each block of columns, the blocks of all rows
are adjacent, so a kernel reads them at constant distances.
"""

from __future__ import annotations

import functools
from typing import Any

import numba.extending
from llvmlite import ir
from numba import types
from numba.core import cgutils

from specviz.kernels.packed_types import LANES, SHORT, STEP, PackedType
from specviz.kernels.simd import processor_features, widened

intrinsic: Any = numba.extending.intrinsic
_BYTE, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_INTS, _BYTES = ir.VectorType(_I32, LANES), ir.VectorType(_BYTE, LANES)
_PAIRS = ir.VectorType(_I16, 2 * LANES)
_VECTOR = STEP * LANES  # bytes

X_BYTES = 64  # bytes of a block of activations
X_SCALE, X_SUM, X_WHOLE, X_HALVES = range(SHORT, SHORT + 16, 4)  # offsets in it
X_FACTOR = 8  # the sums of codes are stored times -8; 8 divides the offset of every type


def make_packed_dots(packed: PackedType, num_rows: int) -> Any:
    """Return an intrinsic for dot products of 16 matrix rows with adjacent rows of activations."""

    @intrinsic
    def packed_dots(
        typing: Any,
        group: Any,
        x: Any,
        width: Any,
        x_rows: Any,
        out: Any,
        out_stride: Any,
        columns: Any,
    ) -> Any:
        """Write the dot products of a group's first ``columns`` matrix rows with each row of x.

        The product of matrix row i goes to ``out[row, i]``. ``x_rows``: the number of rows that
        were quantised together. ``out_stride`` is a number of float32 values.
        """

        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _Emitter(builder, packed, num_rows).emit(*args)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7), make

    return packed_dots


class _Emitter:
    """Emits the LLVM code of an intrinsic that ``make_packed_dots`` returns."""

    def __init__(self, builder: Any, packed: PackedType, num_rows: int) -> None:
        self._builder = builder
        self._packed = packed
        self._rows = range(num_rows)
        self._dot = _dot_function(builder, processor_features())

    def emit(
        self, group: Any, x: Any, width: Any, x_rows: Any, out: Any, out_stride: Any, columns: Any
    ) -> None:
        builder, packed = self._builder, self._packed
        self._x, self._x_step = x, builder.mul(x_rows, _I64(X_BYTES))
        nothing = ir.Constant(_FLOATS, [0.0] * LANES)
        self._sums = [cgutils.alloca_once_value(builder, nothing) for _ in self._rows]
        for each in self._sums:
            builder.store(nothing, each)
        records = builder.udiv(width, _I64(packed.record_columns))
        with cgutils.for_range(builder, records) as loop:
            record = builder.add(group, builder.mul(loop.index, _I64(packed.record_bytes)))
            self._emit_record(record, loop.index)
        mask = self._mask(columns)
        for row, each in enumerate(self._sums):
            place = builder.add(out, builder.mul(builder.mul(out_stride, _I64(row)), _I64(4)))
            self._store(builder.load(each), place, mask)

    def _emit_record(self, record: Any, index: Any) -> None:
        builder, packed = self._builder, self._packed
        scale = self._halves(record, 0)
        minimum = self._halves(record, 2 * LANES) if packed.has_minimum else None
        if not packed.is_long:
            codes = builder.add(record, _I64(packed.head_bytes))
            self._emit_block(codes, self._x_block(index), 0, scale, minimum)
            return
        per_record = packed.record_columns // SHORT
        with cgutils.for_range(builder, _I64(per_record)) as loop:
            own = packed.blocks * packed.block_bytes // per_record
            place = builder.add(record, _I64(packed.head_bytes))
            place = builder.add(place, builder.mul(loop.index, _I64(own)))
            x = self._x_block(builder.add(builder.mul(index, _I64(per_record)), loop.index))
            for half in range(packed.blocks // per_record):
                block = builder.add(place, _I64(half * packed.block_bytes))
                signed = not packed.has_minimum
                factored = builder.fmul(scale, self._factors(block, 0, signed=signed))
                least = minimum and builder.fmul(minimum, self._factors(block, LANES, signed=False))
                codes = builder.add(block, _I64(packed.factor_bytes))
                self._emit_block(codes, x, half, factored, least)

    def _emit_block(self, codes: Any, x: Any, half: int, scale: Any, minimum: Any) -> None:
        builder, packed = self._builder, self._packed
        chunks = self._chunks(codes)
        totals = [[self._begin(x, row, half), *self._more()] for row in self._rows]
        for chunk in range(packed.chunks):
            vector = chunks(chunk)
            for row in self._rows:
                word = self._x_value(x, row, half * packed.columns + STEP * chunk, _I32)
                totals[row].append(self._dot(totals[row].pop(0), vector, word))
        for row in self._rows:
            total = functools.reduce(builder.add, totals[row])
            product = builder.fmul(scale, self._x_spread(x, row, X_SCALE, _FLOATS))
            added = self._rounded(builder.fmul(builder.sitofp(total, _FLOATS), product))
            if minimum is not None:
                x_sum = self._x_spread(x, row, X_SUM, _FLOATS)
                least = self._rounded(builder.fmul(minimum, x_sum))
                added = (builder.fsub if packed.is_long else builder.fadd)(added, least)
            builder.store(builder.fadd(builder.load(self._sums[row]), added), self._sums[row])

    def _more(self) -> list[Any]:
        """Return the initial values, zeros, of a sum's additional totals.

        With one or two rows, a sum is faster if its terms are spread over several totals.
        """
        return [ir.Constant(_INTS, [0] * LANES)] * {1: 3, 2: 1}.get(len(self._rows), 0)

    def _begin(self, x: Any, row: int, half: int) -> Any:
        """Return the initial total of a sum; it cancels the effect of the codes' offset."""
        builder, packed = self._builder, self._packed
        if not packed.offset:
            return ir.Constant(_INTS, [0] * LANES)
        place = X_WHOLE if packed.columns == SHORT else X_HALVES + 4 * half
        shift = ir.Constant(_INTS, [(packed.offset // X_FACTOR).bit_length() - 1] * LANES)
        return builder.shl(self._x_spread(x, row, place, _INTS), shift)

    def _x_block(self, index: Any) -> Any:
        return self._builder.add(self._x, self._builder.mul(index, self._x_step))

    def _x_value(self, x: Any, row: int, offset: int, kind: Any) -> Any:
        return self._load(self._builder.add(x, _I64(X_BYTES * row + offset)), kind, 4)

    def _x_spread(self, x: Any, row: int, offset: int, kind: Any) -> Any:
        return _splat(self._builder, self._x_value(x, row, offset, kind.element), kind)

    def _rounded(self, value: Any) -> Any:
        """Return the product ``value``, protected against being fused with an addition.

        Only some processors can fuse the two, so fusing would make results depend on the processor.
        """
        function = cgutils.get_or_insert_function(
            self._builder.module,
            ir.FunctionType(_FLOATS, [_FLOATS]),
            f"llvm.arithmetic.fence.v{LANES}f32",
        )
        return self._builder.call(function, [value])

    def _chunks(self, codes: Any) -> Any:
        """Return a function that emits the 64 codes of one chunk of a block, as unsigned bytes."""
        builder, packed = self._builder, self._packed

        def vector(index: int) -> Any:
            return self._load(builder.add(codes, _I64(_VECTOR * index)), _INTS, 1)

        if packed.bits == 8:
            return vector
        low = _bytes_of(15)
        upper = vector(packed.chunks // 2) if packed.bits > 4 else None
        own = packed.bits - 4
        mask = _bytes_of(16 * ((1 << own) - 1))
        pairs = [vector(index) for index in range(packed.chunks // 2)]

        def decoded(chunk: int) -> Any:
            pair = pairs[chunk // 2]
            if chunk % 2:
                pair = builder.lshr(pair, ir.Constant(_INTS, [4] * LANES))
            code = builder.and_(pair, low)
            if upper is None:
                return code
            by = own * chunk - 4
            shift = builder.lshr if by > 0 else builder.shl
            moved = shift(upper, ir.Constant(_INTS, [abs(by)] * LANES)) if by else upper
            return builder.or_(code, builder.and_(moved, mask))

        return decoded

    def _halves(self, record: Any, offset: int) -> Any:
        place = self._builder.add(record, _I64(offset))
        stored = self._load(place, ir.VectorType(_I16, LANES), 2)
        return widened(self._builder, stored, types.int16, LANES)

    def _factors(self, block: Any, offset: int, *, signed: bool) -> Any:
        builder = self._builder
        stored = self._load(builder.add(block, _I64(offset)), _BYTES, 1)
        wide = (builder.sext if signed else builder.zext)(stored, _INTS)
        return builder.sitofp(wide, _FLOATS)

    def _load(self, place: Any, kind: Any, align: int) -> Any:
        builder = self._builder
        return builder.load(builder.inttoptr(place, ir.PointerType(kind)), align=align)

    def _mask(self, columns: Any) -> Any:
        builder = self._builder
        numbers = ir.Constant(ir.VectorType(_I64, LANES), list(range(LANES)))
        return builder.icmp_signed(
            "<", numbers, _splat(builder, columns, ir.VectorType(_I64, LANES))
        )

    def _store(self, values: Any, place: Any, mask: Any) -> None:
        builder = self._builder
        pointer = ir.PointerType(_FLOATS)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [_FLOATS, pointer, _I32, mask.type]),
            f"llvm.masked.store.v{LANES}f32.p0",
        )
        builder.call(function, [values, builder.inttoptr(place, pointer), _I32(4), mask])


def _splat(builder: Any, value: Any, kind: Any) -> Any:
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, _I32(0))
    zeros = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
    return builder.shuffle_vector(one, one, zeros)


def _bytes_of(value: int) -> Any:
    return ir.Constant(_INTS, [value * 0x01010101] * LANES)


def _dot_function(builder: Any, features: frozenset[str]) -> Any:
    """Return a function that adds a dot product of four bytes to each lane of a vector.

    It emits ``total[lane] += Σ codes[lane, i] * x[i]``, with i from 0 to 3. A lane of ``codes`` has
    four unsigned bytes. ``x`` is a 32-bit word of four signed bytes.
    """
    if {"avx512vnni", "avx512bw"} <= features:
        return _byte_dot(builder, LANES)
    if "avxvnni" in features or {"avx512vnni", "avx512vl"} <= features:
        return _byte_dot(builder, LANES // 2)
    return _PairedDot(builder)


def _byte_dot(builder: Any, lanes: int) -> Any:
    """Return a ``_dot_function`` that uses a dot-product instruction of ``lanes`` lanes."""
    ints, codes_of = ir.VectorType(_I32, lanes), ir.VectorType(_BYTE, STEP * lanes)
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(ints, [ints, codes_of, codes_of]),
        f"llvm.x86.avx512.vpdpbusd.{32 * lanes}",
    )

    def part(vector: Any, first: int) -> Any:
        places = ir.Constant(ints, list(range(first, first + lanes)))
        return vector if lanes == LANES else builder.shuffle_vector(vector, vector, places)

    def dot(total: Any, codes: Any, x: Any) -> Any:
        values = _splat(builder, x, _INTS)
        parts = [
            builder.call(
                function,
                [part(total, first)]
                + [builder.bitcast(part(each, first), codes_of) for each in (codes, values)],
            )
            for first in range(0, LANES, lanes)
        ]
        if len(parts) == 1:
            return parts[0]
        return builder.shuffle_vector(*parts, ir.Constant(_INTS, list(range(LANES))))

    return dot


class _PairedDot:
    """A dot product of bytes, which are extended to 16 bits; LLVM uses ``pmaddwd`` if available."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._split: dict[int, tuple[Any, Any]] = {}  # codes of a chunk, for several rows

    def __call__(self, total: Any, codes: Any, x: Any) -> Any:
        builder = self._builder
        if id(codes) not in self._split:
            low = ir.Constant(_INTS, [0x00FF00FF] * LANES)
            eight = ir.Constant(_INTS, [8] * LANES)
            self._split[id(codes)] = (
                builder.and_(codes, low),
                builder.and_(builder.lshr(codes, eight), low),
            )
        even, odd = self._split[id(codes)]
        eight = ir.Constant(_PAIRS, [8] * 2 * LANES)
        values = builder.bitcast(_splat(builder, x, _INTS), _PAIRS)
        low = builder.ashr(builder.shl(values, eight), eight)
        total = builder.add(total, self._pairs(builder.bitcast(even, _PAIRS), low))
        return builder.add(
            total, self._pairs(builder.bitcast(odd, _PAIRS), builder.ashr(values, eight))
        )

    def _pairs(self, one: Any, other: Any) -> Any:
        """Emit products of 16-bit integers, and the 32-bit sum of every two adjacent products."""
        builder = self._builder
        wide = ir.VectorType(_I32, 2 * LANES)
        products = builder.mul(builder.sext(one, wide), builder.sext(other, wide))
        halves = [
            builder.shuffle_vector(
                products,
                products,
                ir.Constant(_INTS, list(range(first, 2 * LANES, 2))),
            )
            for first in (0, 1)
        ]
        return builder.add(*halves)
