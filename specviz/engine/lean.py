"""The lean step: Llama-shaped models without the Python of a modelling library.

Llama, Mistral, Qwen2, Qwen3 and whatever else has their shape. Weights are taken from the
loaded transformers model: q, k, v and gate, up are each joined into one matrix, and the
model's own parameters become views into it, so nothing is held twice. Caches are allocated
once and rollback is a length. Fully unsupported configurations give None, and the loader
compares the logits with the library's before it trusts this path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers import PreTrainedModel

_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
_PLAIN_ROPE = ("default", "llama3", "linear", "yarn")
_PACKED_LIMIT = 1 << 29  # bytes of weights that may be held a second time, packed
_PACKED_FROM = 300_000  # multiply-adds from which a packed product beats a plain one


class Linear:
    """A matrix product that picks the faster kernel for few or many rows.

    For several rows on a CPU, oneDNN with packed weights is up to three times as fast as
    the default; for one row its call overhead costs more than it gains.
    """

    __slots__ = ("_bias", "_packed", "_weight", "_work")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, *, pack: bool) -> None:
        self._weight = weight
        self._bias = bias
        self._work = weight.numel()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, 8) if pack else None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self._packed is not None and x.shape[0] * self._work >= _PACKED_FROM:
            return torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, "none", [], "")
        return F.linear(x, self._weight, self._bias)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LeanLayer:
    attention_norm: torch.Tensor
    qkv: Linear
    query_norm: torch.Tensor | None  # Qwen3 normalises each head
    key_norm: torch.Tensor | None
    output: Linear
    feed_forward_norm: torch.Tensor
    gate_up: Linear
    down: Linear
    window: int | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LeanWeights:
    """All that a lean step reads; shared by every run of a pair."""

    embedding: torch.Tensor  # [vocabulary, width]
    layers: tuple[LeanLayer, ...]
    norm: torch.Tensor
    head: Linear
    eps: float
    heads: int
    key_heads: int
    head_width: int
    inverse_frequencies: torch.Tensor  # [head_width / 2]
    rope_scale: float

    @staticmethod
    def take(model: PreTrainedModel) -> LeanWeights | None:
        """The weights of a model whose configuration is fully supported, else None."""
        if not _supported(model):
            return None
        config: Any = model.config
        body: Any = model.model
        head: Any = model.lm_head
        pack = _may_pack(model)
        head_width = getattr(config, "head_dim", None)
        return LeanWeights(
            embedding=body.embed_tokens.weight,
            layers=tuple(
                _take_layer(layer, _window(config, i), pack) for i, layer in enumerate(body.layers)
            ),
            norm=body.norm.weight,
            head=Linear(head.weight, head.bias, pack=pack),
            eps=config.rms_norm_eps,
            heads=config.num_attention_heads,
            key_heads=config.num_key_value_heads,
            head_width=head_width or config.hidden_size // config.num_attention_heads,
            inverse_frequencies=body.rotary_emb.inv_freq.float(),
            rope_scale=float(body.rotary_emb.attention_scaling),
        )


class LeanStep:
    """One model with a cache of fixed capacity; see ``steps.Step`` for the contract."""

    def __init__(self, weights: LeanWeights, vocabulary: int, capacity: int) -> None:
        self._weights = weights
        self._vocabulary = vocabulary
        self._capacity = capacity
        self._length = 0
        self._hidden: torch.Tensor | None = None
        like = weights.embedding
        shape = (len(weights.layers), weights.key_heads, capacity, weights.head_width)
        self._keys = torch.empty(shape, dtype=like.dtype, device=like.device)
        self._values = torch.empty(shape, dtype=like.dtype, device=like.device)
        self._cos, self._sin = _rotary_table(weights, capacity)
        self._layer_caches = list(zip(weights.layers, self._keys, self._values, strict=True))

    @property
    def length(self) -> int:
        return self._length

    @property
    def device(self) -> torch.device:
        return self._weights.embedding.device

    @property
    def hidden(self) -> torch.Tensor | None:
        return self._hidden

    def forget(self, count: int) -> None:
        assert 0 <= count <= self._length
        self._length -= count

    @torch.inference_mode()
    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        weights = self._weights
        begin, end = self._length, self._length + token_ids.shape[0]
        assert end <= self._capacity
        x = F.embedding(token_ids, weights.embedding)
        cos, sin = self._cos[begin:end], self._sin[begin:end]
        for layer, keys, values in self._layer_caches:
            x = x + self._attend(layer, x, cos, sin, keys, values, begin, end)
            x = x + _feed_forward(layer, x, weights.eps)
        self._length = end
        x = _rms_norm(x[-max(1, num_logits) :], weights.norm, weights.eps)
        self._hidden = x
        return weights.head(x)[:, : self._vocabulary].float()

    def _attend(
        self,
        layer: LeanLayer,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        begin: int,
        end: int,
    ) -> torch.Tensor:
        weights = self._weights
        heads, key_heads, width = weights.heads, weights.key_heads, weights.head_width
        count = end - begin
        rows = layer.qkv(_rms_norm(x, layer.attention_norm, weights.eps))
        rows = rows.view(count, heads + 2 * key_heads, width)
        turned = rows[:, : heads + key_heads]
        if layer.query_norm is not None and layer.key_norm is not None:
            queries = _rms_norm(turned[:, :heads], layer.query_norm, weights.eps)
            turned = torch.cat(
                (queries, _rms_norm(turned[:, heads:], layer.key_norm, weights.eps)), 1
            )
        turned = turned * cos + turned.roll(width // 2, -1) * sin
        keys[:, begin:end] = turned[:, heads:].transpose(0, 1)
        values[:, begin:end] = rows[:, heads + key_heads :].transpose(0, 1)
        first = max(0, begin + 1 - layer.window) if layer.window else 0
        mixed = F.scaled_dot_product_attention(
            turned[:, :heads].transpose(0, 1)[None],
            keys[None, :, first:end],
            values[None, :, first:end],
            attn_mask=_mask(layer.window, begin, end, first, x),
            enable_gqa=heads != key_heads,
        )
        return layer.output(mixed[0].transpose(0, 1).reshape(count, heads * width))


def _rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def _feed_forward(layer: LeanLayer, x: torch.Tensor, eps: float) -> torch.Tensor:
    gate, up = layer.gate_up(_rms_norm(x, layer.feed_forward_norm, eps)).chunk(2, -1)
    return layer.down(F.silu(gate) * up)


def _mask(
    window: int | None, begin: int, end: int, first: int, like: torch.Tensor
) -> torch.Tensor | None:
    """Additive mask [new, seen]; a single token sees all that is kept, so it needs none."""
    if end - begin == 1:
        return None
    queries = torch.arange(begin, end, device=like.device)[:, None]
    positions = torch.arange(first, end, device=like.device)[None]
    hidden = positions > queries
    if window is not None:
        hidden = hidden | (positions <= queries - window)
    return torch.zeros_like(hidden, dtype=like.dtype).masked_fill_(hidden, float("-inf"))


def _rotary_table(weights: LeanWeights, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and signed sin, [capacity, 1, head_width]: x * cos + roll(x) * sin turns x."""
    positions = torch.arange(capacity, device=weights.inverse_frequencies.device).float()
    angles = positions[:, None] * weights.inverse_frequencies[None]
    cos = torch.cat((angles.cos(), angles.cos()), -1) * weights.rope_scale
    sin = torch.cat((-angles.sin(), angles.sin()), -1) * weights.rope_scale
    like = weights.embedding
    return cos[:, None].to(like), sin[:, None].to(like)


