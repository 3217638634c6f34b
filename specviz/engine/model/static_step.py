"""A step with a static cache; its position in the text may be a tensor on the device.

The step uses the lean weights. The shapes of its tensors depend on how many tokens are fed and how
many cache rows are read, never on where the text ends. So a pass can be captured in a CUDA graph
and replayed, and ``feed_at`` never waits for the device. A rollback only sets the length: a mask
hides the rows beyond the text, and the next tokens overwrite them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from specviz.engine.model.lean import LeanStep, rotary_table
from specviz.engine.model.step_capabilities import Missing, StepCapabilities
from specviz.engine.model.wrapped_step import StepOver

if TYPE_CHECKING:
    from specviz.engine.model.lean_weights import LeanLayer, LeanWeights, Norm
    from specviz.engine.model.product import Product

_STEP_BY_STEP = "Use `--step lean`."
STATIC_CAPABILITIES = StepCapabilities(
    hidden_states=Missing("rounds on the device return no hidden states", _STEP_BY_STEP),
    trees=Missing("rounds on the device support neither several drafts nor trees", _STEP_BY_STEP),
    exits=Missing("rounds on the device do not support early exits", _STEP_BY_STEP),
    device_rounds=True,
)


class StaticStep(StepOver):
    """A step whose cache has ``rows`` rows, and a spare row for tokens at negative positions.

    ``feed`` and ``forget`` keep the position on the host; ``feed_at`` reads the position from a
    tensor.
    """

    def __init__(self, weights: LeanWeights, vocabulary: int, rows: int) -> None:
        self._weights = weights
        self._vocabulary = vocabulary
        self._spare = rows
        shape = (len(weights.layers), weights.key_heads, rows + 1, weights.head_width)
        # Zeros, because even masked entries must not be NaN.
        self._keys, self._values = (weights.embedding.new_zeros(shape) for _ in range(2))
        self._reader = LeanStep(
            weights, vocabulary, rows + 1, (self._keys[:, None], self._values[:, None])
        )
        super().__init__(self._reader)
        self._cos, self._sin = rotary_table(weights, rows + 1)
        self._windows = {layer.window for layer in weights.layers}

    @property
    def capabilities(self) -> StepCapabilities:
        return STATIC_CAPABILITIES

    @torch.inference_mode()
    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        begin = self.length
        if not num_logits:
            return self._reader.feed(token_ids, 0)
        self._reader.set_position(begin + len(token_ids))
        first = torch.tensor(begin, device=self.device)
        return self.feed_at(token_ids, first, self._spare, num_logits)

    def prefill(self, token_ids: torch.Tensor, begin: int) -> None:
        """Feed any number of tokens from position ``begin`` on; cannot be part of a CUDA graph."""
        self._reader.set_position(begin)
        self._reader.feed(token_ids, 0)

    def feed_at(
        self,
        token_ids: torch.Tensor,  # [num_tokens]
        first: torch.Tensor,  # []: position of the first token; may be below 0
        seen: int,
        num_logits: int,
    ) -> torch.Tensor:
        """Feed tokens from position ``first`` on; return float32 logits of the last tokens.

        The logits have the shape `[num_logits, vocabulary]`. The pass reads ``seen`` cache rows;
        all positions must be below ``seen``. A token attends to the text up to itself.
        """
        weights, count = self._weights, token_ids.shape[0]
        places = first + torch.arange(count, device=first.device)
        shown = places.clamp(min=0)
        rows = torch.where(places < 0, self._spare, places)
        turn = self._cos.index_select(0, shown), self._sin.index_select(0, shown)
        masks = {window: self._mask(shown, seen, window) for window in self._windows}
        x = F.embedding(token_ids, weights.embedding)
        for number, layer in enumerate(weights.layers):
            caches = self._keys[number], self._values[number]
            x = self._attend(layer, x, caches, rows, turn, masks[layer.window])
            x = _feed_forward(layer, x)
        x = _normed(weights.norm, x[count - num_logits :])
        return weights.head(x)[:, : self._vocabulary].float()

    def _mask(self, places: torch.Tensor, seen: int, window: int | None) -> torch.Tensor:
        """Return the additive mask `[query heads per key head * num_tokens, seen]`."""
        weights = self._weights
        columns = torch.arange(seen, device=places.device)[None]
        hidden = columns > places[:, None]
        if window is not None:
            hidden |= columns <= places[:, None] - window
        mask = torch.zeros_like(hidden, dtype=weights.embedding.dtype)
        mask.masked_fill_(hidden, float("-inf"))
        return mask.repeat(weights.heads // weights.key_heads, 1)

    def _attend(
        self,
        layer: LeanLayer,
        x: torch.Tensor,
        caches: tuple[torch.Tensor, torch.Tensor],
        rows: torch.Tensor,
        turn: tuple[torch.Tensor, torch.Tensor],
        mask: torch.Tensor,
    ) -> torch.Tensor:
        weights, count = self._weights, x.shape[0]
        heads, key_heads, width = weights.heads, weights.key_heads, weights.head_width
        mixed = layer.qkv(_normed(layer.attention_norm, x)).view(count, -1, width).transpose(0, 1)
        turned = mixed.narrow(0, 0, heads + key_heads)
        if layer.query_norm is not None and layer.key_norm is not None:
            parts = turned.split((heads, key_heads))
            turned = torch.cat(
                (_normed(layer.query_norm, parts[0]), _normed(layer.key_norm, parts[1]))
            )
        turned = torch.addcmul(turned * turn[0], turned.roll(width // 2, -1), turn[1])
        keys, values = caches
        keys.index_copy_(1, rows, turned.narrow(0, heads, key_heads))
        values.index_copy_(1, rows, mixed.narrow(0, heads + key_heads, key_heads))
        # Query heads that share a key head form one product, which reads that head's cache once.
        queries = turned.narrow(0, 0, heads).reshape(key_heads, -1, width)
        seen = mask.shape[1]
        scores = torch.baddbmm(
            mask, queries, keys.narrow(1, 0, seen).transpose(1, 2), alpha=width**-0.5
        )
        found = torch.bmm(scores.softmax(-1), values.narrow(1, 0, seen)).view(heads, count, width)
        flat = found.transpose(0, 1).reshape(count, heads * width)
        return _added(x, layer.output, flat)


def _normed(norm: Norm, x: torch.Tensor) -> torch.Tensor:
    """Return the RMSNorm of ``x``; one kernel call computes it and rounds only once."""
    return F.rms_norm(x, x.shape[-1:], norm.weight, norm.eps)


def _feed_forward(layer: LeanLayer, x: torch.Tensor) -> torch.Tensor:
    gate, up = layer.gate_up(_normed(layer.feed_forward_norm, x)).chunk(2, -1)
    return _added(x, layer.down, F.silu(gate) * up)


def _added(x: torch.Tensor, product: Product, rows: torch.Tensor) -> torch.Tensor:
    """Return ``x + product(rows)``, in one kernel call if the product has no bias."""
    if product.bias is None:
        return torch.addmm(x, rows, product.weight.T)
    return x + product(rows)
