"""Operations that kernels need and numba does not offer, as LLVM intrinsics.

Weights are float32, bfloat16 (stored as uint16) or float16 (stored as int16); all arithmetic is
float32. ``like`` is any value of the stored type; it selects the type. An address is an int64.
"""

from __future__ import annotations

import platform
import sys
from typing import Any

import numba.extending
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target

intrinsic: Any = numba.extending.intrinsic  # callers leave out ``typing``
_LANES = 8
_AHEAD = 16_384  # minimum prefetch distance in bytes
_SECOND_CACHE = 2  # locality hint of llvm.prefetch: second-level cache
_FLOAT, _HALF = ir.FloatType(), ir.HalfType()
_I16, _I32 = ir.IntType(16), ir.IntType(32)
_FLOATS = ir.VectorType(_FLOAT, _LANES)
_YIELD = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
_MAX_SPINS = 2000  # polls of a barrier before the thread yields the processor


def processor_features() -> frozenset[str]:
    """Return the processor features that code is generated for, such as ``avx512vnni``."""
    context: Any = cpu_target.target_context
    text = context.codegen()._tm_features
    return frozenset(each[1:] for each in text.split(",") if each.startswith("+"))


def has_half() -> bool:
    """Return whether the processor converts float16; if not, LLVM needs functions numba lacks."""
    x86 = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")
    return not x86 or "f16c" in processor_features()


def _stored(kind: Any) -> Any:
    return _FLOAT if kind == types.float32 else _I16


def _size(kind: Any) -> int:
    return 4 if kind == types.float32 else 2


def widened(builder: Any, value: Any, kind: Any, lanes: int = 0) -> Any:
    """Emit the conversion of a stored value, or a vector of stored values, to float32."""

    def wide(element: Any) -> Any:
        return ir.VectorType(element, lanes) if lanes else element

    if kind == types.float32:
        return value
    if kind == types.int16 and has_half():
        return builder.fpext(builder.bitcast(value, wide(_HALF)), wide(_FLOAT))
    bits = builder.zext(value, wide(_I32))
    if kind == types.int16:
        return _half_from_bits(builder, bits, lanes)
    return builder.bitcast(
        builder.shl(bits, ir.Constant(wide(_I32), [16] * lanes if lanes else 16)), wide(_FLOAT)
    )


def _half_from_bits(builder: Any, bits: Any, lanes: int) -> Any:
    """Emit the conversion of finite float16 bits to float32 with shifts and an exact product."""

    def constant(value: Any, element: Any) -> Any:
        kind = ir.VectorType(element, lanes) if lanes else element
        return ir.Constant(kind, [value] * lanes if lanes else value)

    sign = builder.shl(builder.and_(bits, constant(0x8000, _I32)), constant(16, _I32))
    rest = builder.shl(builder.and_(bits, constant(0x7FFF, _I32)), constant(13, _I32))
    floats = constant(2.0**112, _FLOAT)  # the difference of the exponents' offsets
    size = builder.fmul(builder.bitcast(rest, floats.type), floats)
    return builder.bitcast(builder.or_(builder.bitcast(size, sign.type), sign), floats.type)


def _narrowed(builder: Any, value: Any, kind: Any) -> Any:
    """Emit the rounding of a float32 to the nearest stored value, ties to even."""
    if kind == types.float32:
        return value
    if kind == types.int16:
        return builder.bitcast(builder.fptrunc(value, _HALF), _I16)
    bits = builder.bitcast(value, _I32)
    odd = builder.and_(builder.lshr(bits, _I32(16)), _I32(1))
    return builder.trunc(
        builder.lshr(builder.add(bits, builder.add(odd, _I32(0x7FFF))), _I32(16)), _I16
    )


@intrinsic
def widen(typing: Any, stored: Any) -> Any:
    """Convert a stored value to float32."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return widened(builder, args[0], stored)

    return types.float32(stored), make


@intrinsic
def narrow(typing: Any, like: Any, value: Any) -> Any:
    """Convert a float32 to a stored value."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _narrowed(builder, args[1], like)

    return like(like, types.float32), make


