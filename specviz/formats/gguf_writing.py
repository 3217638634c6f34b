"""Write a model of the Llama, Qwen2 or Qwen3 family, or an EAGLE-3 head, as a GGUF file.

Norms are float32, as llama.cpp requires; matrices have the requested type. By default, the file's
vocabulary is made up: the text of a token is its id, so llama.cpp returns token ids. This
vocabulary has no EOS, so llama.cpp decodes as many tokens as requested. The engines with which
llama.cpp is compared do so, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from specviz.values import Value

_LAYER = "model.layers."
_WORD = 1  # GGUF token type
_INTERLEAVED = ("llama", "eagle3")  # architectures whose RoPE pairs neighbours
_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.bias": "attn_v.bias",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
_EAGLE3_LAYER = "midlayer."
_EAGLE3_LAYER_NAMES = _NAMES | {"hidden_norm.weight": "attn_norm_2.weight"}
_EAGLE3_NAMES = {
    "fc.weight": "fc.weight",
    "input_norm.weight": "enc.output_norm.weight",
    "norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "embed_tokens.weight": "token_embd.weight",
}


class Sizes(Value):
    """The model settings that the shapes of the weights do not determine."""

    architecture: str  # llama, qwen2, qwen3 or eagle3
    layers: int
    heads: int
    key_heads: int
    head_width: int
    context: int
    theta: float
    eps: float


class Eagle3Sizes(Value):
    """Settings of an EAGLE-3 head, in addition to those in ``Sizes``."""

    vocabulary: int  # of the target
    places: tuple[int, int, int]  # the target's layers whose inputs the head reads
    target_width: int
    norm_before_residual: bool
    norm_before_fc: bool


def gguf_name(name: str) -> str | None:
    """Return a weight's name in GGUF files; None if GGUF has no name for it."""
    if not name.startswith(_LAYER):
        return _NAMES.get(name)
    layer, part = name.removeprefix(_LAYER).split(".", 1)
    return f"blk.{layer}.{_NAMES[part]}" if part in _NAMES else None


def eagle3_name(name: str) -> str | None:
    """Return the name of a head's weight in GGUF files; None if GGUF has no name for it."""
    if not name.startswith(_EAGLE3_LAYER):
        return _EAGLE3_NAMES.get(name)
    part = _EAGLE3_LAYER_NAMES.get(name.removeprefix(_EAGLE3_LAYER))
    return None if part is None else f"blk.0.{part}"


def number_tokens(writer: Any, vocabulary: int) -> None:
    """Add a vocabulary of this size to the GGUF writer. The text of each token is its id."""
    writer.add_tokenizer_model("rwkv")  # the only tokenizer type without a default EOS
    writer.add_token_list([f" {token}" for token in range(vocabulary)])
    writer.add_token_types([_WORD] * vocabulary)


def write_gguf(
    path: Path,
    sizes: Sizes,
    weights: Iterable[tuple[str, np.ndarray]],
    add_tokens: Callable[[Any, int], None] = number_tokens,
    *,
    kind_of: Callable[[str], str] = lambda _name: "F32",
    rope_factors: np.ndarray | None = None,
) -> None:
    """Write a model as a GGUF file.

    Args:
        weights: The weights, with their names in transformers.
        add_tokens: Adds a vocabulary of the given size to the GGUF writer.
        kind_of: Returns the GGUF type of a matrix, such as "F16" or "Q4_1", given its name.
        rope_factors: The frequency factors of Llama 3's RoPE scaling.
    """
    gguf = import_module("gguf")
    known = dict(weights)
    table = known["model.embed_tokens.weight"]
    feed_forward = known["model.layers.0.mlp.gate_proj.weight"].shape[0]
    writer = gguf.GGUFWriter(path, sizes.architecture)
    _describe(writer, sizes, table.shape, feed_forward)
    add_tokens(writer, table.shape[0])
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", rope_factors.astype(np.float32))
    for name, values in known.items():
        kind = gguf.GGMLQuantizationType["F32" if values.ndim == 1 else kind_of(name)]
        array = gguf.quants.quantize(_arranged(name, values, sizes).astype(np.float32), kind)
        writer.add_tensor(gguf_name(name), array, raw_dtype=kind)
    _finish(writer)


