"""A Llama with static KV caches and one token per step, written for ``torch.compile``.

As in gpt-fast, the position is a tensor on the device, the mask is computed from it, and the step
ends with argmax, so the host does not have to wait for the device between two tokens. The weights
are those of the loaded pair.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.engine.model.lean import rotary_table
from specviz.engine.model.lean_weights import LeanLayer, LeanWeights
from specviz.engine.model.product import Product

_Turn = tuple[Tensor, Tensor]  # cosines and sines of the positions


class StaticLlama(nn.Module):
    """A model with KV caches for ``rows`` tokens.

    Weights are buffers, so that the compiler knows that their addresses are constant.
    """

    def __init__(self, weights: LeanWeights, vocabulary: int, rows: int) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._rows = rows
        cos, sin = rotary_table(weights, rows)
        self.embedding, self.cos, self.sin = (
            nn.Buffer(weights.embedding),
            nn.Buffer(cos),
            nn.Buffer(sin),
        )
        self.norm = _Norm(weights.norm.weight, weights.norm.eps)
        self.head = _Linear(weights.head)
        self.layers = nn.ModuleList(_Layer(layer, weights, rows) for layer in weights.layers)

    def forward(self, token_ids: Tensor, places: Tensor) -> Tensor:
        """Return the id of the next token after ``token_ids``, shape `[1]`.

        Args:
            token_ids: Shape `[num_tokens]`.
            places: Positions of the tokens, shape `[num_tokens]`.
        """
        x = F.embedding(token_ids, self.embedding)
        turn = self.cos[places], self.sin[places]
        hidden = torch.arange(self._rows, device=places.device)[None] > places[:, None]
        for layer in self.layers:
            x = layer(x, places, turn, hidden)
        return self.head(self.norm(x[-1:]))[:, : self._vocabulary].argmax(-1)


def cannot_compile(weights: object) -> str:
    """Return why a model is not supported, or "" if it is."""
    if not isinstance(weights, LeanWeights):
        return "its model family is not supported by specviz's own (lean) step"
    odd = any(layer.window is not None or layer.query_norm is not None for layer in weights.layers)
    return "it has sliding windows or head norms" if odd else ""


class _Layer(nn.Module):
    def __init__(self, layer: LeanLayer, weights: LeanWeights, rows: int) -> None:
        super().__init__()
        self._heads, self._key_heads = weights.heads, weights.key_heads
        self._width = weights.head_width
        self.attention_norm = _Norm(layer.attention_norm.weight, layer.attention_norm.eps)
        self.feed_forward_norm = _Norm(layer.feed_forward_norm.weight, layer.feed_forward_norm.eps)
        self.qkv, self.output = _Linear(layer.qkv), _Linear(layer.output)
        self.gate_up, self.down = _Linear(layer.gate_up), _Linear(layer.down)
        shape = (weights.key_heads, rows, weights.head_width)
        self.keys, self.values = (nn.Buffer(weights.embedding.new_zeros(shape)) for _ in range(2))

    def forward(self, x: Tensor, places: Tensor, turn: _Turn, hidden: Tensor) -> Tensor:
        x = x + self.output(self._attended(self.attention_norm(x), places, turn, hidden))
        gate, up = self.gate_up(self.feed_forward_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)

    def _attended(self, x: Tensor, places: Tensor, turn: _Turn, hidden: Tensor) -> Tensor:
        count, width = x.shape[0], self._width
        mixed = self.qkv(x).view(count, -1, width).transpose(0, 1)
        queries, keys, values = mixed.split((self._heads, self._key_heads, self._key_heads))
        self.keys.index_copy_(1, places, _turned(keys, turn))
        self.values.index_copy_(1, places, values)
        # One product serves all query heads of a key head, so the key head's cache is read once.
        rows = _turned(queries, turn).reshape(self._key_heads, -1, width)
        scores = torch.bmm(rows, self.keys.transpose(1, 2)) * width**-0.5
        scores = scores.masked_fill(hidden.repeat(self._heads // self._key_heads, 1), -torch.inf)
        found = torch.bmm(scores.softmax(-1, dtype=torch.float32).to(x.dtype), self.values)
        return found.view(self._heads, count, width).transpose(0, 1).reshape(count, -1)


class _Norm(nn.Module):
    def __init__(self, weight: Tensor, eps: float) -> None:
        super().__init__()
        self.weight = nn.Buffer(weight)
        self._eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), x.shape[-1:], None, self._eps).to(x.dtype) * self.weight


class _Linear(nn.Module):
    def __init__(self, product: Product) -> None:
        super().__init__()
        self.weight = nn.Buffer(product.weight)
        self.bias = None if product.bias is None else nn.Buffer(product.bias)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


def _turned(x: Tensor, turn: _Turn) -> Tensor:
    return x * turn[0] + x.roll(x.shape[-1] // 2, -1) * turn[1]
