"""Numbered files of tensors in a folder. Even after a crash, a file is complete or missing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from specviz.errors import TrainingError


class NumberedFiles:
    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name

    def has(self, number: int) -> bool:
        return self.path(number).is_file()

    def path(self, number: int) -> Path:
        return self._folder / f"{self._name}-{number:05d}.safetensors"

    def write(self, number: int, tensors: Mapping[str, torch.Tensor]) -> None:
        write_tensors(self.path(number), tensors)

    def read(self, number: int) -> dict[str, torch.Tensor]:
        path = self.path(number)
        try:
            return load_file(path)
        except (OSError, SafetensorError) as error:
            raise _damaged(path) from error

    def open(self, number: int) -> OpenFile:
        return OpenFile(self.path(number))


class OpenFile:
    """An open file, from which rows can be read without loading the rest."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = safe_open(path, framework="pt")
        except (OSError, SafetensorError) as error:
            raise _damaged(path) from error

    def rows(self, name: str, begin: int, end: int) -> torch.Tensor:
        return self._file.get_slice(name)[begin:end]


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a file under another name, and rename it once it is complete.

    Raises:
        TrainingError: The disk is full, or the folder cannot be written.
    """
    partial = path.with_suffix(".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({name: each.contiguous() for name, each in tensors.items()}, partial)
        os.replace(partial, path)
    except (OSError, SafetensorError) as error:
        partial.unlink(missing_ok=True)
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise TrainingError(
            f"{path.name} cannot be written: {reason}.",
            remedy="Free some space, or choose another folder; complete files are kept.",
        ) from None


def _damaged(path: Path) -> TrainingError:
    return TrainingError(
        f"{path.name} is missing or damaged.", remedy="Delete it; the training creates it again."
    )
