"""The layout of quantised matrices that the kernels read, and the conversion of GGUF blocks to it.

A weight is ``scale * (code - offset)`` or ``scale * code ± minimum`` (minus in "K" types); its code
is the stored integer of 4 to 8 bits. Sixteen matrix rows form a group: a kernel computes sixteen
dot products at once, one per vector lane. A group is a sequence of records, from left to right
along the rows. A record covers 32 columns: the rows' scales and minima (float16), then a block of
codes. In "K" types, a record covers 256 columns in several blocks. After the scales and minima,
each block has the rows' factors for the scale and for the minimum (a byte each), then its codes.

The codes of four columns and sixteen rows, 64 codes in all, form a chunk. In a chunk, the code of
a row and a column has the index ``4 * row + column``. A block stores its chunks in vectors of 64
bytes. With codes of 8 bits, a vector is a chunk. With codes of 4 bits, a vector holds two chunks:
one in the lower halves of its bytes, the other in the upper halves. The lower 4 bits of codes of 5
or 6 bits are stored like codes of 4 bits. One more vector then contains the upper bits of all
chunks of the block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specviz.values import Value

LANES = 16  # matrix rows in a group
STEP = 4  # columns in a chunk
SHORT = 32  # columns that share one scale of the activations; widths are multiples of it
_LONG = 256  # columns in a record of a "K" type
_CHUNK = LANES * STEP  # codes
_UNPACKED_CODES = 1 << 20  # codes rearranged at once, with a byte for each


@dataclass(frozen=True, slots=True)
class _Parts:
    """The unpacked blocks of a matrix: ``codes`` uint8 [row, column], other fields [row, block]."""

    codes: np.ndarray
    scales: np.ndarray  # float16, one per record
    minima: np.ndarray | None = None
    scale_factors: np.ndarray | None = None  # uint8 or int8, one per block
    minimum_factors: np.ndarray | None = None


class PackedType(Value):
    """A quantised type of llama.cpp, and how the kernels store a matrix of this type."""

    name: str
    file_bytes: int  # of a record in a file
    unpack: Callable[[np.ndarray], _Parts]  # from uint8 [row, block, byte]
    bits: int
    offset: int = 0
    has_minimum: bool = False
    columns: int = SHORT  # that share a scale
    record_columns: int = SHORT

    @property
    def is_long(self) -> bool:
        """Return whether a record has several blocks, as in llama.cpp's "K" types."""
        return self.record_columns == _LONG

    @property
    def chunks(self) -> int:
        return self.columns // STEP

    @property
    def blocks(self) -> int:
        """Return the number of blocks in a record."""
        return self.record_columns // self.columns

    @property
    def head_bytes(self) -> int:
        """Return the size in bytes of a record's scales and minima, which precede its blocks."""
        return 2 * LANES * (1 + self.has_minimum)

    @property
    def factor_bytes(self) -> int:
        """Return the size in bytes of a block's factors, which precede its codes."""
        return LANES * (1 + self.has_minimum) if self.is_long else 0

    @property
    def block_bytes(self) -> int:
        return self.factor_bytes + LANES * self.columns * self.bits // 8

    @property
    def record_bytes(self) -> int:
        return self.head_bytes + self.blocks * self.block_bytes

    def group_bytes(self, width: int) -> int:
        return width // self.record_columns * self.record_bytes


def _nibbles(low: np.ndarray) -> np.ndarray:
    """Return the two 4-bit codes of each byte: all lower halves, then all upper halves."""
    return np.concatenate((low & 15, low >> 4), -1)


def _halves(raw: np.ndarray) -> np.ndarray:
    return raw.view(np.float16)[..., 0]


def _flat(codes: np.ndarray) -> np.ndarray:
    return codes.reshape(codes.shape[0], -1)


def _fifth_bits(raw: np.ndarray) -> np.ndarray:
    """Unpack the fifth bits of 32 codes from four bytes; a set bit becomes 16."""
    return np.unpackbits(raw, axis=-1, bitorder="little") << 4


def _unpack_q4_0(raw: np.ndarray) -> _Parts:
    return _Parts(_flat(_nibbles(raw[..., 2:])), _halves(raw[..., :2].copy()))


