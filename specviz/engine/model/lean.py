"""The lean step: Llama-shaped models without the Python of a modelling library.

Llama, Mistral, Qwen2, Qwen3 and whatever else has their shape. Weights are taken from the
loaded transformers model: q, k, v and gate, up are each joined into one matrix, and the
model's own parameters become views into it, so nothing is held twice. On a CPU a feed of few
tokens is one call of machine code (``compiled_step.py``); longer ones, and other devices, are
torch's. Caches are allocated once and rollback is a length. A configuration that is not fully
supported gives None, and the loader compares the logits with the library's before it
trusts this path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers import PreTrainedModel

from specviz.engine.model.compiled_step import CompiledStep, CompiledWeights
from specviz.kernels.step import MOST_ROWS

_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
_STATIC_ROPE = ("default", "llama3", "linear", "yarn")


class Norm:
    """Root-mean-square norm. In float32 it takes the length of a row, which halves the calls.

    ``hypot`` adds epsilon under the root: sqrt(|x|^2 + width * eps). In half precision the
    library's own order of rounding is kept.
    """

    __slots__ = ("_floor", "_scaled", "eps", "weight")

    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        width = weight.shape[0]
        self.weight = weight
        self.eps = eps
        self._scaled = weight * width**0.5 if weight.dtype == torch.float32 else None
        self._floor = torch.tensor((width * eps) ** 0.5, device=weight.device)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self._scaled is None:
            return F.rms_norm(x.float(), x.shape[-1:], None, self.eps).to(x) * self.weight
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x.div(torch.hypot(length, self._floor)).mul_(self._scaled)


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A matrix product, with a bias or without."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LeanLayer:
    attention_norm: Norm
    qkv: Product
    query_norm: Norm | None  # Qwen3 normalises each head
    key_norm: Norm | None
    output: Product
    feed_forward_norm: Norm
    gate_up: Product
    down: Product
    window: int | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LeanWeights:
    """All that a lean step reads; shared by every run of a pair."""

    embedding: torch.Tensor  # [vocabulary, width]
    layers: tuple[LeanLayer, ...]
    norm: Norm
    head: Product
    heads: int
    key_heads: int
    head_width: int
    inverse_frequencies: torch.Tensor  # [head_width / 2]
    rope_scale: float
    compiled: CompiledWeights | None  # None on other devices

    @staticmethod
    def take(model: PreTrainedModel) -> LeanWeights | None:
        """The weights of a model whose configuration is fully supported, else None."""
        if not is_supported(model):
            return None
        config: Any = model.config
        body: Any = model.model
        head: Any = model.lm_head
        embedding = body.embed_tokens.weight
        layers = tuple(
            _take_layer(layer, config, _window(config, i)) for i, layer in enumerate(body.layers)
        )
        heads, key_heads = config.num_attention_heads, config.num_key_value_heads
        head_width = body.layers[0].self_attn.head_dim
        return LeanWeights(
            embedding=embedding,
            layers=layers,
            norm=Norm(body.norm.weight, config.rms_norm_eps),
            head=Product(head.weight, head.bias),
            heads=heads,
            key_heads=key_heads,
            head_width=head_width,
            inverse_frequencies=body.rotary_emb.inv_freq.float(),
            rope_scale=float(body.rotary_emb.attention_scaling),
            compiled=CompiledWeights.of(
                map(_columns, layers),
                (embedding, body.norm.weight, head.weight, head.bias),
                eps=config.rms_norm_eps,
                head_eps=layers[0].query_norm.eps if layers[0].query_norm else 0.0,
                width=embedding.shape[1],
                heads=heads,
                key_heads=key_heads,
                head_width=head_width,
                feed_forward=layers[0].down.weight.shape[1],
            ),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Span:
    """The positions of one feed and what every layer needs to know of them."""

    begin: int
    end: int
    cos: torch.Tensor  # [count, head_width]
    sin: torch.Tensor
    masks: dict[int | None, torch.Tensor | None]  # by window


def _first_seen(window: int | None, begin: int) -> int:
    """The first position that the first new token may still look at."""
    return 0 if window is None else max(0, begin + 1 - window)


class LeanStep:
    """One model with a cache of fixed capacity; see ``steps.Step`` for the contract."""

    def __init__(self, weights: LeanWeights, vocabulary: int, capacity: int) -> None:
        self._weights = weights
        self._vocabulary = vocabulary
        self._capacity = capacity
        self._length = 0
        self._hidden: torch.Tensor | None = None
        like = weights.embedding
        shape = (len(weights.layers), 1, weights.key_heads, capacity, weights.head_width)
        self._keys = torch.empty(shape, dtype=like.dtype, device=like.device)
        self._values = torch.empty(shape, dtype=like.dtype, device=like.device)
        self._cos, self._sin = _rotary_table(weights, capacity)
        self._windows = {layer.window for layer in weights.layers}
        self._layer_caches = list(zip(weights.layers, self._keys, self._values, strict=True))
        self._compiled = None
        if weights.compiled is not None:
            self._compiled = CompiledStep(
                weights.compiled, self._keys, self._values, self._cos, self._sin
            )

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
        count = token_ids.shape[0]
        assert self._length + count <= self._capacity
        if self._compiled is None or count > MOST_ROWS:
            return self._feed_in_torch(token_ids, num_logits)
        logits, self._hidden = self._compiled.feed(
            token_ids, self._length, num_logits, self._vocabulary
        )
        self._length += count
        return logits

    def _feed_in_torch(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        weights = self._weights
        span = self._span(token_ids.shape[0])
        x = F.embedding(token_ids, weights.embedding)
        for layer, keys, values in self._layer_caches:
            x += self._attend(layer, x, keys, values, span)
            x += _feed_forward(layer, x)
        self._length = span.end
        x = weights.norm(x[-max(1, num_logits) :])
        self._hidden = x
        return weights.head(x)[:, : self._vocabulary].float()

    def _span(self, count: int) -> _Span:
        begin, end = self._length, self._length + count
        masks = {window: _mask(window, begin, end, self._weights) for window in self._windows}
        return _Span(begin, end, self._cos[begin:end], self._sin[begin:end], masks)

    def _attend(
        self,
        layer: LeanLayer,
        x: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        span: _Span,
    ) -> torch.Tensor:
        weights = self._weights
        heads, key_heads, width = weights.heads, weights.key_heads, weights.head_width
        count = span.end - span.begin
        rows = layer.qkv(layer.attention_norm(x)).view(1, count, -1, width).transpose(1, 2)
        turned = rows.narrow(1, 0, heads + key_heads)
        if layer.query_norm is not None and layer.key_norm is not None:
            parts = turned.split((heads, key_heads), 1)
            turned = torch.cat((layer.query_norm(parts[0]), layer.key_norm(parts[1])), 1)
        turned = torch.addcmul(turned * span.cos, turned.roll(width // 2, -1), span.sin)
        keys.narrow(2, span.begin, count).copy_(turned.narrow(1, heads, key_heads))
        values.narrow(2, span.begin, count).copy_(rows.narrow(1, heads + key_heads, key_heads))
        first = _first_seen(layer.window, span.begin)
        mixed = F.scaled_dot_product_attention(
            turned.narrow(1, 0, heads),
            keys.narrow(2, first, span.end - first),
            values.narrow(2, first, span.end - first),
            attn_mask=span.masks[layer.window],
            enable_gqa=heads != key_heads,
        )
        return layer.output(mixed.transpose(1, 2).reshape(count, heads * width))


def _feed_forward(layer: LeanLayer, x: torch.Tensor) -> torch.Tensor:
    gate, up = layer.gate_up(layer.feed_forward_norm(x)).chunk(2, -1)
    return layer.down(F.silu(gate) * up)


def _mask(window: int | None, begin: int, end: int, weights: LeanWeights) -> torch.Tensor | None:
    """Additive mask [new, seen]; a single token sees all that is kept, so it needs none."""
    if end - begin == 1:
        return None
    like = weights.embedding
    first = _first_seen(window, begin)
    queries = torch.arange(begin, end, device=like.device)[:, None]
    positions = torch.arange(first, end, device=like.device)[None]
    hidden = positions > queries
    if window is not None:
        hidden = hidden | (positions <= queries - window)
    return torch.zeros_like(hidden, dtype=like.dtype).masked_fill_(hidden, float("-inf"))


def _rotary_table(weights: LeanWeights, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and signed sin, [capacity, head_width]: x * cos + roll(x) * sin turns x."""
    positions = torch.arange(capacity, device=weights.inverse_frequencies.device).float()
    angles = positions[:, None] * weights.inverse_frequencies[None]
    cos = torch.cat((angles.cos(), angles.cos()), -1) * weights.rope_scale
    sin = torch.cat((-angles.sin(), angles.sin()), -1) * weights.rope_scale
    like = weights.embedding
    return cos.to(like), sin.to(like)


