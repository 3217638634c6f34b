"""Tiny models of the families with recurrent layers, at random weights."""

from __future__ import annotations

from typing import Any

import transformers as hf
from transformers import PreTrainedModel

from tests.engine.models import VOCABULARY, build, stir, wide

_SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": None,
}
_LAYERS = {"layer_types": ["linear_attention", "full_attention", "linear_attention"]}
_LINEAR = _LAYERS | {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
_QWEN_MOE = _MOE | {"shared_expert_intermediate_size": 24, "norm_topk_prob": True}
_MAMBA2 = {
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_d_state": 8,
    "mamba_chunk_size": 8,
    "mamba_n_groups": 1,
    "mamba_expand": 2,
}
_LATENT = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 12,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 6,
}
_ZAMBA = {"num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"]}
_CONV = {"layer_types": ["conv", "full_attention", "conv"], "conv_L_cache": 3}
_CONFIGS: dict[str, dict[str, Any]] = {
    "qwen3_next": _SHAPE | _LINEAR | _QWEN_MOE,
    "qwen3_5_text": _SHAPE | _LINEAR,
    "qwen3_5_moe_text": _SHAPE | _LINEAR | _QWEN_MOE,
    "mamba2": {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "state_size": 8,
        "num_heads": 4,
        "head_dim": 16,
        "n_groups": 1,
        "chunk_size": 8,
        "eos_token_id": 0,
        "tie_word_embeddings": False,
    },
    "bamba": _SHAPE | _MAMBA2 | {"attn_layer_indices": [1]},
    "falcon_h1": _SHAPE | _MAMBA2 | {"mamba_d_ssm": 64},
    "granitemoehybrid": _SHAPE
    | _MAMBA2
    | {
        "layer_types": ["mamba", "attention", "mamba"],
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "shared_intermediate_size": 32,
        "position_embedding_type": "rope",
    },
    "nemotron_h": _SHAPE
    | {
        "num_hidden_layers": 4,
        "layers_block_type": ["mamba", "attention", "mamba", "mlp"],
        "mamba_num_heads": 4,
        "mamba_head_dim": 16,
        "ssm_state_size": 8,
        "n_groups": 1,
        "chunk_size": 8,
    },
    "lfm2": _SHAPE | _CONV | {"block_auto_adjust_ff_dim": False},
    "lfm2_moe": _SHAPE | _CONV | _MOE | {"num_dense_layers": 1},
    "lfm3": _SHAPE,
    "olmo_hybrid": _SHAPE | _LINEAR,
    "kimi_linear": _SHAPE
    | _LAYERS
    | _LATENT
    | {
        "q_lora_rank": None,
        "num_experts": 4,
        "num_experts_per_token": 2,
        "moe_intermediate_size": 24,
        "linear_num_heads": 4,
        "linear_head_dim": 8,
    },
    "bailing_hybrid": _SHAPE
    | _LAYERS
    | _LATENT
    | _MOE
    | {"q_lora_rank": 16, "n_group": 1, "topk_group": 1},
    "zamba": _SHAPE
    | _ZAMBA
    | {
        "mamba_d_state": 8,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "n_mamba_heads": 2,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "mamba_dt_rank": 4,
    },
    "zamba2": _SHAPE
    | _ZAMBA
    | {
        "mamba_d_state": 8,
        "mamba_expand": 2,
        "n_mamba_heads": 4,
        "mamba_headdim": 16,
        "mamba_ngroups": 1,
        "chunk_size": 8,
        "num_mem_blocks": 1,
        "adapter_rank": 4,
        "use_mem_rope": True,
    },
    "zaya": _SHAPE,
    "inkling_text": _SHAPE,
    "inkling2_text": _SHAPE,
    "qwen4_exp_text": _SHAPE
    | _LINEAR
    | _QWEN_MOE
    | {
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 8,
        "indexer_budget": 64,
        "indexer_compress_ratio": 4,
    },
}
RECURRENT = tuple(_CONFIGS)


def recurrent_model(family: str, *, seed: int = 0, sigma: float = 0.3) -> PreTrainedModel:
    """Random matrices of standard deviation ``sigma``; perturbed norms and biases."""
    config = hf.AutoConfig.for_model(family, **_CONFIGS[family])
    return stir(wide(build(config, seed), seed, sigma))
