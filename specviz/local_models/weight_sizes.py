"""The size of a model's weights on this machine, from the sizes of its files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from specviz.errors import ModelFileError
from specviz.formats.gguf_parts import part_paths
from specviz.formats.ollama import PREFIX, find_ollama
from specviz.local_models.origins import hub_folder

_WEIGHTS = (".safetensors", ".gguf")


def cached_snapshots(hub_id: str) -> tuple[Path, ...]:
    """Return the folders of a Hub model in the cache; empty if it was never downloaded."""
    folder = hub_folder() / f"models--{hub_id.replace('/', '--')}" / "snapshots"
    try:
        return tuple(sorted(each for each in folder.iterdir() if each.is_dir()))
    except (OSError, ValueError):  # ValueError: a null character in the id
        return ()


def weights_bytes(place: str) -> int:
    """Return the bytes of a model's weights on this machine; 0 if there are none.

    ``place`` is a path, an Ollama name or a Hub id. Of several snapshots of a Hub model, the
    largest snapshot counts.
    """
    try:
        if place.startswith(PREFIX):
            return find_ollama(place).stat().st_size
        path = Path(place).expanduser()
        if path.is_file():
            return sum(each.stat().st_size for each in part_paths(path) if each.is_file())
        if path.is_dir():
            return _bytes_in(path)
    except (OSError, ValueError, RuntimeError, ModelFileError):
        return 0
    return max(map(_bytes_in, cached_snapshots(place)), default=0)


def _bytes_in(folder: Path) -> int:
    return sum(each.stat().st_size for each in _weights_in(folder))


def _weights_in(folder: Path) -> Iterator[Path]:
    try:
        for each in folder.iterdir():
            if each.suffix.lower() in _WEIGHTS and each.is_file():
                yield each
    except OSError:
        return
