"""Digests of a model's weights, by which a trace identifies its models.

The stamps of a model's files (size, modification time, inode) show cheaply whether the files have
changed since they were read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

Stamps: TypeAlias = dict[Path, tuple[int, int, int] | None]

CHUNK = 1 << 20
WHOLE_LIMIT = 256 * CHUNK
SAMPLED_CHUNKS = 64
SAMPLED_MARK = "sampled:"


def weights_sha256(
    files: Iterable[Path], *, whole_limit: int = WHOLE_LIMIT, packed: str = ""
) -> str:
    """Return the SHA-256 over the files' names, sizes and contents, sorted by name.

    In a file larger than ``whole_limit`` bytes, only evenly spaced chunks are hashed, including the
    first and the last. The digest then begins with ``sampled:``.

    Args:
        packed: The form in which quantised weights are used, or "". The form is hashed, too,
            because it changes the model's output.
    """
    digest = hashlib.sha256()
    sampled = False
    for file in sorted(files, key=lambda file: file.name):
        size = file.stat().st_size
        digest.update(f"{file.name}\0{size}\0".encode())
        large = size > whole_limit
        sampled = sampled or large
        for piece in _samples(file, size) if large else _whole(file):
            digest.update(piece)
    if packed:
        digest.update(f"packed {packed}".encode())
    return (SAMPLED_MARK if sampled else "") + digest.hexdigest()


def stamps_of(files: Iterable[Path]) -> Stamps:
    """Return size, modification time and inode of each file; None for a missing file."""
    stamps: Stamps = dict.fromkeys(files)
    for file in stamps:
        with suppress(OSError):
            found = file.stat()
            stamps[file] = found.st_size, found.st_mtime_ns, found.st_ino
    return stamps


def _whole(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while piece := stream.read(CHUNK):
            yield piece


def _samples(file: Path, size: int) -> Iterator[bytes]:
    last = max(0, size - CHUNK)
    with file.open("rb") as stream:
        for index in range(SAMPLED_CHUNKS):
            stream.seek(last * index // (SAMPLED_CHUNKS - 1))
            yield stream.read(CHUNK)
