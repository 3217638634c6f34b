"""The lean step: a forward pass of Llama-shaped models without transformers' Python overhead.

On a CPU, a pass of a few tokens is one call of compiled code (``compiled_step.py``). Longer passes
and other devices use torch. Caches are allocated once, and rollback only sets a length. Before the
loader uses this step, it compares the step's logits with the logits of transformers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F

from specviz.engine.model.compiled_step import CompiledStep
from specviz.engine.model.exits import require_exit
from specviz.engine.model.step_capabilities import (
    AFTER_NORM,
    FINAL,
    HiddenStates,
    StepCapabilities,
    joined,
)
from specviz.engine.model.steps import Step
from specviz.engine.model.tensors import in_inference_mode
from specviz.engine.model.trees import OpenNodes
from specviz.kernels.step import MOST_ROWS

if TYPE_CHECKING:
    from specviz.engine.model.lean_weights import LeanWeights


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """The cache rows that one pass writes, with the cos and sin of RoPE and the attention masks."""

    begin: int
    end: int
    cos: torch.Tensor  # [count, head_width]
    sin: torch.Tensor
    views: dict[int | None, _View]  # by window


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """The cache rows that new tokens attend to: from ``first`` on, unless the mask hides a row."""

    first: int
    mask: torch.Tensor | None  # additive [new, seen]


class LeanStep(Step):
    """A step with a cache of fixed capacity.

    ``caches``: the tensors that store keys and values, for example another step's tensors. By
    default, the step allocates new tensors.
    """

    def __init__(
        self,
        weights: LeanWeights,
        vocabulary: int,
        capacity: int,
        caches: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        self._weights = weights
        self._vocabulary = vocabulary
        self._num_outputs = weights.num_outputs(vocabulary)
        self._capacity = capacity
        self._length = 0
        self._nodes = OpenNodes()
        self._exits: list[LeanStep] = []
        self._states, self._keeps_all = FINAL, False  # which to keep; of all tokens?
        self._places = np.array(FINAL.places)
        self._hidden: torch.Tensor | None = None
        self._keys, self._values = caches or _empty_caches(weights, capacity)
        self._cos, self._sin = rotary_table(weights, capacity)
        self._windows = {layer.window for layer in weights.layers}
        self._layer_caches = list(zip(weights.layers, self._keys, self._values, strict=True))
        self._compiled = None
        if weights.compiled is not None:
            caches = (self._keys.transpose(0, 1), self._values.transpose(0, 1))
            self._compiled = CompiledStep(weights.compiled, *caches, self._cos, self._sin)

    @property
    def capabilities(self) -> StepCapabilities:
        return self._weights.capabilities

    @property
    def length(self) -> int:
        return self._length

    @property
    def device(self) -> torch.device:
        return self._weights.like.device

    def copy_rows(self, other: Step, count: int) -> None:
        assert self._length == 0
        if not isinstance(other, LeanStep) or other._weights is not self._weights:
            return
        for own, rows in ((self._keys, other._keys), (self._values, other._values)):
            own.narrow(3, 0, count).copy_(rows.narrow(3, 0, count))
        self.set_position(count)

    def request_hidden(self, states: HiddenStates) -> None:
        assert set(states.places) <= set(self._weights.hidden_places)
        self._states, self._keeps_all = states, True
        self._places = np.array(states.places)

    @property
    def hidden(self) -> torch.Tensor | None:
        return self._hidden

    def forget(self, count: int) -> None:
        assert 0 <= count <= self._length
        assert not self._nodes
        self.set_position(self._length - count)

    @in_inference_mode
    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        count = token_ids.shape[0]
        assert not self._nodes
        assert self._length + count <= self._capacity
        if self._compiled is None or count > MOST_ROWS:
            logits = self._run_in_torch(token_ids, self.span(count), num_logits)
        else:
            kept = self._num_kept(count, num_logits)
            logits, self._hidden = self._compiled.feed(
                token_ids, self._length, num_logits, self._num_outputs, kept, self._places
            )
        self.set_position(self._length + count)
        return self._weights.whole(logits, self._vocabulary)

    @in_inference_mode
    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        self._nodes.add(parents)
        assert self._length + len(self._nodes) <= self._capacity
        if self._compiled is None:
            count = token_ids.shape[0]
            logits = self._run_in_torch(token_ids, self._span_of_nodes(count), count)
        else:
            logits, self._hidden = self._compiled.branch(
                token_ids, self._length, self._nodes, self._num_outputs, self._places
            )
        return self._weights.whole(logits, self._vocabulary)

    @in_inference_mode
    def keep(self, nodes: Sequence[int]) -> None:
        self._nodes.settle(nodes)
        if list(nodes) != list(range(len(nodes))):
            rows = torch.tensor(nodes, device=self.device) + self._length
            for cache in (self._keys, self._values):
                cache.narrow(3, self._length, len(nodes)).copy_(cache.index_select(3, rows))
        self.set_position(self._length + len(nodes))

    def early_exit(self, layers: int) -> LeanStep:
        require_exit(self._weights.exits, layers)
        caches = (self._keys[:layers], self._values[:layers])
        step = LeanStep(self._weights.first(layers), self._vocabulary, self._capacity, caches)
        step.set_position(self._length)
        self._exits.append(step)
        return step

    def set_position(self, length: int) -> None:
        """Set the number of tokens in the cache, for this step and for its early exits."""
        self._length = length
        for each in self._exits:
            each._nodes.settle(())
            each.set_position(length)

    def _run_in_torch(self, token_ids: torch.Tensor, span: Span, num_logits: int) -> torch.Tensor:
        weights, kept = self._weights, self._num_kept(len(token_ids), num_logits)
        streams = dict[int, torch.Tensor]()
        x = weights.embed(token_ids)
        for number, layer in enumerate(weights.layers):
            if number in self._states.places:
                streams[number] = x[-kept:].clone()
            rows = layer.qkv(layer.attention_norm(x))
            x += layer.output(self.attended(number, rows, span))
            x += feed_forward(layer, x)
        streams[len(self._layer_caches)] = x[-kept:]
        streams[AFTER_NORM] = x = weights.norm(x[-kept:])
        self._hidden = joined([streams[place] for place in self._states.places])
        return weights.head(x[-max(1, num_logits) :])[:, : self._num_outputs].float()

    def _num_kept(self, count: int, num_logits: int) -> int:
        """Return how many last tokens of a pass of ``count`` tokens have hidden states kept."""
        return count if self._keeps_all else max(1, num_logits)

    def span(self, count: int) -> Span:
        begin, end = self._length, self._length + count
        views = {
            window: _View(_first_seen(window, begin), _mask(window, begin, end, self._weights))
            for window in self._windows
        }
        return Span(begin, end, self._cos[begin:end], self._sin[begin:end], views)

    def _span_of_nodes(self, count: int) -> Span:
        """Return the cache rows and masks of a pass over the newest ``count`` nodes of the tree."""
        end = self._length + len(self._nodes)
        positions = torch.tensor(self._nodes.depths(count), device=self.device) + self._length
        views: dict[int | None, _View] = {}
        for window in self._windows:
            first = _first_seen(window, self._length)
            unseen = self._nodes.unseen(count, self._length, window, first)
            views[window] = _View(first, _additive(unseen.to(self.device), self._weights))
        return Span(end - count, end, self._cos[positions], self._sin[positions], views)

    def attended(self, number: int, rows: torch.Tensor, span: Span) -> torch.Tensor:
        """Write the new keys and values of a layer; return the attention output of its heads.

        Args:
            number: The number of the layer.
            rows: The queries, keys and values of the new tokens, before the rotation.

        Returns:
            `[num_tokens, heads * head_width]`.
        """
        layer, keys, values = self._layer_caches[number]
        weights = self._weights
        heads, key_heads, width = weights.heads, weights.key_heads, weights.head_width
        count = span.end - span.begin
        rows = rows.view(1, count, -1, width).transpose(1, 2)
        turned = rotated(layer, rows, (heads, key_heads), span.cos, span.sin)
        keys.narrow(2, span.begin, count).copy_(turned.narrow(1, heads, key_heads))
        values.narrow(2, span.begin, count).copy_(rows.narrow(1, heads + key_heads, key_heads))
        view = span.views[layer.window]
        mixed = F.scaled_dot_product_attention(
            turned.narrow(1, 0, heads),
            keys.narrow(2, view.first, span.end - view.first),
            values.narrow(2, view.first, span.end - view.first),
            attn_mask=view.mask,
            enable_gqa=heads != key_heads,
        )
        return mixed.transpose(1, 2).reshape(count, heads * width)


def rotated(
    layer: Any, rows: torch.Tensor, heads: tuple[int, int], cos: torch.Tensor, sin: torch.Tensor
) -> torch.Tensor:
    """Return queries and keys `[text, head, token, width]`, after their norms and RoPE.

    Args:
        layer: A layer of a lean step or a drafting head; its norms are optional.
        rows: Queries, keys and values.
        heads: The numbers of query heads and of key heads.
        cos, sin: The rows of ``rotary_table`` for the tokens' positions.
    """
    turned = rows.narrow(1, 0, sum(heads))
    if layer.query_norm is not None and layer.key_norm is not None:
        parts = turned.split(heads, 1)
        turned = torch.cat((layer.query_norm(parts[0]), layer.key_norm(parts[1])), 1)
    return torch.addcmul(turned * cos, turned.roll(turned.shape[-1] // 2, -1), sin)


def _empty_caches(weights: LeanWeights, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys and values `[layer, 1, key_head, row, head_width]`."""
    shape = (len(weights.layers), 1, weights.key_heads, capacity, weights.head_width)
    like = weights.like
    keys = torch.empty(shape, dtype=like.dtype, device=like.device)
    return keys, torch.empty_like(keys)


