"""The header of a GGUF file: its metadata and the position of every tensor.

The file is not trusted: counts, lengths and offsets are compared with the file's size before
anything is allocated. Long arrays (the vocabulary) are read only by ``read_array``.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md describes the format.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from specviz.errors import ModelFileError
from specviz.values import Value

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_KEYS, _MAX_TENSORS, _MAX_DIMENSIONS = 1 << 16, 1 << 17, 4
_MAX_HEADER = 1 << 29  # bytes
_MAX_NAME, _SHORT_ARRAY = 1 << 12, 1 << 12  # bytes of a name; elements of an array read at once
_MAX_TEXTS = 1 << 21  # in all arrays; large vocabularies have 2**18 tokens and twice the merges
_ALIGNMENT, _ALIGNMENT_KEY = 32, "general.alignment"
_STRING, _ARRAY = 8, 9
_NUMBERS: dict[int, str] = dict(
    zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True)
)
_LEAST_KEY, _LEAST_TENSOR = 13, 32  # smallest entries, in bytes
_NEXT_KEY = b"\0\0\0\0\0\0\0tokenizer."  # a tokenizer key, after the lowest byte of its length
_COPY_AGAIN = "Copy or download the file again."

# Name, elements and bytes of a block for each tensor type, as in ggml.h.
BLOCKS: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2),
    26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
}  # fmt: skip


class LongArray(Value):
    """A long array whose elements ``read_header`` left in the file; ``read_array`` reads them."""

    kind: int  # of its elements
    count: int
    start: int  # of its first element


Setting = int | float | bool | str | list[int] | list[float] | list[bool] | list[str] | LongArray


class GgufTensor(Value):
    """A tensor's shape, type and position in the file. Its rows have ``shape[-1]`` elements."""

    name: str
    shape: tuple[int, ...]
    kind: str
    start: int
    size: int  # bytes

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


class GgufHeader(Value):
    path: Path
    values: dict[str, Setting]
    tensors: tuple[GgufTensor, ...]
    file_bytes: int

    @property
    def architecture(self) -> str:
        return self.text("general.architecture")

    def text(self, key: str) -> str:
        """Return a text value; empty if the key is missing or has another type."""
        value = self.values.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int | float | None:
        value = self.values.get(key)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def of_model(self, key: str) -> Setting | None:
        """Return a setting of the model's architecture; None if it is missing.

        For the architecture ``llama``, the key "context_length" means ``llama.context_length``.
        """
        return self.values.get(f"{self.architecture}.{key}")

    def count(self, key: str) -> int:
        """Return the number of elements of an array; 0 if the array is missing."""
        value = self.values.get(key)
        if isinstance(value, LongArray):
            return value.count
        return len(value) if isinstance(value, list) else 0

    def strings(self, key: str) -> list[str]:
        """Return an array of strings, empty if missing; long arrays are read from the file."""
        return [each for each in self._elements(key) if isinstance(each, str)]

    def numbers(self, key: str) -> list[float]:
        """Return an array of numbers, empty if missing; long arrays are read from the file."""
        return [each for each in self._elements(key) if isinstance(each, int | float)]

    def _elements(self, key: str) -> list[int] | list[float] | list[bool] | list[str]:
        value = self.values.get(key)
        if isinstance(value, LongArray):
            return read_array(self.path, value)
        return value if isinstance(value, list) else []


def read_header(path: Path) -> GgufHeader:
    """Return a file's header, without the elements of long arrays.

    Raises:
        ModelFileError: The file is not a GGUF file, is damaged, or has an unsupported version.
    """
    try:
        with path.open("rb") as file:
            return _read(path, file)
    except OSError as error:
        raise ModelFileError.unreadable(path, error) from None


def read_array(path: Path, array: LongArray) -> list[int] | list[float] | list[bool] | list[str]:
    """Return the elements of a long array, which ``read_header`` did not read."""
    with path.open("rb") as file:
        cursor = _Cursor(path.name, file)
        cursor.at = array.start
        if array.kind == _STRING:
            return cursor.strings(array.count)
        return cursor.numbers(array.kind, array.count)