def is_supported(model: Any) -> bool:
    """Whether it is Llama-shaped, and its configuration is fully known here."""
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type in _FAMILIES
        and type(model).__name__.endswith("ForCausalLM")
        and config.hidden_act == "silu"
        and rope.get("rope_type", "default") in _STATIC_ROPE
        and getattr(model, "hf_device_map", None) is None
        and getattr(model, "quantization_method", None) is None
        and isinstance(getattr(model.model.rotary_emb, "inv_freq", None), torch.Tensor)
    )


def _window(config: Any, index: int) -> int | None:
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if kinds is not None and kinds[index] != "sliding_attention":
        return None
    return window


def _take_layer(layer: Any, config: Any, window: int | None) -> LeanLayer:
    attention, feed_forward, eps = layer.self_attn, layer.mlp, config.rms_norm_eps
    return LeanLayer(
        attention_norm=Norm(layer.input_layernorm.weight, eps),
        qkv=_join((attention.q_proj, attention.k_proj, attention.v_proj)),
        query_norm=_head_norm(attention, "q_norm"),
        key_norm=_head_norm(attention, "k_norm"),
        output=Product(attention.o_proj.weight, attention.o_proj.bias),
        feed_forward_norm=Norm(layer.post_attention_layernorm.weight, eps),
        gate_up=_join((feed_forward.gate_proj, feed_forward.up_proj)),
        down=Product(feed_forward.down_proj.weight, feed_forward.down_proj.bias),
        window=window,
    )


