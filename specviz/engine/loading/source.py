"""The common interface of models on disk, for all file formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from specviz.record.pairs import ProgressCallback

if TYPE_CHECKING:
    from specviz.engine.model.plain_llama import Config, Model


LOCAL = {"local_files_only": True, "trust_remote_code": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(ABC):
    """A model with its configuration; its weights may still have to be downloaded."""

    can_spread: ClassVar[bool] = True  # whether layers can be placed on several devices

    name: str  # as the user wrote it
    config: dict[str, Any]

    @property
    def family(self) -> str:
        return str(self.config["model_type"])

    @abstractmethod
    def bytes_to_fetch(self, on_progress: ProgressCallback) -> int:
        """Return how many bytes of weights must still be downloaded."""

    @abstractmethod
    def fetch_weights(self, on_progress: ProgressCallback) -> tuple[Path, ...]:
        """Download the weights if necessary, and return their files."""

    @abstractmethod
    def weight_files(self) -> tuple[Path, ...]:
        """Return the local files of the weights, after checking that no file is truncated."""

    @abstractmethod
    def identifying_files(self, weights: tuple[Path, ...]) -> tuple[Path, ...]:
        """Return the files that identify the model: if a file changes, so does the model.

        The result may include files that do not exist.
        """

    @abstractmethod
    def read_config(self) -> Config: ...

    @abstractmethod
    def read_tokenizer(self) -> Any: ...

    def read_model(
        self,
        config: Any,
        dtype: torch.dtype,
        report: Callable[[int, int], None],
        *,
        spread: bool,
        packed: bool = False,
    ) -> tuple[Model, list[str]]:
        """Read the weights; return the model and the names of missing weights.

        Args:
            report: Called with the bytes read so far and the total, if the format reports progress.
            spread: Whether to place the layers on several devices.
            packed: Whether to keep the weights quantised; requires ``can_stay_packed``.
        """
        if packed:
            return self._read_packed(config, report), []
        load = self._loader(config, dtype, report)
        loaded: Any = load(
            config=config,
            dtype=dtype,
            device_map="auto" if spread else None,
            output_loading_info=True,
        )
        model, info = loaded
        return model, sorted(info["missing_keys"])

    @abstractmethod
    def _loader(
        self, config: Any, dtype: torch.dtype, report: Callable[[int, int], None]
    ) -> Callable[..., Any]:
        """Return a function that loads the model.

        The function is called like transformers' ``from_pretrained``, but without the arguments
        that this file format determines, for example the folder.
        """

    def _read_packed(self, config: Any, report: Callable[[int, int], None]) -> Model:
        """Return the model with weights that stay quantised."""
        raise NotImplementedError

    def can_stay_packed(self, skeleton: Model) -> bool:
        """Return whether kernels can multiply with the weights in their stored, quantised form."""
        del skeleton
        return False

    def packed_bytes(self) -> int:
        """Return the bytes of memory that the weights need if they stay quantised."""
        raise NotImplementedError

    def notices(self, dtype: torch.dtype, *, packed: bool) -> tuple[str, ...]:
        """Return notices about loading this format, for example that weights are dequantised."""
        del dtype, packed
        return ()
