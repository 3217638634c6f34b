"""Search folders for models: GGUF files, and folders with a configuration and safetensors.

A search visits each folder once, even if several links lead to it. It stops at a maximum depth and
number of entries, reports the folders that it cannot open, and opens no model file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from specviz.errors import ModelFileError
from specviz.formats.gguf_parts import PART
from specviz.formats.model_folder import CONFIG
from specviz.formats.ollama import PREFIX, find_ollama, model_file, ollama_models
from specviz.local_models.local_model import Skipped
from specviz.local_models.origins import Origin, known_origins
from specviz.values import Value

_DEEPEST, _MOST_ENTRIES = 8, 30_000
_WEIGHTS = (".safetensors", ".bin")


class Candidate(Value):
    """A file or folder that may be a model. ``path`` is a GGUF file or a folder."""

    name: str
    place: str
    origin: str
    path: Path


@dataclass(slots=True)
class _Walk:
    """The state of one search in a folder and its subfolders."""

    origin: Origin
    skipped: list[Skipped] = field(default_factory=list)
    _seen: set[tuple[int, int]] = field(default_factory=set)
    _entries: int = 0

    def models(self, folder: Path, depth: int = 0) -> Iterator[Candidate]:
        """Yield the files and folders that may be models, in a folder and its subfolders."""
        entries = self._listed(folder)
        if entries is None:
            return
        names = {entry.name for entry in entries}
        if CONFIG in names and any(name.endswith(_WEIGHTS) for name in names):
            yield Candidate(
                name=folder.name, place=str(folder), origin=self.origin.name, path=folder
            )
        for entry in entries:
            if entry.name.lower().endswith(".gguf"):
                yield from self._gguf(folder, entry.name, names)
        if depth == _DEEPEST:
            return
        for entry in entries:
            if not entry.name.startswith(".") and _is_folder(entry):
                yield from self.models(Path(entry.path), depth + 1)

    def _listed(self, folder: Path) -> list[os.DirEntry[str]] | None:
        try:
            found = folder.stat()
            if (found.st_dev, found.st_ino) in self._seen or self._entries > _MOST_ENTRIES:
                return None
            self._seen.add((found.st_dev, found.st_ino))
            with os.scandir(folder) as listed:
                entries = sorted(listed, key=lambda each: each.name)
        except OSError as error:
            self.skip(folder.name, error.strerror or "cannot be opened")
            return None
        self._entries += len(entries)
        if self._entries > _MOST_ENTRIES:
            self.skip(folder.name, f"more than {_MOST_ENTRIES:,} files; the rest is not searched")
        return entries

    def _gguf(self, folder: Path, name: str, names: set[str]) -> Iterator[Candidate]:
        part = PART.fullmatch(name)
        if part is not None and int(part[2]) != 1:
            if f"{part[1]}-00001-of-{part[3]}.gguf" not in names:
                self.skip(name, "the first part of this split file is missing")
            return
        title = part[1] if part else name[: -len(".gguf")]
        path = folder / name
        yield Candidate(name=title, place=str(path), origin=self.origin.name, path=path)

    def skip(self, name: str, reason: str) -> None:
        self.skipped.append(Skipped(name=name, origin=self.origin.name, reason=reason))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def search(origin: Origin) -> tuple[list[Candidate], list[Skipped]]:
    """Return the possible models in a program's folder, and what was skipped and why."""
    walk = _Walk(origin)
    if origin.layout == "hub":
        found = list(_hub_models(walk))
    elif origin.layout == "ollama":
        found = list(_ollama_models(walk))
    else:
        found = list(walk.models(origin.folder))
    return found, walk.skipped


def path_at(place: str) -> Path | None:
    """Return the GGUF file or folder of a ``--target`` value; None if not on this machine.

    The folder of a Hub model may lack the weights.

    Raises:
        ModelFileError: The file of an Ollama model cannot be found.
        OSError: The path cannot be read.
    """
    if place.startswith(PREFIX):
        return find_ollama(place)
    path = os.path.expanduser(place)
    return Path(path) if os.path.exists(path) else hub_snapshot(place)


def hub_snapshot(hub_id: str) -> Path | None:
    """Return a model's folder in the Hub cache; None if not cached. It may lack the weights."""
    name = f"models--{hub_id.replace('/', '--')}"
    folders = [each.folder / name for each in known_origins() if each.layout == "hub"]
    return next((found for each in folders if (found := _snapshot(each)) is not None), None)


def _hub_models(walk: _Walk) -> Iterator[Candidate]:
    """Yield the models in the Hub cache; ``_snapshot`` chooses the snapshot of each model."""
    for folder in sorted(walk.origin.folder.glob("models--*")):
        name = folder.name.removeprefix("models--").replace("--", "/")
        snapshot = _snapshot(folder)
        found = list(walk.models(snapshot)) if snapshot is not None else []
        if snapshot is None or not found:
            walk.skip(name, "incomplete model: neither config.json with weights nor a GGUF file")
            continue
        for each in found:
            if each.path == snapshot:
                yield Candidate(name=name, place=name, origin=each.origin, path=snapshot)
            else:
                title = f"{name.partition('/')[0]}/{each.name}"
                yield Candidate(name=title, place=each.place, origin=each.origin, path=each.path)


def _snapshot(folder: Path) -> Path | None:
    """Return the snapshot of the branch ``main``; if there is none, the newest snapshot."""
    snapshots, main = folder / "snapshots", folder / "refs" / "main"
    with contextlib.suppress(OSError, ValueError):
        commit = main.read_text(encoding="ascii").strip()[:64]
        if commit and (snapshots / commit).is_dir():
            return snapshots / commit
    with contextlib.suppress(OSError, ValueError):
        folders = [each for each in snapshots.iterdir() if each.is_dir()]
        return max(folders, key=lambda each: each.stat().st_mtime, default=None)
    return None


def _ollama_models(walk: _Walk) -> Iterator[Candidate]:
    folder, origin = walk.origin.folder, walk.origin.name
    for name, manifest in ollama_models(folder):
        try:
            path = model_file(folder, manifest)
        except ModelFileError as error:
            walk.skip(name, error.culprit)
            continue
        yield Candidate(name=name, place=f"{PREFIX}{name}", origin=origin, path=path)
