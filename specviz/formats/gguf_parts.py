"""The parts of a split GGUF file, and the number and type of their parameters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from specviz.errors import ModelFileError
from specviz.formats.gguf_header import GgufHeader, read_header

PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")


def part_paths(path: Path) -> tuple[Path, ...]:
    """Return the paths of all parts of a split file; for any other file, return only ``path``."""
    found = PART.fullmatch(path.name)
    if found is None:
        return (path,)
    name, _, count = found.groups()
    numbers = range(1, int(count) + 1)
    return tuple(path.with_name(f"{name}-{number:05}-of-{count}.gguf") for number in numbers)


def read_parts(path: Path) -> tuple[GgufHeader, ...]:
    """Return the header of a file, or the headers of all parts of a split file.

    Raises:
        ModelFileError: A part is missing or damaged.
    """
    paths = part_paths(path)
    if missing := [each.name for each in paths if not each.is_file()]:
        raise ModelFileError(
            f"This GGUF file has {len(paths)} parts, but {missing[0]} is missing.",
            remedy="Copy or download the missing part.",
        )
    headers = tuple(read_header(each) for each in paths)
    parts = headers[0].number("split.count") or 1
    if parts != len(headers):
        raise ModelFileError(
            f"{path.name} is one of {parts:.0f} parts; the others are not in its folder.",
            remedy="Put all parts into one folder, under their original names.",
        )
    return headers


def parameters_of(headers: Sequence[GgufHeader]) -> int:
    return sum(
        tensor.elements
        for header in headers
        for tensor in header.tensors
        if not tensor.name.startswith("rope_f")
    )


def quantization_of(headers: Sequence[GgufHeader]) -> str:
    """Return the most frequent type of the weights in matrices, such as "Q4_1"."""
    counts: Counter[str] = Counter()
    for header in headers:
        for tensor in header.tensors:
            if len(tensor.shape) > 1:
                counts[tensor.kind] += tensor.elements
    return counts.most_common(1)[0][0] if counts else "unknown"
