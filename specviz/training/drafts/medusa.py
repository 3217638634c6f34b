"""Medusa heads in training, which begin as copies of the target's output matrix (Cai et al. 2024).

Each head reads the target's final state at token t. Head h predicts token t + 2 + h. Each head has
a residual block and an output matrix.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from specviz.record.pairs import pair_title
from specviz.store.files import write_file
from specviz.training.drafts.draft import Draft, halved
from specviz.training.drafts.losses import Learned
from specviz.training.drafts.numbered_files import write_tensors
from specviz.training.drafts.stored_states import Window
from specviz.training.drafts.target_weights import TargetWeights


class MedusaDraft(Draft):
    def __init__(self, target: TargetWeights, kept: torch.Tensor, heads: int) -> None:
        super().__init__()
        self._target = target
        self.keep(kept, target.vocabulary)
        width = target.width
        self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(heads)])
        self.heads = nn.ModuleList([nn.Linear(width, len(kept), bias=False) for _ in range(heads)])
        for block, head in zip(self.blocks, self.heads, strict=True):
            for parameter in block.parameters():
                nn.init.zeros_(parameter)
            with torch.no_grad():
                head.get_parameter("weight").copy_(target.output[kept])

    def learn(self, window: Window, overlap: float) -> Learned:
        state = window.final[:, : window.ids.shape[1] - len(self.heads)]
        logs = [
            head(state + F.silu(block(state))).log_softmax(-1)
            for block, head in zip(self.blocks, self.heads, strict=True)
        ]
        return self.learned(logs, window, self._target.output, overlap)

    def write(self, folder: Path) -> None:
        """Write the heads in vLLM's format.

        The file has a token map if the heads propose only a part of the vocabulary.
        """
        tensors = dict[str, torch.Tensor]()
        for number, (block, head) in enumerate(zip(self.blocks, self.heads, strict=True)):
            tensors[f"blocks.{number}.layers.0.weight"] = block.get_parameter("weight")
            tensors[f"blocks.{number}.layers.0.bias"] = block.get_parameter("bias")
            tensors[f"lm_heads.{number}.weight"] = head.get_parameter("weight")
        target = self._target
        config = {
            "architectures": ["MedusaModel"],
            "model_type": "medusa",
            "num_heads": len(self.heads),
            "num_hidden_layers": 1,
            "hidden_size": target.width,
            "vocab_size": target.vocabulary,
            "truncated_vocab_size": len(self.kept),
            "original_lm_head": False,
            "medusa_fc_bias": True,
            "base_model_name_or_path": pair_title(target.name),
        }
        reduced = len(self.kept) < target.vocabulary
        token_map = {"token_map": self.kept} if reduced else {}
        write_tensors(folder / "model.safetensors", halved(tensors) | token_map)
        write_file(folder / "config.json", json.dumps(config, indent=2) + "\n")