def _read(path: Path, file: BinaryIO) -> GgufHeader:
    cursor = _Cursor(path.name, file)
    if cursor.take(4) != MAGIC:
        raise ModelFileError(
            f"{path.name} is not a GGUF file.", remedy="Choose a GGUF file or a model folder."
        )
    version = cursor.integer("I")
    if version not in _VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS
        what = "is a big-endian GGUF file" if swapped else f"has GGUF version {version}"
        raise ModelFileError(
            f"{path.name} {what}, which is not supported.",
            remedy="Convert the model again with a current llama.cpp.",
        )
    tensors, keys = cursor.integer("Q"), cursor.integer("Q")
    cursor.require_count(keys, _LEAST_KEY, _MAX_KEYS, "metadata keys")
    cursor.require_count(tensors, _LEAST_TENSOR, _MAX_TENSORS, "tensors")
    body = cursor.at
    try:
        values, places = cursor.read_body(keys, tensors, jump=True)
    except ModelFileError:
        if not cursor.jumped:
            raise
        # A token in the vocabulary looked like a metadata key.
        cursor.at, cursor.texts = body, 0
        values, places = cursor.read_body(keys, tensors, jump=False)
    return GgufHeader(path=path, values=values, tensors=places, file_bytes=cursor.size)


class _Cursor:
    """Reads values one after another, from a buffer that grows as needed."""

    _CHUNK = 1 << 20

    def __init__(self, name: str, file: BinaryIO) -> None:
        self.name = name
        self.file = file
        self.size = file.seek(0, 2)
        self.buffer, self.offset = b"", 0  # part of the file, and its offset
        self.at = 0
        self.texts = 0  # in the arrays so far
        self.jumped = False  # whether the end of an array was guessed

    def _damaged(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self.name} is damaged: {what}.", remedy=_COPY_AGAIN)

    def require_count(self, count: int, least_bytes: int, most: int, what: str) -> None:
        if count * least_bytes > self.size - self.at or count > most:
            raise self._damaged(f"its header claims to describe {count:,} {what}")

    def take(self, length: int) -> bytes:
        """Return the next ``length`` bytes."""
        start = self.at - self.offset
        if start < 0 or start + length > len(self.buffer):
            self._fill(length)
            start = self.at - self.offset
        self.at += length
        return self.buffer[start : start + length]

    def _fill(self, length: int) -> None:
        if length > self.size - self.at:
            raise ModelFileError(f"{self.name} is truncated.", remedy=_COPY_AGAIN)
        if self.at > _MAX_HEADER:
            raise self._damaged("its header is too long")
        self.file.seek(self.at)
        self.buffer, self.offset = self.file.read(max(length, self._CHUNK)), self.at
        if len(self.buffer) < length:
            raise ModelFileError(f"{self.name} is truncated.", remedy=_COPY_AGAIN)

    def integer(self, form: str) -> int:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(form)))[0]

    def string(self, most: int = 1 << 26) -> str:
        return self._text(most).decode("utf-8", "replace")

    def _text(self, most: int = 1 << 26) -> bytes:
        length = self.integer("Q")
        if length > self.size - self.at:
            raise self._damaged(f"it claims to contain a text of {length:,} bytes")
        if length > most:
            raise self._damaged("a name in its header is too long")
        return self.take(length)

    def strings(self, count: int) -> list[str]:
        return [each.decode("utf-8", "replace") for each in self._texts(count)]

    def _texts(self, count: int) -> Iterator[bytes]:
        """Yield the next ``count`` strings as bytes; the file is read in large pieces for speed."""
        length_of, block, left = struct.Struct("<Q").unpack_from, 1 << 20, count
        while left:
            window = min(self.size - self.at, block)
            content, at = self.take(window), 0
            self.at -= window
            while left and at + 8 <= window:
                end = at + 8 + length_of(content, at)[0]
                if end > window:
                    break
                yield content[at + 8 : end]
                at, left = end, left - 1
            self.at += at
            if at == 0:  # a text longer than a block, or a damaged one
                yield self._text()
                left -= 1

    def numbers(self, kind: int, count: int) -> list[int] | list[float] | list[bool]:
        form = _NUMBERS[kind]
        return list(struct.unpack(f"<{count}{form}", self.take(count * struct.calcsize(form))))

    def read_body(
        self, keys: int, tensors: int, *, jump: bool
    ) -> tuple[dict[str, Setting], tuple[GgufTensor, ...]]:
        """Return the metadata and the list of tensors.

        Args:
            jump: Whether to skip a long array of strings by searching for the next key. This is a
                hundred times faster than reading the length of every string.
        """
        values: dict[str, Setting] = {}
        for _ in range(keys):
            key = self.string(_MAX_NAME)
            values[key] = self._value(self.integer("I"), jump=jump)
        found = [self._tensor() for _ in range(tensors)]
        alignment = values.get(_ALIGNMENT_KEY, _ALIGNMENT)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
            raise self._damaged("its alignment is invalid")
        data = -(-self.at // alignment) * alignment
        return values, tuple(self._placed(found, data))

    def _value(self, kind: int, *, jump: bool) -> Setting:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self._array(jump=jump)
        if kind not in _NUMBERS:
            raise self._damaged(f"it has a value of the unknown type {kind}")
        return self.numbers(kind, 1)[0]

    def _array(self, *, jump: bool) -> Setting:
        kind, count = self.integer("I"), self.integer("Q")
        least = 8 if kind == _STRING else struct.calcsize(_NUMBERS.get(kind, "B"))
        if kind != _STRING and kind not in _NUMBERS:
            raise self._damaged(f"it has an array of the unknown type {kind}")
        self.require_count(count, least, _MAX_HEADER, "elements of an array")
        if kind == _STRING:
            self.texts += count
            self.require_count(self.texts, 0, _MAX_TEXTS, "texts in arrays")
        start = self.at
        if kind == _STRING and count <= _SHORT_ARRAY:
            return [self.string() for _ in range(count)]
        if kind != _STRING and count <= _SHORT_ARRAY:
            return self.numbers(kind, count)
        if kind != _STRING:
            self.at += count * least
        elif not (jump and self._jump_to_next_key(count)):
            for _ in self._texts(count):
                pass
        return LongArray(kind=kind, count=count, start=start)

    def _jump_to_next_key(self, count: int) -> bool:
        """Skip an array of ``count`` strings by searching the file for the next tokenizer key.

        Return False if no such key is nearby.
        """
        start, least = self.at, self.at + 8 * count
        window = min(self.size - start, 48 * count + (1 << 16))
        content = self.take(window)
        self.at = start
        found = content.find(_NEXT_KEY, max(0, least - start - 1))
        if found < 1:
            return False
        self.at = start + found - 1
        self.jumped = True
        return True

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name, dimensions = self.string(_MAX_NAME), self.integer("I")
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            raise self._damaged(f"its tensor {name[:60]!r} has {dimensions} dimensions")
        shape = struct.unpack(f"<{dimensions}Q", self.take(8 * dimensions))
        kind, offset = struct.unpack("<IQ", self.take(12))
        return name, tuple(reversed(shape)), kind, offset

    def _placed(
        self, found: list[tuple[str, tuple[int, ...], int, int]], data: int
    ) -> Iterator[GgufTensor]:
        """Yield the tensors with their sizes; raise ModelFileError if they overlap or are cut off.

        Args:
            found: Name, shape, type and offset of each tensor.
            data: Position in the file from which the offsets count.
        """
        tensors = [self._sized(*each, data) for each in found]
        end = data
        for tensor in sorted(tensors, key=lambda each: each.start):
            if tensor.start < end:
                raise self._damaged(f"its tensor {tensor.name[:60]!r} overlaps another one")
            end = tensor.start + tensor.size
            if end > self.size:
                missing = end - self.size
                raise ModelFileError(
                    f"{self.name} is truncated: the tensor {tensor.name[:60]!r} ends {missing:,} "
                    "bytes after the end of the file.",
                    remedy=_COPY_AGAIN,
                )
        yield from tensors

    def _sized(
        self, name: str, shape: tuple[int, ...], kind: int, offset: int, data: int
    ) -> GgufTensor:
        if kind not in BLOCKS:
            raise ModelFileError(
                f"{self.name} has tensors of the unknown type {kind}.",
                remedy="Choose a file with another quantization.",
            )
        word, elements, size = BLOCKS[kind]
        if shape[-1] % elements or 0 in shape:
            raise self._damaged(f"the shape {shape} of {name[:60]!r} does not fit its type {word}")
        size_of_all = math.prod(shape) // elements * size
        return GgufTensor(name=name, shape=shape, kind=word, start=data + offset, size=size_of_all)
