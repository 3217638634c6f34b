"""The weights of a lean step, taken from a loaded model.

Llama, Mistral, Qwen2 and Qwen3 are supported. q, k and v are joined into one matrix, gate and up
into another. The model's own parameters become views into the joined matrices, so joining stores no
weight twice. The kernels may read copies in tiles (``tiles.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn

from specviz.engine.model.compiled_step import CompiledWeights
from specviz.engine.model.exits import exits_of
from specviz.engine.model.fused_step import FusedStep, can_fuse
from specviz.engine.model.lean import LeanStep
from specviz.engine.model.packed_weights import PackedEmbedding, PackedLinear, PackedProduct
from specviz.engine.model.product import Product
from specviz.engine.model.reduced_output import ReducedOutput, over_vocabulary
from specviz.engine.model.static_step import StaticStep
from specviz.engine.model.step_capabilities import AFTER_NORM, Missing, StepCapabilities
from specviz.engine.model.steps import StepWeights
from specviz.engine.model.tensors import address
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine.model.plain_llama import Model


_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
_STATIC_ROPE = ("default", "llama3", "linear", "yarn")


_NO_DEVICE = Missing(
    "Rounds that run entirely on the device do not support quantised weights",
    "Use `--dtype float32`.",
)
_NO_REDUCED_DEVICE = Missing(
    "Rounds that run entirely on the device do not support drafts with a reduced vocabulary",
    "Use `--step lean`.",
)


class Norm:
    """RMSNorm; in float32, it needs half as many kernel calls as transformers' RMSNorm.

    In float32, one call computes the length |x|, and ``hypot`` computes from it the divisor
    sqrt(|x|^2 + width * eps). In half precision, values are rounded in the same order as in
    transformers.
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


class LeanLayer(Value, eq=False):
    attention_norm: Norm
    qkv: Product
    query_norm: Norm | None  # Qwen3 normalises each head
    key_norm: Norm | None
    output: Product
    feed_forward_norm: Norm
    gate_up: Product
    down: Product
    window: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeanWeights(StepWeights):
    """A model's weights in the form that the lean step, specviz's own forward pass, reads."""

    kind = "lean"

    table: torch.Tensor | PackedProduct  # the embedding [vocabulary, width]
    layers: tuple[LeanLayer, ...]
    norm: Norm
    head: Product
    heads: int
    key_heads: int
    head_width: int
    feed_forward: int
    inverse_frequencies: torch.Tensor  # [head_width / 2]
    rope_scale: float
    compiled: CompiledWeights | None = None  # None where the kernels cannot run
    fused: bool = False  # whether static steps run as Triton kernels
    proposed: torch.Tensor | None = None  # token ids of the output's rows; None: all tokens

    @property
    def embedding(self) -> torch.Tensor:
        """Return the embedding matrix, which must not be quantised."""
        assert isinstance(self.table, torch.Tensor), "rounds on the device need unquantised weights"
        return self.table

    @property
    def like(self) -> torch.Tensor:
        """Return a tensor with the device and the dtype of the hidden states."""
        return self.norm.weight

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        if isinstance(self.table, PackedProduct):
            return self.table.read(token_ids)
        return F.embedding(token_ids, self.table)

    @property
    def capabilities(self) -> StepCapabilities:
        device_rounds = _NO_DEVICE if isinstance(self.table, PackedProduct) else True
        return StepCapabilities(
            hidden_states=self.hidden_places,
            trees=True,
            exits=self.exits,
            device_rounds=device_rounds if self.proposed is None else _NO_REDUCED_DEVICE,
        )

    @property
    def hidden_places(self) -> range:
        return range(AFTER_NORM, len(self.layers) + 1)

    @property
    def exits(self) -> range | Missing:
        last = self.layers[-1]
        return exits_of(len(self.layers), (last.output, last.down))

    def num_outputs(self, vocabulary: int) -> int:
        """Return how many logits the output matrix computes for a token."""
        return vocabulary if self.proposed is None else len(self.proposed)

    def whole(self, logits: torch.Tensor, vocabulary: int) -> torch.Tensor:
        """Return logits `[…, vocabulary]`, given the logits that the output matrix computes."""
        if self.proposed is None:
            return logits
        return over_vocabulary(logits, self.proposed, vocabulary)

    def step(self, vocabulary: int, capacity: int) -> LeanStep:
        return LeanStep(self, vocabulary, capacity)

    def with_fused_kernels(self) -> LeanWeights | None:
        return replace(self, fused=True) if can_fuse(self) else None

    def with_kernels(self) -> LeanWeights:
        """Return these weights, read by the kernels if the kernels work here."""
        first, norm = self.layers[0], self.norm
        compiled = CompiledWeights.of(
            map(_columns, self.layers),
            (_matrix(self.table), norm.weight, _matrix(self.head), self.head.bias),
            packed=isinstance(self.table, PackedProduct),
            eps=norm.eps,
            head_eps=first.query_norm.eps if first.query_norm else 0.0,
            width=norm.weight.shape[0],
            heads=self.heads,
            key_heads=self.key_heads,
            head_width=self.head_width,
            feed_forward=self.feed_forward,
        )
        return replace(self, compiled=compiled)

    def static_step(self, vocabulary: int, rows: int) -> StaticStep:
        return (FusedStep if self.fused else StaticStep)(self, vocabulary, rows)

    def first(self, layers: int) -> LeanWeights:
        """Return the weights with only the first ``layers`` layers; norm and output matrix stay."""
        own = self.compiled
        compiled = own and replace(own, layers=own.layers[:layers])
        return replace(self, layers=self.layers[:layers], compiled=compiled)

    @staticmethod
    def take(model: Model) -> LeanWeights | None:
        """Return the weights of a model; None if the lean step does not support the model."""
        if not is_supported(model):
            return None
        config: Any = model.config
        body: Any = model.model
        head: Any = model.lm_head
        tokens = body.embed_tokens
        table = tokens.table if isinstance(tokens, PackedEmbedding) else tokens.weight
        reduced = isinstance(head, ReducedOutput)
        layers = tuple(
            _take_layer(layer, config, _window(config, i)) for i, layer in enumerate(body.layers)
        )
        weights = LeanWeights(
            table=table,
            layers=layers,
            norm=Norm(body.norm.weight, config.rms_norm_eps),
            head=_product(head.rows if reduced else head),
            heads=config.num_attention_heads,
            key_heads=config.num_key_value_heads,
            head_width=body.layers[0].self_attn.head_dim,
            feed_forward=config.intermediate_size,
            inverse_frequencies=body.rotary_emb.inv_freq.float(),
            rope_scale=float(body.rotary_emb.attention_scaling),
            proposed=head.proposed if reduced else None,
        )
        return weights.with_kernels()


