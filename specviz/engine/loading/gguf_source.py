"""A model in a GGUF file, as llama.cpp, LM Studio and Ollama store it.

On a CPU, weights stay quantised where kernels can multiply with them; other weights are
dequantised.

The path of a split file is the path of its first part, ``NAME-00001-of-00003.gguf``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoConfig, PreTrainedConfig

from specviz.engine.loading.gguf_config import config_of
from specviz.engine.loading.gguf_tokenizer import read_tokenizer
from specviz.engine.loading.gguf_weights import read_tensor, read_weights, stays_packed
from specviz.engine.loading.model_config import check_config
from specviz.engine.loading.source import Source
from specviz.engine.model.growing import skeleton_of
from specviz.engine.model.lean_weights import is_supported
from specviz.engine.model.packed_weights import can_join, packed_model
from specviz.engine.model.tensors import type_name
from specviz.errors import PairError
from specviz.formats.gguf_header import GgufHeader, GgufTensor
from specviz.formats.gguf_parts import quantization_of, read_parts
from specviz.formats.gguf_support import refusal_of
from specviz.kernels.packed_types import packed_bytes
from specviz.record.numbers import SIZE, times
from specviz.record.pairs import ProgressCallback

if TYPE_CHECKING:
    from specviz.engine.model.plain_llama import Model

_ROPE_FACTORS = "rope_freqs.weight"
_OUTER = ("token_embd.weight", "output.weight")
_SMALL = 0.01  # dequantising less than this share of a file's bytes gives no notice


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufSource(Source):
    """A model in a GGUF file: the header of the file, or the headers of all its parts."""

    headers: tuple[GgufHeader, ...]

    def bytes_to_fetch(self, on_progress: ProgressCallback) -> int:
        del on_progress
        return 0

    def fetch_weights(self, on_progress: ProgressCallback) -> tuple[Path, ...]:
        del on_progress
        return self.weight_files()

    def weight_files(self) -> tuple[Path, ...]:
        return tuple(each.path for each in self.headers)

    def identifying_files(self, weights: tuple[Path, ...]) -> tuple[Path, ...]:
        return weights

    def read_config(self) -> PreTrainedConfig:
        settings = dict(self.config)
        return AutoConfig.for_model(settings.pop("model_type"), **settings)

    def read_tokenizer(self) -> Any:
        return read_tokenizer(self.headers[0])

    def _loader(
        self, config: Any, dtype: torch.dtype, report: Callable[[int, int], None]
    ) -> Callable[..., Any]:
        skeleton = skeleton_of(config)
        weights = read_weights(self.headers, skeleton, dtype, report)
        return partial(type(skeleton).from_pretrained, None, state_dict=weights)

    def _read_packed(self, config: Any, report: Callable[[int, int], None]) -> Model:
        skeleton = skeleton_of(config)
        weights = read_weights(self.headers, skeleton, torch.float32, report, packed=True)
        return packed_model(skeleton, weights)

    def can_stay_packed(self, skeleton: Model) -> bool:
        matrices = [each for each in self._tensors if len(each.shape) == 2]
        inner = [each for each in matrices if each.name not in _OUTER]
        return (
            is_supported(skeleton)
            and any(stays_packed(each) for each in matrices)
            and can_join([each.shape for each in matrices], [each.shape for each in inner])
        )

    def packed_bytes(self) -> int:
        return sum(
            packed_bytes(each.kind, *each.shape) if stays_packed(each) else 4 * each.elements
            for each in self._tensors
        )

    @property
    def _tensors(self) -> list[GgufTensor]:
        return [tensor for header in self.headers for tensor in header.tensors]

    def notices(self, dtype: torch.dtype, *, packed: bool) -> tuple[str, ...]:
        whole = [each for each in self._tensors if not packed or not stays_packed(each)]
        before = sum(each.size for each in whole)
        after = sum(each.elements for each in whole) * dtype.itemsize
        if after <= before or (packed and before < _SMALL * self.headers[0].file_bytes):
            return ()
        kinds = quantization_of(self.headers)
        if packed:
            kinds = ", ".join(sorted({each.kind for each in whole if len(each.shape) == 2}))
        which = "Some weights" if packed else "The weights"
        return (
            f"{which} of {self.name} are dequantised: {SIZE.shown(before)} in {kinds} become "
            f"{SIZE.shown(after)} in {type_name(dtype)}, so a step reads "
            f"{times(after / before)} as many bytes{' for them' if packed else ''}.",
        )


def open_gguf(path: Path, name: str) -> GgufSource:
    """Open a GGUF file without reading its weights.

    Raises:
        PairError: A part is damaged or missing, or the model is not a supported language model.
    """
    headers = read_parts(path)
    first = headers[0]
    if reason := refusal_of(headers):
        raise PairError(
            f"{name} cannot be used: {reason}.",
            remedy="Choose another file, or the model in safetensors format.",
        )
    factors = [
        float(value)
        for header in headers
        for tensor in header.tensors
        if tensor.name == _ROPE_FACTORS
        for value in read_tensor(header, tensor)
    ]
    config = config_of(headers, factors)
    check_config(config, first.path.name)
    return GgufSource(name=name, config=config, headers=headers)
