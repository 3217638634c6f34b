"""Decoders of quantised blocks, value by value, from the definitions in ggml-quants.c."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

_IQ4_NL = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def _half(content: bytes) -> float:
    return struct.unpack("<e", content)[0]


def _scale_and_least(at: int, packed: Sequence[int]) -> tuple[int, int]:
    """Return the 6-bit scale and minimum of a sub-block of Q4_K or Q5_K."""
    if at < 4:
        return packed[at] & 63, packed[at + 4] & 63
    scale = packed[at + 4] & 15 | packed[at - 4] >> 6 << 4
    return scale, packed[at + 4] >> 4 | packed[at] >> 6 << 4


def _with_least(block: bytes, high: bytes, low: bytes) -> list[float]:
    """Return the values of a block whose sub-blocks of 32 have a scale and a minimum."""
    scale, least, packed = _half(block[:2]), _half(block[2:4]), block[4:16]
    values: list[float] = []
    for at in range(8):
        factor, offset = _scale_and_least(at, packed)
        for place in range(32):
            quant = low[32 * (at // 2) + place] >> 4 * (at % 2) & 15
            quant += 16 * (high[place] >> at & 1) if high else 0
            values.append(scale * factor * quant - least * offset)
    return values


def _q4_k(block: bytes) -> list[float]:
    return _with_least(block, b"", block[16:])


def _q5_k(block: bytes) -> list[float]:
    return _with_least(block, block[16:48], block[48:])


def _q6_k(block: bytes) -> list[float]:
    low, high, scales = block[:128], block[128:192], struct.unpack("16b", block[192:208])
    scale, values = _half(block[208:]), [0.0] * 256
    for half in range(2):
        for part in range(4):
            for place in range(32):
                quant = low[64 * half + 32 * (part % 2) + place] >> 4 * (part // 2) & 15
                quant |= (high[32 * half + place] >> 2 * part & 3) << 4
                factor = scales[8 * half + 2 * part + place // 16]
                values[128 * half + 32 * part + place] = scale * factor * (quant - 32)
    return values


def _iq4_nl(block: bytes) -> list[float]:
    scale, packed = _half(block[:2]), block[2:]
    quants = [*(each & 15 for each in packed), *(each >> 4 for each in packed)]
    return [scale * _IQ4_NL[each] for each in quants]


# For each type: the places of its half-precision scales, and its decoder.
DECODERS: dict[str, tuple[tuple[int, ...], Callable[[bytes], list[float]]]] = {
    "Q4_K": ((0, 2), _q4_k),
    "Q5_K": ((0, 2), _q5_k),
    "Q6_K": ((208,), _q6_k),
    "IQ4_NL": ((0,), _iq4_nl),
}
