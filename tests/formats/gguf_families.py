"""Write models of families that ``specviz.formats.gguf_writing`` does not write as GGUF files.

The weights are changed as llama.cpp's converter changes them: Gemma 3's norms get 1 more, GPT-2's
matrices are transposed, and the rows of Llama's queries and keys alternate between the halves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

_TRANSPOSED = (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")


def write_family(
    path: Path,
    model: Any,
    architecture: str,
    keys: Mapping[str, Any],
    add_tokens: Callable[[Any, int], None],
) -> Path:
    """Write a model of transformers.

    Args:
        architecture: The name of the family in GGUF files.
        keys: The metadata of the architecture, such as ``context_length``.
        add_tokens: Adds a vocabulary of the given size to the GGUF writer.
    """
    writer: Any = gguf.GGUFWriter(path, architecture)
    for key, value in keys.items():
        _add(writer, f"{architecture}.{key}", value)
    add_tokens(writer, model.config.vocab_size)
    for name, weight in _tensors(model, architecture):
        writer.add_tensor(name, np.ascontiguousarray(weight, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: Any, key: str, value: Any) -> None:
    kinds = {int: "uint32", float: "float32", str: "string", list: "array"}
    getattr(writer, f"add_{kinds[type(value)]}")(key, value)


def _tensors(model: Any, architecture: str) -> Iterator[tuple[str, np.ndarray]]:
    config = model.config
    kind = next(each for each, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        place = names.get_name(name, (".weight", ".bias"))
        assert place is not None, name
        yield place, _converted(name, weight.numpy(), architecture, config)


def _converted(name: str, weight: np.ndarray, architecture: str, config: Any) -> np.ndarray:
    if architecture == "gemma3" and name.endswith("norm.weight"):
        return weight + 1
    if architecture == "gpt2" and name.endswith(_TRANSPOSED):
        return weight.T
    if architecture == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
        pairs = weight.reshape(-1, 2, config.head_dim // 2, weight.shape[1])
        return pairs.swapaxes(1, 2).reshape(weight.shape)
    return weight
