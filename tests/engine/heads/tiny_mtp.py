"""Random tiny models with MTP layers, written as folders with the names of each family.

Only the configuration and the MTP layers are written, and one tensor of the model itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.engine.heads.tiny_heads import VOCABULARY, WIDTH

DECODER_LAYERS, INNER, EXPERTS, EXPERT_INNER = 2, 48, 4, 24
HEADS, KEY_HEADS, HEAD_WIDTH = 4, 2, 8
_COMMON = {
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": DECODER_LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEY_HEADS,
    "head_dim": HEAD_WIDTH,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10_000.0,
    "max_position_embeddings": 256,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
_ROUTED = {"num_experts_per_tok": 2, "moe_intermediate_size": EXPERT_INNER, "norm_topk_prob": True}
_GROUPED = _ROUTED | {
    "n_routed_experts": EXPERTS,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "routed_scaling_factor": 1.5,
}
_QWEN_MOE = _ROUTED | {"num_experts": EXPERTS, "shared_expert_intermediate_size": EXPERT_INNER}
_LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
}
_LATENT = {  # latent attention
    "head_dim": 4,
    "num_key_value_heads": HEADS,
    "q_lora_rank": 16,
    "kv_lora_rank": 12,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 6,
}
_FAMILIES: dict[str, dict[str, Any]] = {
    "deepseek_v3": _GROUPED | _LATENT,
    "glm4_moe": _GROUPED | {"attention_bias": True, "use_qk_norm": True},
    "qwen3_next": _QWEN_MOE | _LINEAR | {"decoder_sparse_step": 1, "mlp_only_layers": []},
    "qwen3_5_text": _LINEAR,
    "qwen3_5_moe_text": _QWEN_MOE | _LINEAR,
    "mimo": {},
}
APPENDED = ("deepseek_v3", "glm4_moe")
ZERO_CENTRED = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")


def mtp_config(family: str, layers: int = 1) -> dict[str, Any]:
    """The configuration of the text model."""
    name = {"mimo": "num_nextn_predict_layers"} | dict.fromkeys(
        ("qwen3_5_text", "qwen3_5_moe_text"), "mtp_num_hidden_layers"
    )
    count = {name.get(family, "num_nextn_predict_layers"): layers}
    return _COMMON | _FAMILIES[family] | count | {"model_type": family}


def write_mtp(folder: Path, family: str, layers: int = 1, *, seed: int = 0) -> Path:
    """Write a model's folder, in two files of weights."""
    folder.mkdir(parents=True, exist_ok=True)
    config = mtp_config(family, layers)
    if family.endswith("_text"):
        config = {"model_type": family.removesuffix("_text"), "text_config": config}
    (folder / "config.json").write_text(json.dumps(config))
    tensors = mtp_tensors(family, layers, seed=seed)
    save_file(tensors, folder / "model.safetensors")
    name = f"model.layers.{DECODER_LAYERS - 1}.input_layernorm.weight"
    save_file({name: torch.ones(WIDTH)}, folder / "more.safetensors")
    return folder


