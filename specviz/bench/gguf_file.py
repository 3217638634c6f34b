"""Write the weights of a Llama-shaped model as a GGUF file for llama.cpp.

Matrices keep the model's dtype; norms are float32, as llama.cpp requires. Without ``Words``, the
text of a token is its id, so llama.cpp returns token ids. That vocabulary has no EOS, so llama.cpp
writes as many tokens as the other lanes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import torch
    from transformers import PreTrainedModel

_LAYER = "model.layers."
_WORD, _CONTROL = 1, 3  # GGUF token types
_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}


def cannot_write(model: PreTrainedModel) -> str | None:
    """Return why a model cannot be written as GGUF, or None if it can."""
    config: Any = model.config
    if config.model_type != "llama":
        return f"GGUF files of the model family {config.model_type} are not supported"
    if config.rope_parameters["rope_type"] != "default":
        return "GGUF files with scaled positions are not supported"
    if unknown := next((name for name in model.state_dict() if _gguf_name(name) is None), None):
        return f"GGUF files with the weight {unknown} are not supported"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The vocabulary of a GPT-2-like tokenizer. ``end`` is the id of the EOS token."""

    tokens: tuple[str, ...]
    merges: tuple[str, ...]
    end: int

    @classmethod
    def of(cls, tokenizer: Path) -> Words:
        """Read a ``tokenizer.json`` whose only special token is EOS."""
        record = json.loads(tokenizer.read_text(encoding="utf-8"))
        (end,) = record["added_tokens"]
        by_id = {place: word for word, place in record["model"]["vocab"].items()}
        return cls(
            tokens=tuple(by_id[place] for place in range(len(by_id))),
            merges=tuple(" ".join(each) for each in record["model"]["merges"]),
            end=end["id"],
        )


def write_gguf(
    model: PreTrainedModel, vocabulary: int, path: Path, words: Words | None = None
) -> None:
    """Write a model, with embedding and output cut to ``vocabulary`` rows as in the engine."""
    gguf = import_module("gguf")
    writer = gguf.GGUFWriter(path, "llama")
    _describe(writer, model.config, vocabulary)
    if words is None:
        _number_tokens(writer, vocabulary)
    else:
        _name_tokens(writer, words)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        values = _arranged(name, weight, model.config, vocabulary)
        array, kind = _as_array(values, gguf.GGMLQuantizationType, gguf.quants.quantize)
        writer.add_tensor(_gguf_name(name), array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: Any, config: Any, vocabulary: int) -> None:
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(vocabulary)


def _number_tokens(writer: Any, vocabulary: int) -> None:
    writer.add_tokenizer_model("rwkv")  # the only model without EOS by default
    writer.add_token_list([f" {token}" for token in range(vocabulary)])
    writer.add_token_types([_WORD] * vocabulary)


def _name_tokens(writer: Any, words: Words) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words.tokens)
    writer.add_token_merges(words.merges)
    kinds = [_CONTROL if place == words.end else _WORD for place in range(len(words.tokens))]
    writer.add_token_types(kinds)
    writer.add_eos_token_id(words.end)
    writer.add_add_bos_token(False)


def _gguf_name(name: str) -> str | None:
    if not name.startswith(_LAYER):
        return _NAMES.get(name)
    layer, part = name.removeprefix(_LAYER).split(".", 1)
    return f"blk.{layer}.{_NAMES[part]}" if part in _NAMES else None


def _arranged(name: str, weight: torch.Tensor, config: Any, vocabulary: int) -> torch.Tensor:
    if name in ("model.embed_tokens.weight", "lm_head.weight"):
        return weight[:vocabulary]
    if name.endswith("q_proj.weight"):
        return _interleave_rotary(weight, config.num_attention_heads)
    if name.endswith("k_proj.weight"):
        return _interleave_rotary(weight, config.num_key_value_heads)
    return weight


def _interleave_rotary(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Reorder rows: llama.cpp rotates neighbouring rows, transformers rows half a head apart."""
    halves = weight.unflatten(0, (heads, 2, -1))
    return halves.transpose(1, 2).reshape(weight.shape)


def _as_array(values: torch.Tensor, kinds: Any, quantize: Any) -> tuple[np.ndarray, Any]:
    import torch

    if values.ndim == 1 or values.dtype == torch.float32:
        return values.float().contiguous().numpy(), kinds.F32
    if values.dtype == torch.float16:
        return values.contiguous().numpy(), kinds.F16
    return quantize(values.float().contiguous().numpy(), kinds.BF16), kinds.BF16