def _unpack_q4_1(raw: np.ndarray) -> _Parts:
    return _Parts(
        _flat(_nibbles(raw[..., 4:])),
        _halves(raw[..., :2].copy()),
        _halves(raw[..., 2:4].copy()),
    )


def _unpack_q5_0(raw: np.ndarray) -> _Parts:
    codes = _nibbles(raw[..., 6:]) | _fifth_bits(raw[..., 2:6])
    return _Parts(_flat(codes), _halves(raw[..., :2].copy()))


def _unpack_q5_1(raw: np.ndarray) -> _Parts:
    codes = _nibbles(raw[..., 8:]) | _fifth_bits(raw[..., 4:8])
    return _Parts(_flat(codes), _halves(raw[..., :2].copy()), _halves(raw[..., 2:4].copy()))


def _unpack_q8_0(raw: np.ndarray) -> _Parts:
    return _Parts(_flat(raw[..., 2:] ^ 128), _halves(raw[..., :2].copy()))


_IQ4_NL = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int16
)


def _unpack_iq4_nl(raw: np.ndarray) -> _Parts:
    codes = (_IQ4_NL + 128).astype(np.uint8)[_nibbles(raw[..., 2:])]
    return _Parts(_flat(codes), _halves(raw[..., :2].copy()))


def _six_bit_factors(raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eight scale factors and eight minimum factors of 6 bits from twelve bytes."""
    first, second, third = raw[..., :4], raw[..., 4:8], raw[..., 8:]
    scales = (first & 63, third & 15 | first >> 2 & 48)
    minima = (second & 63, third >> 4 | second >> 2 & 48)
    return np.concatenate(scales, -1), np.concatenate(minima, -1)


def _unpack_long(raw: np.ndarray, codes: np.ndarray) -> _Parts:
    scales, minima = _six_bit_factors(raw[..., 4:16])
    return _Parts(
        _flat(codes),
        _halves(raw[..., :2].copy()),
        _halves(raw[..., 2:4].copy()),
        _flat(scales),
        _flat(minima),
    )


def _unpack_q4_k(raw: np.ndarray) -> _Parts:
    return _unpack_long(raw, _nibbles(raw[..., 16:].reshape(*raw.shape[:2], 4, 32)))


def _unpack_q5_k(raw: np.ndarray) -> _Parts:
    low = _nibbles(raw[..., 48:].reshape(*raw.shape[:2], 4, 32)).reshape(*raw.shape[:2], 8, 32)
    high = raw[..., None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return _unpack_long(raw, low | high << 4)


def _unpack_q6_k(raw: np.ndarray) -> _Parts:
    low = _nibbles(raw[..., :128].reshape(*raw.shape[:2], 2, 64)).reshape(*raw.shape[:2], 2, 4, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    high = raw[..., 128:192].reshape(*raw.shape[:2], 2, 1, 32) >> shifts & 3
    return _Parts(
        _flat(low | high << 4),
        _halves(raw[..., 208:].copy()),
        scale_factors=_flat(raw[..., 192:208]).view(np.int8),
    )


PACKED_TYPES = {
    each.name: each
    for each in (
        PackedType(name="Q4_0", file_bytes=18, unpack=_unpack_q4_0, bits=4, offset=8),
        PackedType(name="Q4_1", file_bytes=20, unpack=_unpack_q4_1, bits=4, has_minimum=True),
        PackedType(name="Q5_0", file_bytes=22, unpack=_unpack_q5_0, bits=5, offset=16),
        PackedType(name="Q5_1", file_bytes=24, unpack=_unpack_q5_1, bits=5, has_minimum=True),
        PackedType(name="Q8_0", file_bytes=34, unpack=_unpack_q8_0, bits=8, offset=128),
        PackedType(name="IQ4_NL", file_bytes=18, unpack=_unpack_iq4_nl, bits=8, offset=128),
        PackedType(
            name="Q4_K", file_bytes=144, unpack=_unpack_q4_k, bits=4, has_minimum=True,
            record_columns=_LONG,
        ),
        PackedType(
            name="Q5_K", file_bytes=176, unpack=_unpack_q5_k, bits=5, has_minimum=True,
            record_columns=_LONG,
        ),
        PackedType(
            name="Q6_K", file_bytes=210, unpack=_unpack_q6_k, bits=6, offset=32, columns=16,
            record_columns=_LONG,
        ),
    )
}  # fmt: skip


def can_pack(name: str, rows: int, width: int) -> bool:
    """Return whether the kernels' layout supports a matrix of this type and size."""
    packed = PACKED_TYPES.get(name)
    return packed is not None and rows > 0 and width % packed.record_columns == 0


def packed_bytes(name: str, rows: int, width: int) -> int:
    """Return the size in bytes of a matrix in the kernels' layout."""
    return -(-rows // LANES) * PACKED_TYPES[name].group_bytes(width)


def pack(packed: PackedType, raw: np.ndarray, width: int) -> np.ndarray:
    """Convert a matrix from a GGUF file's layout, uint8 [row, byte], to the kernels' [group, byte].

    Missing rows of the last group are zero.

    Raises:
        ValueError: A scale or a minimum is NaN or infinite.
    """
    groups = -(-raw.shape[0] // LANES)
    result = np.empty((groups, packed.group_bytes(width)), np.uint8)
    at_once = max(1, _UNPACKED_CODES // (LANES * width))
    for first in range(0, groups, at_once):
        part = result[first : first + at_once]
        rows = raw[first * LANES : (first + at_once) * LANES]
        if missing := part.shape[0] * LANES - rows.shape[0]:
            rows = np.concatenate((rows, np.zeros((missing, raw.shape[1]), np.uint8)))
        _pack_groups(packed, rows, width, part)
    return result


def has_values(packed: PackedType, blocks: np.ndarray) -> bool:
    """Return whether any weight of a packed matrix may differ from zero."""
    heads = blocks.reshape(-1, packed.record_bytes)[:, : packed.head_bytes]
    return bool(np.ascontiguousarray(heads).view(np.float16).any())


def _pack_groups(packed: PackedType, raw: np.ndarray, width: int, out: np.ndarray) -> None:
    parts = packed.unpack(raw.reshape(raw.shape[0], -1, packed.file_bytes))
    for each in (parts.scales, parts.minima):
        if each is not None and not np.isfinite(each).all():
            raise ValueError("a scale is not finite")
    groups, records = out.shape[0], width // packed.record_columns
    blocks = packed.record_columns // packed.columns
    heads = [
        np.ascontiguousarray(each.reshape(groups, LANES, records).swapaxes(1, 2)).view(np.uint8)
        for each in (parts.scales, parts.minima)
        if each is not None
    ]
    body = [
        each.view(np.uint8).reshape(groups, LANES, records, blocks).transpose(0, 2, 3, 1)
        for each in (parts.scale_factors, parts.minimum_factors)
        if each is not None
    ]
    shape = (groups, LANES, records, blocks, packed.chunks, STEP)
    chunks = parts.codes.reshape(shape).transpose(0, 2, 3, 4, 1, 5)
    body.append(_vectors(packed, chunks.reshape(groups, records, blocks, packed.chunks, _CHUNK)))
    joined = np.concatenate(body, -1).reshape(groups, records, -1)
    out[:] = np.concatenate((*heads, joined), -1).reshape(groups, -1)


def _vectors(packed: PackedType, chunks: np.ndarray) -> np.ndarray:
    """Convert the codes of blocks, [..., chunk, code], to the bytes that store them."""
    if packed.bits == 8:
        return chunks.reshape(*chunks.shape[:-2], -1)
    low = chunks & 15
    vectors = [low[..., 0::2, :] | low[..., 1::2, :] << 4]
    if packed.bits > 4:
        shifts = ((packed.bits - 4) * np.arange(packed.chunks, dtype=np.uint8))[:, None]
        vectors.append(np.bitwise_or.reduce(chunks >> 4 << shifts, -2, keepdims=True))
    return np.concatenate(vectors, -2).reshape(*chunks.shape[:-2], -1)
