"""Quantise matrices to the types of GGUF files.

The gguf package quantises to the simple types only. For the other types, this module computes a
block's scale from its smallest and largest value. llama.cpp searches for better scales, so its
files are a little closer to the original weights. The size and the speed of the files are equal.
"""

from __future__ import annotations

from collections.abc import Callable

import gguf
import numpy as np

_IQ4_NL = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32
)
_LONG = 256  # columns in a block of a "K" type
# As in llama.cpp, matrices whose width is not a multiple of 256 get a simple type instead.
_NARROW = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}


def stored_type(kind: str, width: int) -> str | None:
    """Return the type in which a file of type ``kind`` stores a matrix of this width.

    The type is ``kind`` or a replacement; None if the width fits neither.
    """
    if width % _LONG and kind in _NARROW:
        kind = _NARROW[kind]
    columns, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    return None if width % columns else kind


def quantise_rows(values: np.ndarray, kind: str) -> np.ndarray:
    """Quantise float32 [row, column] to the blocks of a GGUF type, uint8 [row, byte]."""
    if kind not in _OWN:
        return gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind])
    columns, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = values.astype(np.float32).reshape(-1, columns)
    return _OWN[kind](blocks).reshape(values.shape[0], -1)


def _q4_k(blocks: np.ndarray) -> np.ndarray:
    heads, codes = _with_minima(blocks, 15)
    return np.concatenate((heads, _nibble_pairs(codes)), -1)


def _q5_k(blocks: np.ndarray) -> np.ndarray:
    heads, codes = _with_minima(blocks, 31)
    places = np.arange(8, dtype=np.uint8)[:, None]
    high = np.bitwise_or.reduce(codes >> 4 << places, 1)
    return np.concatenate((heads, high, _nibble_pairs(codes & 15)), -1)


def _q6_k(blocks: np.ndarray) -> np.ndarray:
    parts = blocks.reshape(-1, 16, 16)
    scales = np.abs(parts).max(-1) / 31
    scale = _half(scales.max(-1, keepdims=True) / 127)
    factors = np.rint(_divided(scales, scale)).clip(0, 127)
    codes = np.rint(_divided(parts, (scale * factors)[..., None])).clip(-32, 31) + 32
    lines = codes.astype(np.uint8).reshape(-1, 2, 4, 32)  # half, quarter of the half, column
    low = lines[:, :, :2] & 15 | (lines[:, :, 2:] & 15) << 4
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    high = np.bitwise_or.reduce(lines >> 4 << shifts, 2)
    count = len(blocks)
    return np.concatenate(
        (low.reshape(count, -1), high.reshape(count, -1), factors.astype(np.uint8), _bytes(scale)),
        -1,
    )


def _iq4_nl(blocks: np.ndarray) -> np.ndarray:
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1, keepdims=True), -1)
    scale = _half(largest / _IQ4_NL[0])
    between = (_IQ4_NL[1:] + _IQ4_NL[:-1]) / 2
    codes = np.searchsorted(between, _divided(blocks, scale)).astype(np.uint8)
    return np.concatenate((_bytes(scale), codes[:, :16] | codes[:, 16:] << 4), -1)


_OWN: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k, "IQ4_NL": _iq4_nl,
}  # fmt: skip


def _with_minima(blocks: np.ndarray, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first 16 bytes of blocks of Q4_K or Q5_K, and their codes [block, part, column].

    A weight is ``scale * factor * code - minimum * factor``; both factors have 6 bits.
    """
    parts = blocks.reshape(-1, 8, 32)
    minima = np.maximum(-parts.min(-1), 0)
    scales = (parts.max(-1) + minima).clip(0) / levels
    scale, minimum = (_half(each.max(-1, keepdims=True) / 63) for each in (scales, minima))
    factors, lowest = (
        np.rint(_divided(each, unit)).clip(0, 63)
        for each, unit in ((scales, scale), (minima, minimum))
    )
    shifted = parts + (minimum * lowest)[..., None]
    codes = np.rint(_divided(shifted, (scale * factors)[..., None])).clip(0, levels)
    heads = (_bytes(scale), _bytes(minimum), _six_bits(factors, lowest))
    return np.concatenate(heads, -1), codes.astype(np.uint8)


def _six_bits(factors: np.ndarray, lowest: np.ndarray) -> np.ndarray:
    """Pack eight scale factors and eight minimum factors, each of 6 bits, into twelve bytes."""
    first, second = factors.astype(np.uint8), lowest.astype(np.uint8)
    rest = first[:, 4:] & 15 | (second[:, 4:] & 15) << 4
    joined = (each[:, :4] | each[:, 4:] >> 4 << 6 for each in (first, second))
    return np.concatenate((*joined, rest), -1)


def _nibble_pairs(codes: np.ndarray) -> np.ndarray:
    pairs = codes.reshape(-1, 4, 2, 32)
    return (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(len(codes), -1)


def _half(values: np.ndarray) -> np.ndarray:
    """Round to half precision, in which a file stores scales."""
    return values.astype(np.float16).astype(np.float32)


def _bytes(scales: np.ndarray) -> np.ndarray:
    return scales.astype(np.float16).view(np.uint8)


def _divided(values: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return the quotient; 0 where the divisor is 0."""
    return np.divide(values, units, out=np.zeros_like(values), where=units != 0)
