"""The header of a safetensors file: the type and the shape of every tensor."""

from __future__ import annotations

import json
import math
from pathlib import Path

from specviz.errors import ModelFileError
from specviz.values import Value

_MAX_HEADER = 100 << 20  # bytes, the limit of the format
_COPY_AGAIN = "Copy or download the file again."


class TensorEntry(Value):
    kind: str  # such as "BF16"
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


def read_tensors(path: Path) -> dict[str, TensorEntry]:
    """Return the type and shape of each tensor by name; read only the header.

    Raises:
        ModelFileError: The file cannot be read, is truncated, or is not a safetensors file.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(_MAX_HEADER, size - 8):
                raise _damaged(path)
            record = json.loads(file.read(length))
    except OSError as error:
        raise ModelFileError.unreadable(path, error) from None
    except (ValueError, RecursionError):
        raise _damaged(path) from None
    try:
        entries = {
            name: TensorEntry(kind=str(each["dtype"]), shape=tuple(map(int, each["shape"])))
            for name, each in record.items()
            if name != "__metadata__"
        }
        ends = [int(each["data_offsets"][1]) for name, each in record.items() if name in entries]
    except (AttributeError, KeyError, TypeError, ValueError, IndexError):
        raise _damaged(path) from None
    if max(ends, default=0) + 8 + length > size:
        raise ModelFileError(f"{path.name} is truncated.", remedy=_COPY_AGAIN)
    return entries


def _damaged(path: Path) -> ModelFileError:
    return ModelFileError(f"{path.name} is not a complete safetensors file.", remedy=_COPY_AGAIN)
