"""An embedded pair's models, read without transformers (``plain_llama.py``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from specviz.engine.loading.folder_source import FolderSource
from specviz.engine.model.plain_llama import PlainConfig, PlainLlamaForCausalLM, read_weights


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSource(FolderSource):
    """A Llama model in a folder with a single weights file and a tokenizer.json."""

    def read_config(self) -> PlainConfig:
        return PlainConfig(**self.config)

    def read_tokenizer(self) -> PlainTokenizer:
        return PlainTokenizer(self.folder)

    def read_model(
        self,
        config: Any,
        dtype: torch.dtype,
        report: Callable[[int, int], None],
        *,
        spread: bool,
    ) -> tuple[PlainLlamaForCausalLM, list[str]]:
        del report, spread  # it is small
        with torch.device("meta"):
            model = PlainLlamaForCausalLM(config)
        (file,) = self.weight_files()
        weights = {name: each.to(dtype) for name, each in load_file(file).items()}
        return model, read_weights(model, weights)


class PlainTokenizer:
    """The parts of a transformers tokenizer that the engine uses."""

    chat_template = None
    bos_token_id = None

    def __init__(self, folder: Path) -> None:
        settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
        self.backend_tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.model_max_length: int = settings["model_max_length"]
        self.eos_token: str = settings["eos_token"]
        self.eos_token_id = self.backend_tokenizer.token_to_id(self.eos_token)
        self.all_special_ids = [self.eos_token_id]

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": self.encode(text, add_special_tokens=add_special_tokens)}

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return self.backend_tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, ids: list[int]) -> str:
        return self.backend_tokenizer.decode(ids, skip_special_tokens=False)

    def convert_ids_to_tokens(self, ids: int | Iterable[int]) -> Any:
        if isinstance(ids, int):
            return self.backend_tokenizer.id_to_token(ids)
        return [self.backend_tokenizer.id_to_token(each) for each in ids]

    def get_vocab(self) -> dict[str, int]:
        return self.backend_tokenizer.get_vocab()

    @property
    def added_tokens_decoder(self) -> dict[int, Any]:
        return self.backend_tokenizer.get_added_tokens_decoder()
