"""Random tiny heads, written as folders in each layout, and a tiny target for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from specviz.engine.heads.eagle import EagleHead, open_eagle
from specviz.engine.heads.head import TargetParts
from specviz.formats.heads import read_head

Change = Callable[[dict[str, torch.Tensor]], object]  # of a head's tensors, in place
Layout = Literal["official", "specforge", "speculators"]
WIDTH, INNER, HEADS, KEY_HEADS = 32, 48, 4, 2
VOCABULARY, DRAFT_VOCABULARY, LAYERS = 128, 40, 8
LAYER_IDS = (2, 4, 5)  # the defaults of a target with 8 layers
_WEIGHTS = "model.safetensors"


def tiny_target(
    *, layers: int = LAYERS, width: int = WIDTH, vocabulary: int = VOCABULARY, family: str = "llama"
) -> TargetParts:
    """A target of random matrices, of which only the parts for heads exist."""
    generator = torch.Generator().manual_seed(17)
    embedding = torch.randn(vocabulary, width, generator=generator)
    output = torch.randn(vocabulary, width, generator=generator) * 0.3
    return TargetParts(
        name="tiny-target",
        layers=layers,
        width=width,
        vocabulary=vocabulary,
        config=SimpleNamespace(model_type=family),
        embed=lambda ids: F.embedding(ids, embedding),
        output=lambda states: F.linear(states, output),
        like=embedding,
    )


def write_eagle(
    folder: Path,
    *,
    layers: int = 1,
    fc_bias: bool = False,
    own_embedding: bool = False,
    pickled: bool = False,
    seed: int = 0,
    **config: Any,
) -> Path:
    """Write an EAGLE-1 or EAGLE-2 head."""
    draw = _Drawing(seed, sigma=0.1)
    tensors = {"fc.weight": draw(WIDTH, 2 * WIDTH)}
    if fc_bias:
        tensors["fc.bias"] = draw(WIDTH)
    if own_embedding:
        tensors["embed_tokens.weight"] = draw(VOCABULARY, WIDTH, sigma=1.0)
    for index in range(layers):
        tensors |= _layer(draw, f"layers.{index}")
        if index == 0:
            del tensors["layers.0.input_layernorm.weight"]
    stated = _llama(WIDTH) | {"num_hidden_layers": layers} | config
    return write_folder(folder, stated, tensors, pickled=pickled)


def write_eagle3(
    folder: Path,
    *,
    layout: Layout = "official",
    layers: int = 1,
    width: int = WIDTH,
    target_width: int = WIDTH,
    joined: int = 3,
    draft_vocabulary: int = DRAFT_VOCABULARY,
    own_embedding: bool = False,
    output: bool = True,
    bias: bool = False,
    query_norms: bool = False,
    use_aux: bool = True,
    norm_before_fc: bool = False,
    fc_norm: bool = False,
    pickled: bool = False,
    seed: int = 0,
    layer_config: dict[str, Any] | None = None,
    **config: Any,
) -> Path:
    """Write an EAGLE-3 head.

    ``config`` and ``layer_config`` add entries to its config.json; None in the latter removes one.
    """
    draw = _Drawing(seed)
    first = "layers.0" if layout == "speculators" else "midlayer"
    tensors = {"norm.weight": draw.norm(width)}
    tensors |= _layer(draw, first, width, columns=2 * width, bias=bias, query_norms=query_norms)
    tensors[f"{first}.hidden_norm.weight"] = draw.norm(width)
    for index in range(1, layers):
        tensors |= _layer(draw, f"layers.{index}", width, bias=bias, query_norms=query_norms)
    if use_aux:
        tensors["fc.weight"] = draw(width, joined * target_width, sigma=0.1)
    if norm_before_fc:
        tensors["input_norm.weight"] = draw.norm(joined * target_width)
    if fc_norm:
        for index in range(joined):
            tensors[f"fc_norm.{index}.weight"] = draw.norm(target_width)
    if own_embedding:
        tensors["embed_tokens.weight"] = draw(VOCABULARY, width, sigma=1.0)
    if output:
        tensors["lm_head.weight"] = draw(draft_vocabulary, width)
    if draft_vocabulary < VOCABULARY:
        tensors |= draw.vocabulary_maps(draft_vocabulary)
    flags = {"norm_before_fc": norm_before_fc, "fc_norm": fc_norm}
    inner = _llama(width) | {"num_hidden_layers": layers, "attention_bias": bias}
    inner |= layer_config or {}
    inner = {name: each for name, each in inner.items() if each is not None}
    if not use_aux:
        config["eagle_config"] = {"use_aux_hidden_state": False}
    stated = {"draft_vocab_size": draft_vocabulary, **flags, **config}
    return write_folder(folder, _in_layout(layout, inner, stated), tensors, pickled=pickled)


def write_folder(
    folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor], *, pickled: bool = False
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if pickled:
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file(tensors, folder / _WEIGHTS)
    return folder


def change_tensors(folder: Path, change: Change) -> dict[str, torch.Tensor]:
    """Rewrite a folder's tensors after ``change``; return the new ones."""
    tensors = load_file(folder / _WEIGHTS)
    change(tensors)
    contiguous = {name: each.contiguous().clone() for name, each in tensors.items()}
    save_file(contiguous, folder / _WEIGHTS)
    return contiguous


