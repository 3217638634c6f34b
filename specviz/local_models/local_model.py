"""The facts about a model on this machine that are known without loading the model."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from specviz.formats.gguf_support import stays_quantised
from specviz.values import Value

_FLOAT32 = 4  # bytes
Format = Literal["GGUF", "safetensors"]


class ModelFacts(Value):
    """Facts about a model, read from its small files and headers."""

    format: Format
    quantization: str  # such as "Q4_K" or "BF16"
    family: str
    parameters: int
    file_bytes: int
    layers: int | None
    context: int | None
    vocabulary: int | None
    chat: bool  # it has a chat template
    head: str  # "2 MTP layers", or the kind of a drafting head; empty for neither
    made_for: str = ""  # the target that a drafting head's files name

    @property
    def is_head(self) -> bool:
        return self.head.endswith("head")

    def memory(self, itemsize: int | None) -> int:
        """Return the size in bytes of the loaded weights.

        Args:
            itemsize: Bytes per weight; None for the default on a CPU, where quantised weights
                stay quantised and others become float32.
        """
        if itemsize is None and stays_quantised(self.family, self.quantization):
            return self.file_bytes
        return self.parameters * (itemsize or _FLOAT32)


class LocalModel(Value):
    """A model that can be loaded. ``place`` is the value of ``--target`` that loads it."""

    name: str
    short: str  # unique among the models found with it
    place: str
    origin: str  # such as "LM Studio"
    files: tuple[Path, ...]  # the weights
    tokenizer: Path  # the file that contains the tokenizer
    facts: ModelFacts


class Skipped(Value):
    """A file or folder that looks like a model but cannot be loaded."""

    name: str
    origin: str
    reason: str
