"""Read a model folder without its weights: configuration, tokenizer, chat template, headers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from specviz.errors import ModelFileError
from specviz.formats.safetensors_header import TensorEntry, read_tensors
from specviz.values import Value

CONFIG = "config.json"
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
_MAX_JSON = 4 << 20
_CAUSAL = ("ForCausalLM", "LMHeadModel")
_HEADS = ("eagle", "medusa", "mlpspeculator", "dflash")
TEXT_WEIGHTS = {
    "gemma3": {"language_model.": "", "model.language_model.": "model.", "lm_head.": "lm_head."}
}
"""For families that also read images: which weights belong to the text model, by name prefix.

Maps each prefix in the family's files to the prefix in the text model. Other weights are not used.
"""
SAME_DECODER = {"mimo": "qwen2"}
"""For families that transformers does not support: the family whose decoder their models have.

What their own code adds, such as MiMo's MTP layers, is read from the weights.
"""
_MTP_KEYS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")


class ModelFolder(Value):
    """A folder with a complete model in safetensors."""

    path: Path
    config: dict[str, Any]
    tensors: dict[str, TensorEntry]
    weights: tuple[Path, ...]
    tokenizer: Path
    chat: bool

    @property
    def parameters(self) -> int:
        return sum(each.elements for each in self.tensors.values())

    @property
    def kind(self) -> str:
        """Return the most frequent type of the weights, such as "BF16"."""
        counts: Counter[str] = Counter()
        for each in self.tensors.values():
            counts[each.kind] += each.elements
        return counts.most_common(1)[0][0] if counts else "unknown"

    def number(self, *keys: str) -> int | None:
        """Return the first integer that the configuration has under one of these keys, or None."""
        inner = self.config.get("text_config")
        for part in (self.config, inner if isinstance(inner, dict) else {}):
            for key in keys:
                value = part.get(key)
                if isinstance(value, int) and not isinstance(value, bool):
                    return value
        return None

    @property
    def head(self) -> str:
        """Return text such as "EAGLE head" or "2 MTP layers"; "" if there is no head."""
        kinds = " ".join([str(self.config.get("model_type")), *self._architectures]).lower()
        if found := next((each for each in _HEADS if each in kinds), None):
            return f"{found.upper() if found == 'eagle' else found} head"
        return mtp_words(self.number(*_MTP_KEYS) or 0)

    @property
    def _architectures(self) -> list[str]:
        return architectures_of(self.config)


def mtp_words(layers: int) -> str:
    return f"{layers} MTP layer{'' if layers == 1 else 's'}" if layers > 0 else ""


def architectures_of(config: dict[str, Any]) -> list[str]:
    named = config.get("architectures")
    return [str(each) for each in named] if isinstance(named, list) else []


def read_folder(path: Path) -> ModelFolder:
    """Read a folder's configuration and the headers of its weights.

    Raises:
        ModelFileError: The folder contains no complete language model. The error's ``culprit``
            states the reason.
    """
    config = read_object(path / CONFIG)
    if reason := _refusal(config):
        raise ModelFileError(reason, remedy="Choose a text model in safetensors format.")
    weights = _weights(path)
    tensors: dict[str, TensorEntry] = {}
    for file in weights:
        tensors |= read_tensors(file)
    if prefixes := tuple(TEXT_WEIGHTS.get(config["model_type"], ())):
        tensors = {name: each for name, each in tensors.items() if name.startswith(prefixes)}
    if not tensors:
        raise ModelFileError(
            "no weights of a text model", remedy="Copy or download the weights again."
        )
    tokenizer = next((path / each for each in _TOKENIZERS if (path / each).is_file()), None)
    if tokenizer is None:
        raise ModelFileError(
            "a model without a tokenizer", remedy="Put the tokenizer.json beside the weights."
        )
    return ModelFolder(
        path=path, config=config, tensors=tensors, weights=weights, tokenizer=tokenizer,
        chat=has_chat_template(path),
    )  # fmt: skip


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a small JSON file; raise ModelFileError if there is no such object."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_JSON + 1)
        found = json.loads(content) if len(content) <= _MAX_JSON else None
    except OSError as error:
        raise ModelFileError.unreadable(path, error) from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ModelFileError(f"{path.name} is damaged.", remedy="Copy or download the file again.")
    return found


def _refusal(config: dict[str, Any]) -> str:
    """Return why a model with this configuration cannot be used; empty if it is usable."""
    if not isinstance(family := config.get("model_type"), str):
        return "its configuration names no model family"
    built = architectures_of(config)
    method = config.get("quantization_config")
    if isinstance(method, dict):
        return f"weights quantised with {str(method.get('quant_method'))[:20]} are not supported"
    reads_images = family in TEXT_WEIGHTS
    if not reads_images and any(key in config for key in ("vision_config", "audio_config")):
        return "a vision or audio model, not a text model"
    causal = (*_CAUSAL, "ForConditionalGeneration") if reads_images else _CAUSAL
    if built and not any(each.endswith(causal) or _is_head(each) for each in built):
        return f"not a causal language model ({built[0][:60]})"
    return ""


def _is_head(architecture: str) -> bool:
    return any(each in architecture.lower() for each in _HEADS)


def _weights(path: Path) -> tuple[Path, ...]:
    if (path / _SINGLE).is_file():
        return (path / _SINGLE,)
    if not (path / _INDEX).is_file():
        pickle = next(path.glob("pytorch_model*.bin"), None)
        what = "only a pickle checkpoint, which is never opened" if pickle else "no weights here"
        raise ModelFileError(what, remedy="Choose a copy in safetensors format.")
    names = read_object(path / _INDEX).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise ModelFileError(f"{_INDEX} is damaged.", remedy="Copy or download the file again.")
    files = tuple(path / Path(str(each)).name for each in sorted(set(map(str, names.values()))))
    if missing := [each.name for each in files if not each.is_file()]:
        raise ModelFileError(
            f"incomplete: {missing[0]} is missing", remedy="Finish the download of the weights."
        )
    return files


def has_chat_template(path: Path) -> bool:
    if (path / "chat_template.jinja").is_file():
        return True
    try:
        return bool(read_object(path / "tokenizer_config.json").get("chat_template"))
    except ModelFileError:
        return False
