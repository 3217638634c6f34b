"""A model in a GGUF file, as llama.cpp, LM Studio and Ollama store it; its weights are dequantised.

A split file is opened by its first part, ``NAME-00001-of-00003.gguf``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedConfig

from specviz.engine.loading.gguf_config import config_of
from specviz.engine.loading.gguf_tokenizer import read_tokenizer
from specviz.engine.loading.gguf_weights import read_tensor, read_weights
from specviz.engine.loading.model_config import check_config
from specviz.engine.loading.source import Source
from specviz.engine.model.growing import skeleton_of
from specviz.engine.model.tensors import type_name
from specviz.errors import PairError
from specviz.formats.gguf_header import GgufHeader
from specviz.formats.gguf_parts import parameters_of, quantization_of, read_parts
from specviz.formats.gguf_support import refusal_of
from specviz.record.numbers import SIZE, times
from specviz.record.pairs import ProgressCallback

_ROPE_FACTORS = "rope_freqs.weight"


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

    def notices(self, dtype: torch.dtype) -> tuple[str, ...]:
        packed = sum(each.file_bytes for each in self.headers)
        kind = quantization_of(self.headers)
        unpacked = parameters_of(self.headers) * dtype.itemsize
        if unpacked <= packed:
            return ()
        return (
            f"The weights of {self.name} are dequantised: {SIZE.shown(packed)} in {kind} become "
            f"{SIZE.shown(unpacked)} in {type_name(dtype)}, so a step reads "
            f"{times(unpacked / packed)} as much.",
        )


def open_gguf(path: Path, name: str) -> GgufSource:
    """Open a GGUF file without reading its weights.

    Raises:
        PairError: The file is damaged, a part is missing, or it is not a supported language model.
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