@intrinsic
def rounded(typing: Any, like: Any, value: Any) -> Any:
    """Round a float32 to a value that the stored type can represent."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return widened(builder, _narrowed(builder, args[1], like), like)

    return types.float32(like, types.float32), make


@intrinsic
def at(typing: Any, like: Any, address: Any, index: Any) -> Any:
    """Return the stored value ``address[index]`` as float32."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = builder.inttoptr(args[1], ir.PointerType(_stored(like)))
        value = builder.load(builder.gep(first, [args[2]]), align=_size(like))
        return widened(builder, value, like)

    return types.float32(like, types.int64, types.int64), make


@intrinsic
def put(typing: Any, address: Any, index: Any, value: Any) -> Any:
    """Store a float32 value at ``address[index]``."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = builder.inttoptr(args[0], ir.PointerType(_FLOAT))
        builder.store(args[2], builder.gep(first, [args[1]]), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32), make


@intrinsic
def byte_at(typing: Any, address: Any, index: Any) -> Any:
    """Return the unsigned byte ``address[index]`` as int64."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = builder.inttoptr(args[0], ir.PointerType(ir.IntType(8)))
        return builder.zext(builder.load(builder.gep(first, [args[1]]), align=1), ir.IntType(64))

    return types.int64(types.int64, types.int64), make


@intrinsic
def put_byte(typing: Any, address: Any, index: Any, value: Any) -> Any:
    """Store the lowest byte of an int32 at ``address[index]``."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = builder.inttoptr(args[0], ir.PointerType(ir.IntType(8)))
        byte = builder.trunc(args[2], ir.IntType(8))
        builder.store(byte, builder.gep(first, [args[1]]), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int32), make


@intrinsic
def long_at(typing: Any, address: Any, index: Any) -> Any:
    """Return the int64 ``address[index]``."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = builder.inttoptr(args[0], ir.PointerType(ir.IntType(64)))
        return builder.load(builder.gep(first, [args[1]]), align=8)

    return types.int64(types.int64, types.int64), make


@intrinsic
def put_int(typing: Any, address: Any, index: Any, value: Any) -> Any:
    """Store an int32 at ``address[index]``."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = builder.inttoptr(args[0], ir.PointerType(_I32))
        builder.store(args[2], builder.gep(first, [args[1]]), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int32), make


@intrinsic
def call(typing: Any, function: Any, arguments: Any) -> Any:
    """Call a compiled function at an address with a tuple of int64."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        long, count = ir.IntType(64), len(signature.args[1])
        kind = ir.FunctionType(ir.VoidType(), [long] * count)
        values = cgutils.unpack_tuple(builder, args[1], count)
        builder.call(builder.inttoptr(args[0], ir.PointerType(kind)), values)
        return context.get_dummy_value()

    return types.void(types.int64, arguments), make


@intrinsic
def size_of(typing: Any, like: Any) -> Any:
    """Return the size of a stored value in bytes."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.IntType(64)(_size(like))

    return types.int64(like), make


@intrinsic
def power_of_two(typing: Any, exponent: Any) -> Any:
    """Return 2**exponent for an int32 exponent from -126 to 127."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.shl(builder.add(args[0], _I32(127)), _I32(23))
        return builder.bitcast(bits, _FLOAT)

    return types.float32(types.int32), make


