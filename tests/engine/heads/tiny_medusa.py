"""Random tiny Medusa heads, written as folders in each layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.engine.heads.tiny_heads import VOCABULARY, WIDTH, write_folder

COUNT, DEPTH = 3, 2


def medusa_tensors(
    *, count: int = COUNT, depth: int = DEPTH, rows: int = VOCABULARY, seed: int = 0
) -> dict[str, torch.Tensor]:
    """The tensors by the names of the authors' code; blocks of one head are copies there."""
    generator = torch.Generator().manual_seed(seed)
    tensors: dict[str, torch.Tensor] = {}
    for head in range(count):
        weight = torch.randn(WIDTH, WIDTH, generator=generator) * 0.2
        bias = torch.randn(WIDTH, generator=generator) * 0.2
        for block in range(depth):
            tensors[f"{head}.{block}.linear.weight"] = weight.clone()
            tensors[f"{head}.{block}.linear.bias"] = bias.clone()
        tensors[f"{head}.{depth}.weight"] = torch.randn(rows, WIDTH, generator=generator) * 0.3
    return tensors


def without(tensors: dict[str, torch.Tensor], ending: str) -> dict[str, torch.Tensor]:
    return {name: each for name, each in tensors.items() if not name.endswith(ending)}


def in_vllm_form(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same tensors by vLLM's names."""
    renamed = {}
    for name, each in tensors.items():
        head, block, *rest = name.split(".")
        if rest == ["weight"]:
            renamed[f"lm_heads.{head}.weight"] = each
        else:
            renamed[f"blocks.{head}.layers.{block}.{rest[-1]}"] = each
    return renamed


def write_medusa(
    folder: Path, tensors: dict[str, torch.Tensor] | None = None, **config: Any
) -> Path:
    """Write a head in one safetensors file, with the number of heads that old files state."""
    tensors = medusa_tensors() if tensors is None else tensors
    stated = {"medusa_num_heads": 2, "medusa_num_layers": 1, "model_type": "medusa"}
    return write_folder(folder, stated | config, tensors)


def write_official_names(folder: Path, tensors: dict[str, torch.Tensor], ending: str) -> Path:
    """Write a head into ``medusa_lm_head`` with this ending, ".pt" or ".safetensors"."""
    write_medusa(folder, tensors)
    (folder / "model.safetensors").unlink()
    if ending == ".pt":
        torch.save(tensors, folder / "medusa_lm_head.pt")
    else:
        save_file(tensors, folder / "medusa_lm_head.safetensors")
    return folder
