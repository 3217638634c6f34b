"""An EAGLE-3 head in training, which begins as a copy of parts of its target (Li et al. 2025).

Row t joins the target's states at token t with the embedding of token t + 1 and predicts token
t + 2. For later candidates, the row continues from the head's own state, as in drafting: the row
attends to the rows of the text up to t and to its own earlier states.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from specviz.record.pairs import pair_title
from specviz.store.files import write_file
from specviz.training.drafts.draft import Draft, halved, rotation_keys
from specviz.training.drafts.losses import Learned
from specviz.training.drafts.numbered_files import write_tensors
from specviz.training.drafts.stored_states import Window
from specviz.training.drafts.target_weights import TargetWeights, matrix_of


class Eagle3Draft(Draft):
    def __init__(
        self, target: TargetWeights, places: Sequence[int], kept: torch.Tensor, positions: int
    ) -> None:
        super().__init__()
        self.places = tuple(places)
        self._target, self._positions = target, positions
        lean, width, inner = target.lean, target.width, target.inner
        rows, shared = lean.heads * lean.head_width, lean.key_heads * lean.head_width
        self.keep(kept, target.vocabulary)
        self.fc = nn.Linear(width * len(places), width, bias=False)
        self.q, self.k, self.v = (
            nn.Linear(2 * width, size, bias=False) for size in (rows, shared, shared)
        )
        self.o = nn.Linear(rows, width, bias=False)
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)
        self.embedding_norm, self.state_norm, self.forward_norm, self.norm = (
            nn.Parameter(torch.ones(width)) for _ in range(4)
        )
        self.head = nn.Linear(width, len(kept), bias=False)
        angles = lean.inverse_frequencies
        self._angles, self._scale = torch.cat((angles, angles)), lean.rope_scale
        self._begin()

    @torch.no_grad()
    def _begin(self) -> None:
        """Copy the target's last layer, norm and output; make ``fc`` return its last input."""
        target, width = self._target, self._target.width
        last = target.layers[-1]
        sizes = [each.out_features for each in (self.q, self.k, self.v)]
        for own, taken in zip(
            (self.q, self.k, self.v), matrix_of(last.qkv).split(sizes), strict=True
        ):
            own.weight[:, :width].zero_()
            own.weight[:, width:].copy_(taken)
        self.fc.weight.zero_()
        self.fc.weight[:, -width:].copy_(torch.eye(width))
        self.o.weight.copy_(matrix_of(last.output))
        gate, up = matrix_of(last.gate_up).chunk(2)
        self.gate.weight.copy_(gate)
        self.up.weight.copy_(up)
        self.down.weight.copy_(matrix_of(last.down))
        self.state_norm.copy_(last.attention_norm.weight)
        self.forward_norm.copy_(last.feed_forward_norm.weight)
        self.norm.copy_(target.lean.norm.weight)
        self.head.weight.copy_(target.output[self.kept])

    def learn(self, window: Window, overlap: float) -> Learned:
        target, positions = self._target, self._positions
        rows = window.ids.shape[1] - positions
        embedded = target.embed(window.ids)
        state, memory = self.fc(window.states[:, :rows]), list[tuple[torch.Tensor, torch.Tensor]]()
        logs = list[torch.Tensor]()
        for number in range(positions):
            at = torch.arange(rows) + number
            state = self._row(embedded[:, 1 + number :][:, :rows], state, at, memory)
            logs.append(self.head(_normed(state, self.norm, target.eps)).log_softmax(-1))
        return self.learned(logs, window, target.output, overlap)

    def _row(
        self,
        embedded: torch.Tensor,
        state: torch.Tensor,
        at: torch.Tensor,
        memory: list[tuple[torch.Tensor, torch.Tensor]],
    ) -> torch.Tensor:
        """Return the next states `[text, row, width]`; add the keys and values to ``memory``."""
        lean, eps = self._target.lean, self._target.eps
        texts, rows, _ = state.shape
        x = torch.cat(
            [_normed(embedded, self.embedding_norm, eps), _normed(state, self.state_norm, eps)], -1
        )
        q, k, v = (
            each(x).view(texts, rows, -1, lean.head_width).transpose(1, 2)
            for each in (self.q, self.k, self.v)
        )
        q, k = self._turned(q, at), self._turned(k, at)
        groups = lean.heads // lean.key_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        memory.append((k, v))
        mixed = _mixed(q, memory)
        state = state + self.o(mixed.transpose(1, 2).reshape(texts, rows, -1))
        inside = _normed(state, self.forward_norm, eps)
        return state + self.down(F.silu(self.gate(inside)) * self.up(inside))

    def _turned(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        angles = at[:, None] * self._angles
        first, second = x.chunk(2, -1)
        turned = torch.cat((-second, first), -1)
        return (x * angles.cos() + turned * angles.sin()) * self._scale

    def write(self, folder: Path) -> None:
        tensors, config = self.files()
        write_tensors(folder / "model.safetensors", tensors)
        write_file(folder / "config.json", json.dumps(config, indent=2) + "\n")

    def files(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Return the tensors in the layout of EAGLE-3's authors, and the configuration."""
        target, lean = self._target, self._target.lean
        tensors = {
            "fc.weight": self.fc.weight,
            "midlayer.input_layernorm.weight": self.embedding_norm,
            "midlayer.hidden_norm.weight": self.state_norm,
            "midlayer.self_attn.q_proj.weight": self.q.weight,
            "midlayer.self_attn.k_proj.weight": self.k.weight,
            "midlayer.self_attn.v_proj.weight": self.v.weight,
            "midlayer.self_attn.o_proj.weight": self.o.weight,
            "midlayer.post_attention_layernorm.weight": self.forward_norm,
            "midlayer.mlp.gate_proj.weight": self.gate.weight,
            "midlayer.mlp.up_proj.weight": self.up.weight,
            "midlayer.mlp.down_proj.weight": self.down.weight,
            "norm.weight": self.norm,
            "lm_head.weight": self.head.weight,
        }
        known = torch.zeros(len(target.output), dtype=torch.bool)
        known[self.kept] = True
        offsets = {"d2t": self.kept - torch.arange(len(self.kept)), "t2d": known}
        config = {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            "hidden_size": target.width,
            "intermediate_size": target.inner,
            "num_attention_heads": lean.heads,
            "num_key_value_heads": lean.key_heads,
            "head_dim": lean.head_width,
            "num_hidden_layers": 1,
            "hidden_act": "silu",
            "rms_norm_eps": target.eps,
            "attention_bias": False,
            "tie_word_embeddings": False,
            "vocab_size": len(target.output),
            "draft_vocab_size": len(self.kept),
            "max_position_embeddings": target.config.max_position_embeddings,
            **rotation_keys(target.config),
            "target_model": pair_title(target.name),
            "eagle_aux_hidden_state_layer_ids": list(self.places),
        }
        return halved(tensors) | offsets, config


def _mixed(q: torch.Tensor, memory: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """Return the output of attention.

    Each row attends to the text's rows up to itself and to its own earlier states. The first entry
    of ``memory`` has the keys and values of the text's rows. Each later entry has, for every row,
    the key and the value of one of the row's earlier states.
    """
    (keys, values), own = memory[0], memory[1:]
    if not own:
        return F.scaled_dot_product_attention(q, keys, values, is_causal=True)
    scale, rows = q.shape[-1] ** -0.5, q.shape[2]
    hidden = torch.ones(rows, rows, dtype=torch.bool).triu(1)
    scores = (q @ keys.transpose(-1, -2) * scale).masked_fill(hidden, float("-inf"))
    beside = torch.stack([(q * each).sum(-1) * scale for each, _ in own], -1)
    shares = torch.cat([scores, beside], -1).softmax(-1)
    mixed = shares[..., :rows] @ values
    for number, (_, each) in enumerate(own):
        mixed = mixed + shares[..., rows + number, None] * each
    return mixed


def _normed(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return F.rms_norm(x, x.shape[-1:], weight, eps)