@intrinsic
def barrier(typing: Any, counter: Any, awaited: Any) -> Any:
    """Increment the counter at an address and wait until it reaches ``awaited``."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        long = ir.IntType(64)
        here = builder.inttoptr(args[0], ir.PointerType(long))
        builder.atomic_rmw("add", here, long(1), "acq_rel")
        yield_thread = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_I32, []), _YIELD
        )
        spins = cgutils.alloca_once_value(builder, long(0))
        spin = builder.append_basic_block("spin")
        wait = builder.append_basic_block("wait")
        give_way = builder.append_basic_block("give_way")
        done = builder.append_basic_block("done")
        builder.store(long(0), spins)
        builder.branch(spin)
        builder.position_at_end(spin)
        arrived = builder.load_atomic(here, "acquire", 8)
        builder.cbranch(builder.icmp_signed(">=", arrived, args[1]), done, wait)
        builder.position_at_end(wait)
        count = builder.add(builder.load(spins), long(1))
        builder.store(count, spins)
        builder.cbranch(builder.icmp_signed(">", count, long(_MAX_SPINS)), give_way, spin)
        builder.position_at_end(give_way)
        builder.call(yield_thread, [])
        builder.branch(spin)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), make


def make_dots(num_weights: int, num_rows: int, ahead: int = _AHEAD) -> Any:
    """Return an intrinsic for dot products of adjacent matrix rows with adjacent rows of x.

    Every dot product has an eight-lane accumulator of its own, so a result's bits do not depend on
    how many products are computed together. The kernel prefetches later matrix rows into the
    second-level cache. The first-level cache can wait for too few lines at a time to keep the
    memory busy.
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
        """Write ``out[row, weight] = dot(weights[weight], x[row])``; strides count floats."""

        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _emit_dots(builder, like, (num_weights, num_rows), ahead, args[1:])
            return context.get_dummy_value()

        return types.void(like, *[types.int64] * 6), make

    return dots


def _emit_dots(builder: Any, kind: Any, shape: tuple[int, int], distance: int, args: Any) -> None:
    weights, x, width, x_stride, out, out_stride = args
    cells = [(w, row) for row in range(shape[1]) for w in range(shape[0])]
    long, size, stored = width.type, _size(kind), _stored(kind)

    def pointer(address: Any, offset: Any, bytes_each: int, element: Any) -> Any:
        moved = builder.add(address, builder.mul(offset, long(bytes_each)))
        return builder.inttoptr(moved, ir.PointerType(element))

    weight_rows = [
        pointer(weights, builder.mul(width, long(w)), size, stored) for w in range(shape[0])
    ]
    x_rows = [pointer(x, builder.mul(x_stride, long(row)), 4, _FLOAT) for row in range(shape[1])]
    nothing = ir.Constant(_FLOATS, [0.0] * _LANES)
    sums = {place: cgutils.alloca_once_value(builder, nothing) for place in cells}
    for place in cells:
        builder.store(nothing, sums[place])
    multiply_add = _multiply_add(builder, _FLOATS, f"v{_LANES}f32")
    fetch = _fetch(builder)
    group = builder.mul(width, long(shape[0]))
    groups_ahead = builder.add(builder.udiv(long(distance // size), group), long(1))
    ahead = builder.mul(group, groups_ahead)
    groups = builder.udiv(width, long(_LANES))
    with cgutils.for_range(builder, groups) as loop:
        first = builder.mul(loop.index, long(_LANES))
        weights_read = []
        for row in weight_rows:
            here = builder.gep(row, [first])
            fetch(builder.gep(here, [ahead]))
            vector = builder.bitcast(here, ir.PointerType(ir.VectorType(stored, _LANES)))
            weights_read.append(widened(builder, builder.load(vector, align=size), kind, _LANES))
        for row in range(shape[1]):
            here = builder.bitcast(builder.gep(x_rows[row], [first]), ir.PointerType(_FLOATS))
            values = builder.load(here, align=4)
            for w in range(shape[0]):
                total = sums[w, row]
                builder.store(multiply_add(weights_read[w], values, builder.load(total)), total)
    left = {place: cgutils.alloca_once(builder, _FLOAT) for place in cells}
    for place in cells:
        builder.store(_lane_sum(builder, builder.load(sums[place])), left[place])
    multiply_add = _multiply_add(builder, _FLOAT, "f32")
    done = builder.mul(groups, long(_LANES))
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
    lanes = _LANES
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
