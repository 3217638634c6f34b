"""The stored tensors of a drafting head, taken one by one and checked."""

from __future__ import annotations

import errno
import pickle
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from specviz.errors import ModelFileError
from specviz.formats.heads import HeadFacts, is_pickle

_COPY_AGAIN = "Copy or download the head again."
_USE_SAFETENSORS = "Use a copy in safetensors format."
_PLAIN_NUMBERS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class HeadTensors:
    """A head's tensors by name; ``take`` removes one, and ``finish`` fails if any are left.

    Floating-point tensors get the dtype of ``like``; all tensors move to the device of ``like``.
    """

    def __init__(self, tensors: dict[str, torch.Tensor], folder: str, like: torch.Tensor) -> None:
        self._tensors = dict(tensors)
        self._folder = folder
        self._like = like

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return a tensor's shape; None if the head does not have the tensor."""
        return tuple(self._tensors[name].shape) if name in self._tensors else None

    def needed_shape(self, name: str) -> tuple[int, ...]:
        """Return a tensor's shape; raise ModelFileError if the tensor is missing or a scalar."""
        if not (found := self.shape(name)):
            what = "no tensor" if found is None else "a single number instead of the tensor"
            raise ModelFileError(f"{self._folder} has {what} {name}.", remedy=_COPY_AGAIN)
        return found

    def names(self) -> tuple[str, ...]:
        return tuple(self._tensors)

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """Remove and return a tensor.

        Raises:
            ModelFileError: The tensor is missing or has another shape.
        """
        if (stored := self.needed_shape(name)) != shape:
            raise ModelFileError(
                f"{name} of {self._folder} has the shape {_by(stored)} instead of {_by(shape)}.",
                remedy="Use a head whose config.json matches its weights.",
            )
        found = self._tensors.pop(name)
        return found.to(self._like) if found.is_floating_point() else found.to(self._like.device)

    def take_optional(self, name: str, *shape: int) -> torch.Tensor | None:
        """Remove and return a tensor; return None if the head does not have the tensor."""
        return self.take(name, *shape) if name in self else None

    def finish(self, harmless: Iterable[str] = ()) -> None:
        """Raise ModelFileError if tensors are left, except ``harmless`` ones.

        ``harmless``: names, or endings of names, of tensors that may be left.
        """
        endings = tuple(harmless)
        if left := sorted(name for name in self._tensors if not name.endswith(endings)):
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            raise ModelFileError(
                f"{self._folder} has unknown tensors: {left[0][:100]}{more}.",
                remedy="Use a head of a supported layout.",
            )


def read_head_tensors(facts: HeadFacts, like: torch.Tensor) -> tuple[HeadTensors, tuple[str, ...]]:
    """Read all tensors of a head's folder, and return them with notices.

    Raises:
        ModelFileError: A file is damaged or contains objects other than tensors, or a weight is
            quantised or not finite.
    """
    tensors: dict[str, torch.Tensor] = {}
    notices = []
    for file in facts.weights:
        if is_pickle(file):
            tensors |= _read_pickle(file)
            notices.append(f"{file.name} is a pickle file; only its tensors were read.")
        else:
            tensors |= _read_safetensors(file)
    for name, tensor in tensors.items():
        _check_numbers(name, tensor, facts.path.name)
    return HeadTensors(tensors, facts.path.name, like), tuple(notices)


def _read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except SafetensorError:
        raise _damaged(path) from None
    except OSError as error:
        raise ModelFileError.unreadable(path, error) from None


def _read_pickle(path: Path) -> dict[str, torch.Tensor]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        culprit = f"{path.name} contains more than tensors, and loading the file could run code."
        raise ModelFileError(culprit, remedy=_USE_SAFETENSORS) from None
    except (RuntimeError, EOFError, ValueError, KeyError):
        raise _damaged(path) from None
    except OSError as error:
        if error.errno == errno.EINVAL:  # a truncated file makes the reader seek before its start
            raise _damaged(path) from None
        raise ModelFileError.unreadable(path, error) from None
    named = isinstance(found, dict) and all(isinstance(name, str) for name in found)
    if not named or not all(isinstance(each, torch.Tensor) for each in found.values()):
        raise ModelFileError(
            f"{path.name} is not a table of named tensors.", remedy=_USE_SAFETENSORS
        )
    return found


def _check_numbers(name: str, tensor: torch.Tensor, folder: str) -> None:
    if tensor.is_floating_point() and tensor.dtype not in _PLAIN_NUMBERS:
        raise ModelFileError(
            f"{name} of {folder} is quantised ({tensor.dtype}).",
            remedy="Use a head in float32, float16 or bfloat16.",
        )
    if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
        raise ModelFileError(
            f"{name} of {folder} contains NaN or infinity.", remedy="Use another copy of the head."
        )


def _damaged(path: Path) -> ModelFileError:
    return ModelFileError(f"{path.name} is damaged.", remedy=_COPY_AGAIN)


def _by(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape)) or "()"