def is_supported(model: Any) -> bool:
    """Return whether the lean step supports the model's family and configuration."""
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
        qkv=_product(attention.q_proj, attention.k_proj, attention.v_proj),
        query_norm=_head_norm(attention, "q_norm"),
        key_norm=_head_norm(attention, "k_norm"),
        output=_product(attention.o_proj),
        feed_forward_norm=Norm(layer.post_attention_layernorm.weight, eps),
        gate_up=_product(feed_forward.gate_proj, feed_forward.up_proj),
        down=_product(feed_forward.down_proj),
        window=window,
    )


def _columns(layer: LeanLayer) -> dict[str, torch.Tensor | int | None]:
    """Return a layer's weights and attention window, by the names in ``LAYER_COLUMNS``."""
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
        **{name: _matrix(product) for name, product in products.items()},
        **{f"{name}_bias": product.bias for name, product in products.items()},
        "window": layer.window or 0,
    }


def _head_norm(attention: Any, name: str) -> Norm | None:
    norm = getattr(attention, name, None)
    return None if norm is None else Norm(norm.weight, norm.variance_epsilon)


def _matrix(product: Product | torch.Tensor) -> torch.Tensor | int:
    """Return a product's matrix or, if the matrix is packed, the address of the product's table."""
    if isinstance(product, PackedProduct):
        return address(product.table)
    return product.weight if isinstance(product, Product) else product


def _product(*parts: Any) -> Product:
    """Return one product for several linear layers, whose matrices are joined."""
    bias = None if parts[0].bias is None else torch.cat([part.bias for part in parts])
    if isinstance(parts[0], PackedLinear):
        return PackedProduct.of([part.matrix for part in parts], bias)
    return Product(parts[0].weight if len(parts) == 1 else _joined(parts), bias)


@torch.no_grad()
def _joined(parts: tuple[nn.Linear, ...]) -> torch.Tensor:
    """Return the joined matrices; to save memory, the layers' weights become views of them."""
    weight = torch.cat([part.weight for part in parts])
    row = 0
    for part in parts:
        part.weight.data = weight[row : row + part.out_features]
        row += part.out_features
    return weight