def _columns(layer: LeanLayer) -> dict[str, torch.Tensor | int | None]:
    """A layer as the compiled step reads it."""
    norms = {
        "attention_norm": layer.attention_norm,
        "query_norm": layer.query_norm,
        "key_norm": layer.key_norm,
        "feed_forward_norm": layer.feed_forward_norm,
    }
    products = {
        "qkv": layer.qkv,
        "output": layer.output,
        "gate_up": layer.gate_up,
        "down": layer.down,
    }
    return {
        **{name: norm.weight for name, norm in norms.items() if norm is not None},
        **{name: product.weight for name, product in products.items()},
        **{f"{name}_bias": product.bias for name, product in products.items()},
        "window": layer.window or 0,
    }


def _head_norm(attention: Any, name: str) -> Norm | None:
    norm = getattr(attention, name, None)
    return None if norm is None else Norm(norm.weight, norm.variance_epsilon)


@torch.no_grad()
def _join(parts: tuple[nn.Linear, ...]) -> Product:
    """One matrix of several; the parts become views into it, so memory stays as it was."""
    weight = torch.cat([part.weight for part in parts])
    row = 0
    for part in parts:
        part.weight.data = weight[row : row + part.out_features]
        row += part.out_features
    return Product(weight, None if parts[0].bias is None else torch.cat([p.bias for p in parts]))
