"""Random tiny DFlash heads, written as folders in each format."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch

from tests.engine.heads.tiny_heads import VOCABULARY, WIDTH, write_folder

INNER, HEADS, KEY_HEADS, HEAD_WIDTH = 48, 4, 2, 16
BLOCK, MASK, WINDOW = 4, 7, 5
TARGET_LAYERS = (1, 3, 5)  # whose outputs the head reads
SLIDING, FULL = "sliding_attention", "full_attention"


def write_dflash(
    folder: Path,
    tensors: dict[str, torch.Tensor] | None = None,
    *,
    layout: Literal["z-lab", "speculators"] = "z-lab",
    layer_types: tuple[str, ...] = (FULL, FULL),
    seed: int = 0,
    **config: Any,
) -> Path:
    """Write a head; ``config`` adds entries to its config.json."""
    if tensors is None:
        tensors = dflash_tensors(len(layer_types), seed=seed)
    inner = dflash_layers(layer_types)
    if layout == "z-lab":
        stated = inner | {
            "architectures": ["DFlashDraftModel"],
            "block_size": BLOCK,
            "num_target_layers": 8,
            "dflash_config": {"mask_token_id": MASK, "target_layer_ids": list(TARGET_LAYERS)},
        }
    else:
        stated = {
            "architectures": ["DFlashSpeculator"],
            "speculators_model_type": "dflash",
            "transformer_layer_config": inner,
            "aux_hidden_state_layer_ids": [each + 1 for each in TARGET_LAYERS],
            "block_size": BLOCK,
            "mask_token_id": MASK,
        }
    return write_folder(folder, stated | config, tensors)


def dflash_layers(layer_types: tuple[str, ...]) -> dict[str, Any]:
    """The configuration of the layers."""
    sliding = SLIDING in layer_types
    return {
        "model_type": "qwen3",
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_hidden_layers": len(layer_types),
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_HEADS,
        "head_dim": HEAD_WIDTH,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 256,
        "attention_bias": False,
        "layer_types": list(layer_types),
        "use_sliding_window": sliding,
        "sliding_window": WINDOW if sliding else None,
    }


def dflash_tensors(layers: int = 2, *, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.2

    queries, keys = HEADS * HEAD_WIDTH, KEY_HEADS * HEAD_WIDTH
    tensors = {
        "fc.weight": draw(WIDTH, len(TARGET_LAYERS) * WIDTH),
        "hidden_norm.weight": 1 + draw(WIDTH),
        "norm.weight": 1 + draw(WIDTH),
    }
    for index in range(layers):
        prefix = f"layers.{index}"
        attention = f"{prefix}.self_attn"
        rows = {"q": queries, "k": keys, "v": keys}
        tensors |= {f"{attention}.{name}_proj.weight": draw(rows[name], WIDTH) for name in rows}
        tensors |= {f"{attention}.{name}_norm.weight": 1 + draw(HEAD_WIDTH) for name in "qk"}
        tensors[f"{attention}.o_proj.weight"] = draw(WIDTH, queries)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}.{name}.weight"] = 1 + draw(WIDTH)
        for name in ("gate", "up"):
            tensors[f"{prefix}.mlp.{name}_proj.weight"] = draw(INNER, WIDTH)
        tensors[f"{prefix}.mlp.down_proj.weight"] = draw(WIDTH, INNER)
    return tensors