def write_eagle3_gguf(
    path: Path,
    sizes: Sizes,
    head: Eagle3Sizes,
    weights: Iterable[tuple[str, np.ndarray]],
    add_tokens: Callable[[Any, int], None],
    *,
    kind: str = "F16",
    rope_factors: np.ndarray | None = None,
) -> None:
    """Write an EAGLE-3 head with one layer as a GGUF file.

    Args:
        weights: The weights, with their names in the authors' layout.
        add_tokens: Adds the target's vocabulary to the GGUF writer.
        kind: The GGUF type of the matrices.
        rope_factors: The frequency factors of Llama 3's RoPE scaling.
    """
    gguf = import_module("gguf")
    known = dict(weights)
    writer = gguf.GGUFWriter(path, "eagle3")
    width = known["norm.weight"].shape[0]
    feed_forward = known[f"{_EAGLE3_LAYER}mlp.gate_proj.weight"].shape[0]
    _describe(writer, sizes, (head.vocabulary, width), feed_forward)
    writer.add_array("eagle3.target_layers", list(head.places))
    writer.add_uint32("eagle3.target_hidden_size", head.target_width)
    writer.add_bool("eagle3.norm_before_residual", head.norm_before_residual)
    writer.add_bool("eagle3.norm_before_fc", head.norm_before_fc)
    add_tokens(writer, head.vocabulary)
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", rope_factors.astype(np.float32))
    if (offsets := known.pop("d2t", None)) is not None:  # GGUF stores the target's ids, not offsets
        writer.add_tensor("d2t", np.arange(len(offsets), dtype=np.int64) + offsets)
    for name, values in known.items():
        stored = gguf.GGMLQuantizationType["F32" if values.ndim == 1 else kind]
        array = gguf.quants.quantize(_arranged(name, values, sizes).astype(np.float32), stored)
        writer.add_tensor(eagle3_name(name), array, raw_dtype=stored)
    _finish(writer)


def llama3_factors(theta: float, head_width: int, scaling: Mapping[str, Any]) -> np.ndarray:
    """Return the frequency factors of Llama 3's RoPE scaling, `[head_width / 2]`."""
    factor, low, high = (
        float(scaling[key]) for key in ("factor", "low_freq_factor", "high_freq_factor")
    )
    waves = 2 * np.pi * theta ** (np.arange(0, head_width, 2) / head_width)
    turns = float(scaling["original_max_position_embeddings"]) / waves
    share = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return 1 / ((1 - share) / factor + share)


def _finish(writer: Any) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: Any, sizes: Sizes, table: tuple[int, ...], feed_forward: int) -> None:
    writer.add_block_count(sizes.layers)
    writer.add_context_length(sizes.context)
    writer.add_embedding_length(table[1])
    writer.add_feed_forward_length(feed_forward)
    writer.add_head_count(sizes.heads)
    writer.add_head_count_kv(sizes.key_heads)
    writer.add_key_length(sizes.head_width)
    writer.add_value_length(sizes.head_width)
    writer.add_rope_dimension_count(sizes.head_width)
    writer.add_rope_freq_base(sizes.theta)
    writer.add_layer_norm_rms_eps(sizes.eps)
    writer.add_vocab_size(table[0])


def _arranged(name: str, values: np.ndarray, sizes: Sizes) -> np.ndarray:
    if sizes.architecture in _INTERLEAVED and ".q_proj." in name:
        return _interleave_rotary(values, sizes.heads)
    if sizes.architecture in _INTERLEAVED and ".k_proj." in name:
        return _interleave_rotary(values, sizes.key_heads)
    return values


def _interleave_rotary(values: np.ndarray, heads: int) -> np.ndarray:
    """Reorder rows from the order in transformers to the order in llama.cpp.

    RoPE rotates pairs of rows. A pair is two neighbours in llama.cpp, and two rows half a head
    apart in transformers.
    """
    halves = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)
