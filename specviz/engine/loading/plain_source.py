"""The models of an embedded pair, which comes with specviz, loaded without transformers.

See ``plain_llama.py`` for the model code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from specviz.engine.loading.folder_source import FolderSource
from specviz.engine.loading.model_config import read_object
from specviz.engine.model.plain_llama import PlainConfig, PlainLlamaForCausalLM, read_weights

_TOKENIZER_CONFIG = "tokenizer_config.json"
_SUPPORTED: dict[str, Any] = {
    "model_type": "llama",
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "rope_parameters": {"rope_theta": 10_000.0, "rope_type": "default"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSource(FolderSource):
    """A Llama model in a folder with a single weights file and a tokenizer.json."""

    can_spread: ClassVar[bool] = False

    def read_config(self) -> PlainConfig:
        return PlainConfig(**self.config)

    def read_tokenizer(self) -> PlainTokenizer:
        return PlainTokenizer(self.folder)

    def _loader(
        self, config: Any, dtype: torch.dtype, report: Callable[[int, int], None]
    ) -> Callable[..., Any]:
        del report
        return lambda **_: self._load(config, dtype)

    def _load(
        self, config: PlainConfig, dtype: torch.dtype
    ) -> tuple[PlainLlamaForCausalLM, dict[str, list[str]]]:
        with torch.device("meta"):
            model = PlainLlamaForCausalLM(config)
        (file,) = self.weight_files()
        weights = {name: each.to(dtype) for name, each in load_file(file).items()}
        return model, {"missing_keys": read_weights(model, weights)}


def is_plain(folder: Path) -> bool:
    """Return whether ``PlainSource`` can load a folder: its files and settings are supported."""
    try:
        config, _ = (read_object(folder / name) for name in ("config.json", _TOKENIZER_CONFIG))
    except ValueError:
        return False
    files = all((folder / name).is_file() for name in ("model.safetensors", "tokenizer.json"))
    return files and {name: config.get(name) for name in _SUPPORTED} == _SUPPORTED


class PlainTokenizer:
    """A tokenizer with the methods that the engine uses, named as in transformers."""

    chat_template = None
    bos_token_id = None

    def __init__(self, folder: Path) -> None:
        settings = json.loads((folder / _TOKENIZER_CONFIG).read_text("utf-8"))
        self.backend_tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.model_max_length: int = settings["model_max_length"]
        self.eos_token: str = settings["eos_token"]
        self.eos_token_id = self.backend_tokenizer.token_to_id(self.eos_token)
        self.all_special_ids = [self.eos_token_id]

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": self.encode(text, add_special_tokens=add_special_tokens)}

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return self.backend_tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def convert_ids_to_tokens(self, ids: int | Iterable[int]) -> Any:
        if isinstance(ids, int):
            return self.backend_tokenizer.id_to_token(ids)
        return [self.backend_tokenizer.id_to_token(each) for each in ids]

    def get_vocab(self) -> dict[str, int]:
        return self.backend_tokenizer.get_vocab()

    @property
    def added_tokens_decoder(self) -> dict[int, Any]:
        return self.backend_tokenizer.get_added_tokens_decoder()