def _supported(model: Any) -> bool:
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type in _FAMILIES
        and type(model).__name__.endswith("ForCausalLM")
        and config.hidden_act == "silu"
        and rope.get("rope_type", "default") in _PLAIN_ROPE
        and getattr(model, "hf_device_map", None) is None
        and getattr(model, "quantization_method", None) is None
        and isinstance(getattr(model.model.rotary_emb, "inv_freq", None), torch.Tensor)
    )


def _may_pack(model: Any) -> bool:
    weight = model.lm_head.weight
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and size <= _PACKED_LIMIT
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def _window(config: object, index: int) -> int | None:
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if kinds is not None and kinds[index] != "sliding_attention":
        return None
    return window


def _take_layer(layer: Any, window: int | None, pack: bool) -> LeanLayer:
    attention, feed_forward = layer.self_attn, layer.mlp
    return LeanLayer(
        attention_norm=layer.input_layernorm.weight,
        qkv=_join((attention.q_proj, attention.k_proj, attention.v_proj), pack),
        query_norm=_norm_weight(attention, "q_norm"),
        key_norm=_norm_weight(attention, "k_norm"),
        output=Linear(attention.o_proj.weight, attention.o_proj.bias, pack=pack),
        feed_forward_norm=layer.post_attention_layernorm.weight,
        gate_up=_join((feed_forward.gate_proj, feed_forward.up_proj), pack),
        down=Linear(feed_forward.down_proj.weight, feed_forward.down_proj.bias, pack=pack),
        window=window,
    )


def _norm_weight(attention: Any, name: str) -> torch.Tensor | None:
    norm = getattr(attention, name, None)
    return None if norm is None else norm.weight


@torch.no_grad()
def _join(parts: tuple[nn.Linear, ...], pack: bool) -> Linear:
    """One matrix of several; the parts become views into it, so memory stays as it was."""
    weight = torch.cat([part.weight for part in parts])
    row = 0
    for part in parts:
        part.weight.data = weight[row : row + part.out_features]
        row += part.out_features
    bias = None if parts[0].bias is None else torch.cat([part.bias for part in parts])
    return Linear(weight, bias, pack=pack)