def change_config(folder: Path, **entries: Any) -> None:
    """Rewrite a folder's config.json with other entries; None removes one."""
    file = folder / "config.json"
    changed = json.loads(file.read_text()) | entries
    file.write_text(json.dumps({name: each for name, each in changed.items() if each is not None}))


def opened(folder: Path, target: TargetParts | None = None) -> EagleHead:
    """Return the EAGLE head in a folder, by default for ``tiny_target()``."""
    facts = read_head(folder)
    assert facts is not None
    return open_eagle(facts, target or tiny_target())


def assert_close(found: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def random_rows(
    count: int, columns: int, *, vocabulary: int = VOCABULARY, seed: int = 5
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids ``[count]`` and states ``[count, columns]``."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(vocabulary, (count,), generator=generator)
    return ids, torch.randn(count, columns, generator=generator)


class _Drawing:
    def __init__(self, seed: int, sigma: float = 0.2) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._sigma = sigma

    def __call__(self, *shape: int, sigma: float | None = None) -> torch.Tensor:
        return torch.randn(*shape, generator=self._generator) * (sigma or self._sigma)

    def norm(self, width: int) -> torch.Tensor:
        return 1 + self(width)

    def vocabulary_maps(self, count: int) -> dict[str, torch.Tensor]:
        chosen = torch.randperm(VOCABULARY, generator=self._generator)[:count].sort().values
        known = torch.zeros(VOCABULARY, dtype=torch.bool)
        known[chosen] = True
        return {"d2t": chosen - torch.arange(count), "t2d": known}


def _llama(width: int) -> dict[str, Any]:
    return {
        "hidden_size": width,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_HEADS,
        "head_dim": width // HEADS,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 256,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
    }


def _layer(
    draw: _Drawing,
    prefix: str,
    width: int = WIDTH,
    *,
    columns: int | None = None,
    bias: bool = False,
    query_norms: bool = False,
) -> dict[str, torch.Tensor]:
    head_width = width // HEADS
    rows = {"q": HEADS * head_width, "k": KEY_HEADS * head_width, "v": KEY_HEADS * head_width}
    attention = f"{prefix}.self_attn"
    tensors = {
        f"{attention}.{name}_proj.weight": draw(count, columns or width)
        for name, count in rows.items()
    }
    if bias:
        tensors |= {f"{attention}.{name}_proj.bias": draw(count) for name, count in rows.items()}
        tensors[f"{attention}.o_proj.bias"] = draw(width)
    if query_norms:
        tensors |= {f"{attention}.{name}_norm.weight": draw.norm(head_width) for name in "qk"}
    tensors[f"{attention}.o_proj.weight"] = draw(width, HEADS * head_width)
    tensors |= {f"{prefix}.mlp.{name}_proj.weight": draw(INNER, width) for name in ("gate", "up")}
    tensors[f"{prefix}.mlp.down_proj.weight"] = draw(width, INNER)
    for name in ("input_layernorm", "post_attention_layernorm"):
        tensors[f"{prefix}.{name}.weight"] = draw.norm(width)
    return tensors


def _in_layout(layout: Layout, inner: dict[str, Any], stated: dict[str, Any]) -> dict[str, Any]:
    if layout == "official":
        return inner | stated
    if layout == "specforge":
        return inner | {"architectures": ["LlamaForCausalLMEagle3"]} | stated
    del inner["architectures"]
    proposal = {"proposal_type": "greedy", "speculative_tokens": 3}
    own = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "eagle_aux_hidden_state_layer_ids": list(LAYER_IDS),
        "norm_before_residual": True,
        "transformer_layer_config": inner,
        "speculators_config": {
            "algorithm": "eagle3",
            "proposal_methods": [proposal],
            "verifier": {"name_or_path": "maker/tiny-target"},
        },
    }
    return own | stated