def mtp_tensors(family: str, layers: int = 1, *, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes: dict[str, tuple[int, ...]] = {}
    for index in range(layers):
        prefix = {"mimo": "model.mtp_layers."}.get(family, "mtp.layers.") + str(index)
        if family in APPENDED:
            prefix = f"model.layers.{DECODER_LAYERS + index}"
        shapes |= {f"{prefix}.{name}": shape for name, shape in _layer(family).items()}
    shapes |= _outside_layers(family)
    tensors = {}
    for name, shape in shapes.items():
        drawn = torch.randn(*shape, generator=generator) * 0.2
        is_norm = "norm" in name and len(shape) == 1
        tensors[name] = drawn + 1 if is_norm and family not in ZERO_CENTRED else drawn
    return tensors


def _outside_layers(family: str) -> dict[str, tuple[int, ...]]:
    if family not in ZERO_CENTRED:
        return {}
    names = ("mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.norm")
    norms: dict[str, tuple[int, ...]] = {f"{name}.weight": (WIDTH,) for name in names}
    return norms | {"mtp.fc.weight": (WIDTH, 2 * WIDTH)}


def _layer(family: str) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (WIDTH,),
        "post_attention_layernorm.weight": (WIDTH,),
    }
    if family in APPENDED:
        shapes |= {f"{name}.weight": (WIDTH,) for name in ("enorm", "hnorm", "shared_head.norm")}
        shapes |= {"eh_proj.weight": (WIDTH, 2 * WIDTH)}
        shapes |= {f"{name}.weight": (VOCABULARY, WIDTH) for name in _COPIED}
    if family == "mimo":
        norms = ("token_layernorm", "hidden_layernorm", "final_layernorm")
        shapes |= {f"{name}.weight": (WIDTH,) for name in norms}
        shapes |= {"input_proj.weight": (WIDTH, 2 * WIDTH)}
    attention = _latent_attention() if family == "deepseek_v3" else _attention(family)
    shapes |= {f"self_attn.{name}": shape for name, shape in attention.items()}
    return shapes | {f"mlp.{name}": shape for name, shape in _feed_forward(family).items()}


_COPIED = ("embed_tokens", "shared_head.head")


def _attention(family: str) -> dict[str, tuple[int, ...]]:
    gates = 2 if family in ZERO_CENTRED else 1
    rows = {"q": HEADS * HEAD_WIDTH * gates, "k": KEY_HEADS * HEAD_WIDTH}
    rows["v"] = rows["k"]
    shapes: dict[str, tuple[int, ...]] = {
        f"{name}_proj.weight": (count, WIDTH) for name, count in rows.items()
    }
    shapes["o_proj.weight"] = (WIDTH, HEADS * HEAD_WIDTH)
    if family in ("glm4_moe", "mimo"):
        shapes |= {f"{name}_proj.bias": (count,) for name, count in rows.items()}
    if family != "mimo":
        shapes |= {f"{name}_norm.weight": (HEAD_WIDTH,) for name in "qk"}
    return shapes


def _latent_attention() -> dict[str, tuple[int, ...]]:
    query, key = _LATENT["q_lora_rank"], _LATENT["kv_lora_rank"]
    rotated, plain = _LATENT["qk_rope_head_dim"], _LATENT["qk_nope_head_dim"]
    value = _LATENT["v_head_dim"]
    return {
        "q_a_proj.weight": (query, WIDTH),
        "q_a_layernorm.weight": (query,),
        "q_b_proj.weight": (HEADS * (plain + rotated), query),
        "kv_a_proj_with_mqa.weight": (key + rotated, WIDTH),
        "kv_a_layernorm.weight": (key,),
        "kv_b_proj.weight": (HEADS * (plain + value), key),
        "o_proj.weight": (WIDTH, HEADS * value),
    }


def _feed_forward(family: str) -> dict[str, tuple[int, ...]]:
    if family in ("qwen3_5_text", "mimo"):
        return _gated("", INNER)
    shapes: dict[str, tuple[int, ...]] = {"gate.weight": (EXPERTS, WIDTH)}
    for expert in range(EXPERTS):
        shapes |= _gated(f"experts.{expert}.", EXPERT_INNER)
    if family in APPENDED:
        shapes["gate.e_score_correction_bias"] = (EXPERTS,)
        return shapes | _gated("shared_experts.", EXPERT_INNER)
    shapes["shared_expert_gate.weight"] = (1, WIDTH)
    return shapes | _gated("shared_expert.", EXPERT_INNER)


def _gated(prefix: str, inner: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{prefix}gate_proj.weight": (inner, WIDTH),
        f"{prefix}up_proj.weight": (inner, WIDTH),
        f"{prefix}down_proj.weight": (WIDTH, inner),
    }
