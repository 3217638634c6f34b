"""Operations that kernels need and numba does not offer, as LLVM intrinsics.

Weights are float32, bfloat16 (stored as uint16) or float16 (stored as int16). ``like`` is any value
of the stored type; it selects the type. An address is an int64.
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
_FLOAT, _HALF = ir.FloatType(), ir.HalfType()
_I8, _I16, _I32, _I64 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
_YIELD = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
_MAX_SPINS = 2000  # polls of a barrier before the thread yields the processor


def processor_features() -> frozenset[str]:
    """Return the processor features that code is generated for, such as ``avx512vnni``."""
    context: Any = cpu_target.target_context
    text = context.codegen()._tm_features
    return frozenset(each[1:] for each in text.split(",") if each.startswith("+"))


def has_half() -> bool:
    """Return whether the processor converts float16.

    If it does not, LLVM calls library functions that numba does not provide.
    """
    x86 = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")
    return not x86 or "f16c" in processor_features()


def stored_type(kind: Any) -> Any:
    return _FLOAT if kind == types.float32 else _I16


def stored_size(kind: Any) -> int:
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
    """Emit the rounding of a float32 to the nearest value of the stored type, ties to even."""
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


def _element(builder: Any, kind: Any, address: Any, index: Any) -> Any:
    """Emit the pointer to ``address[index]``, a value of the LLVM type ``kind``."""
    return builder.gep(builder.inttoptr(address, ir.PointerType(kind)), [index])


@intrinsic
def at(typing: Any, like: Any, address: Any, index: Any) -> Any:
    """Return the stored value ``address[index]`` as float32."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _element(builder, stored_type(like), *args[1:])
        return widened(builder, builder.load(place, align=stored_size(like)), like)

    return types.float32(like, types.int64, types.int64), make


def _make_put(number_type: Any, kind: Any) -> Any:
    """Return an intrinsic that stores a value of a type of 4 bytes at ``address[index]``.

    ``kind``: the type as an LLVM type.
    """

    @intrinsic
    def put(typing: Any, address: Any, index: Any, value: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.store(args[2], _element(builder, kind, *args[:2]), align=4)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, number_type), make

    return put


put = _make_put(types.float32, _FLOAT)
put_int = _make_put(types.int32, _I32)


@intrinsic
def put_stored(typing: Any, like: Any, address: Any, index: Any, value: Any) -> Any:
    """Store a float32 at ``address[index]`` as the stored type, rounded to nearest."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _element(builder, stored_type(like), *args[1:3])
        builder.store(_narrowed(builder, args[3], like), place, align=stored_size(like))
        return context.get_dummy_value()

    return types.void(like, types.int64, types.int64, types.float32), make


@intrinsic
def byte_at(typing: Any, address: Any, index: Any) -> Any:
    """Return the unsigned byte ``address[index]`` as int64."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.zext(builder.load(_element(builder, _I8, *args), align=1), _I64)

    return types.int64(types.int64, types.int64), make


@intrinsic
def put_byte(typing: Any, address: Any, index: Any, value: Any) -> Any:
    """Store the lowest byte of an int32 at ``address[index]``."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = builder.trunc(args[2], _I8)
        builder.store(byte, _element(builder, _I8, *args[:2]), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int32), make


@intrinsic
def long_at(typing: Any, address: Any, index: Any) -> Any:
    """Return the int64 ``address[index]``."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_element(builder, _I64, *args), align=8)

    return types.int64(types.int64, types.int64), make


@intrinsic
def call(typing: Any, function: Any, arguments: Any) -> Any:
    """Call the compiled function at the address ``function``; its arguments are int64."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count = len(signature.args[1])
        kind = ir.FunctionType(ir.VoidType(), [_I64] * count)
        values = cgutils.unpack_tuple(builder, args[1], count)
        builder.call(builder.inttoptr(args[0], ir.PointerType(kind)), values)
        return context.get_dummy_value()

    return types.void(types.int64, arguments), make


@intrinsic
def size_of(typing: Any, like: Any) -> Any:
    """Return the size of a stored value in bytes."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _I64(stored_size(like))

    return types.int64(like), make


@intrinsic
def power_of_two(typing: Any, biased: Any) -> Any:
    """Return 2**(biased - 127) for an int32 from 1 to 254."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.shl(args[0], _I32(23)), _FLOAT)

    return types.float32(types.int32), make


@intrinsic
def larger(typing: Any, first: Any, second: Any) -> Any:
    """Return the larger of two float32 values that are not NaN.

    LLVM does not vectorise loops that search for a maximum with ``max``, because numba emits no
    fast-math flags on its select instruction.
    """

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = args
        flags = ("nnan", "nsz")
        return builder.select(builder.fcmp_ordered(">", a, b, flags=flags), a, b, flags=flags)

    return types.float32(types.float32, types.float32), make


@intrinsic
def barrier(typing: Any, counter: Any, awaited: Any) -> Any:
    """Wait for the other threads: increment a counter, and wait until it reaches ``awaited``.

    ``counter``: the address of the counter.
    """

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