def _first_seen(window: int | None, begin: int) -> int:
    """Return the first position that the first new token attends to."""
    return 0 if window is None else max(0, begin + 1 - window)


def feed_forward(layer: Any, x: torch.Tensor) -> torch.Tensor:
    """Return what the feed-forward block of a layer adds to the residual stream.

    Args:
        layer: A layer of a lean step or of a drafting head.
    """
    gate, up = layer.gate_up(layer.feed_forward_norm(x)).chunk(2, -1)
    return layer.down(F.silu(gate) * up)


def _mask(window: int | None, begin: int, end: int, weights: LeanWeights) -> torch.Tensor | None:
    """Return an additive mask `[new, seen]`; None for a single token, which needs no mask."""
    if end - begin == 1:
        return None
    like = weights.like
    first = _first_seen(window, begin)
    queries = torch.arange(begin, end, device=like.device)[:, None]
    positions = torch.arange(first, end, device=like.device)[None]
    hidden = positions > queries
    if window is not None:
        hidden = hidden | (positions <= queries - window)
    return _additive(hidden, weights)


def _additive(hidden: torch.Tensor, weights: LeanWeights) -> torch.Tensor:
    like = weights.like
    return torch.zeros_like(hidden, dtype=like.dtype).masked_fill_(hidden, float("-inf"))


def rotary_table(weights: LeanWeights, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cos and sin `[capacity, head_width]`, such that x * cos + roll(x) * sin rotates x.

    ``roll`` swaps the halves of x. The first half of sin is negated.
    """
    positions = torch.arange(capacity, device=weights.inverse_frequencies.device).float()
    angles = positions[:, None] * weights.inverse_frequencies[None]
    cos = torch.cat((angles.cos(), angles.cos()), -1) * weights.rope_scale
    sin = torch.cat((-angles.sin(), angles.sin()), -1) * weights.rope_scale
    like = weights.like
    return cos.to(like), sin.to(like)
