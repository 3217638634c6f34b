"""Enlarge a Llama-shaped model: its passes cost more, but its output does not change.

The residual stream becomes wider and its new columns stay zero, since the embedding and all
matrices that write to the stream are zero there. The stream's norms use a mean of squares over the
width. The new zeros make this mean smaller. So if the width grows from h to H, the norms' weights
are scaled by sqrt(h / H) and epsilon by h / H. This is exact if H / h is a power of four. New
heads, feed-forward units and layers add zero to the stream.

All other new weights are nonzero but so small that nothing overflows in float16. Every byte is
written, because unwritten pages would be read from the CPU cache and timings would be too short.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from specviz.engine.model.lean_weights import is_supported
from specviz.engine.model.plain_llama import PlainConfig, PlainLlamaForCausalLM
from specviz.engine.model.reduced_output import ReducedOutput, reduce_skeleton
from specviz.record.bodies import BodyInfo, ModelShape, Shape, heads_of

if TYPE_CHECKING:
    from specviz.engine.model.plain_llama import Config, Model


ProgressCallback = Callable[[int, int], None]  # bytes written, total bytes; an exception cancels

_PATTERN = 262_139  # values that fill a matrix again and again; a prime, so that its rows differ
_BETWEEN_REPORTS = 1 << 25  # bytes
_NORMS = ("input_layernorm.weight", "post_attention_layernorm.weight", "model.norm.weight")
_HEAD_NORMS = ("q_norm.weight", "k_norm.weight")
_TO_STREAM = ("embed_tokens", "o_proj", "down_proj")  # layers whose new weights are zero


def shape_of_model(model: Model) -> ModelShape | None:
    """Return the model's shape; None if the model cannot be enlarged.

    The model may be on the meta device.
    """
    if not is_supported(model):
        return None
    config: Any = model.config
    return ModelShape(
        shape=Shape(
            width=config.hidden_size,
            feed_forward=config.intermediate_size,
            layers=config.num_hidden_layers,
        ),
        heads=config.num_attention_heads,
        key_heads=config.num_key_value_heads,
        head_width=_head_width(model),
        vocabulary=config.vocab_size,
        tied=_tied(model),
    )


def skeleton_of(config: Config) -> Any:
    """Return the model on the meta device, where parameters have shapes but take no memory."""
    own = copy.deepcopy(config)  # ``from_config`` modifies it
    with torch.device("meta"):
        if isinstance(own, PlainConfig):
            return PlainLlamaForCausalLM(own)
        from transformers import AutoModelForCausalLM

        skeleton = AutoModelForCausalLM.from_config(own, trust_remote_code=False)
        reduce_skeleton(skeleton)
        return skeleton


def grown_skeleton(model: Model, shape: Shape) -> Any:
    """Return the enlarged model on the meta device."""
    own = shape_of_model(model)
    assert own is not None, "the loader enlarges only supported models"
    config: Any = copy.deepcopy(model.config)
    config.rms_norm_eps *= own.shape.width / shape.width
    config.head_dim = own.head_width
    config.num_attention_heads = heads_of(shape, own)
    config.num_key_value_heads = heads_of(shape, own) * own.key_heads // own.heads
    config.hidden_size = shape.width
    config.intermediate_size = shape.feed_forward
    config.num_hidden_layers = shape.layers
    kinds = getattr(config, "layer_types", None)
    if kinds is not None:
        config.layer_types = [*kinds, *kinds[-1:] * (shape.layers - len(kinds))]
    return skeleton_of(config)


@torch.no_grad()
def grow(model: Model, shape: Shape, on_progress: ProgressCallback) -> Any:
    """Return a copy of the model, enlarged to this shape; the logits stay the same."""
    grown: Any = grown_skeleton(model, shape)
    writer = _Writer(model, shape, on_progress, _num_bytes(grown, model.dtype))
    own = dict(model.named_parameters())
    for name, blank in list(grown.named_parameters()):
        module, _, leaf = name.rpartition(".")
        filled = writer.filled(name, blank.shape, own.get(name))
        setattr(grown.get_submodule(module), leaf, nn.Parameter(filled, requires_grad=False))
    if _tied(model):
        grown.lm_head.weight = grown.model.embed_tokens.weight
    _copy_settings(grown, model)
    return grown.eval()


def body_info(name: str, parameters: int, grown: Model, own_parameters: int) -> BodyInfo:
    """Return the name, shape and sizes of an enlarged model, as a run's record stores them."""
    shape = shape_of_model(grown)
    assert shape is not None, "only supported models are enlarged"
    embedding: Any = grown.get_input_embeddings()
    unread = 0 if shape.tied else embedding.weight.nbytes
    return BodyInfo(
        name=name,
        shape=shape.shape,
        parameters=parameters,
        own_parameters=own_parameters,
        step_bytes=sum(each.nbytes for each in grown.parameters()) - unread,
    )


class _Writer:
    """Allocates and fills the parameters of an enlarged model one by one."""

    def __init__(
        self, model: Model, shape: Shape, on_progress: ProgressCallback, total: int
    ) -> None:
        like, width = next(model.parameters()), model.config.hidden_size
        self._like = like
        self._norm = (width / shape.width) ** 0.5
        self._small = _small_numbers(width).to(like)
        self._zeros = torch.zeros(_PATTERN).to(like)
        self._on_progress, self._total = on_progress, total
        self._done, self._reported = 0, 0
        on_progress(0, total)

    def filled(self, name: str, shape: torch.Size, own: torch.Tensor | None) -> torch.Tensor:
        whole = torch.empty(shape, dtype=self._like.dtype, device=self._like.device)
        scale = self._norm if name.endswith(_NORMS) else 1.0
        self._fill(whole.view(-1), self._filling(name, scale))
        if own is not None:
            part = whole
            for dimension, size in enumerate(own.shape):
                part = part.narrow(dimension, 0, size)
            part.copy_(own * scale if scale != 1.0 else own)
        return whole

    def _filling(self, name: str, scale: float) -> torch.Tensor:
        if name.endswith((*_NORMS, *_HEAD_NORMS)):
            return torch.full_like(self._zeros, scale)
        return self._zeros if name.split(".")[-2] in _TO_STREAM else self._small

    def _fill(self, flat: torch.Tensor, filling: torch.Tensor) -> None:
        for piece in flat.split(_PATTERN):
            piece.copy_(filling[: piece.shape[0]])
            self._done += piece.nbytes
            if self._done - self._reported >= _BETWEEN_REPORTS or self._done == self._total:
                self._reported = self._done
                self._on_progress(self._done, self._total)


def _small_numbers(width: int) -> torch.Tensor:
    """Return random values for new weights, so small that no product with them overflows.

    Their dot product with a norm's output is at most the norm's largest weight. The reason is that
    a norm scales a row of the stream to a root mean square of 1, so the row's mean absolute value
    is at most 1. Then the norm multiplies the row by its weights. The random values are
    positive or negative; their magnitudes are between 1/(2 * width) and 1/width.
    """
    generator = torch.Generator().manual_seed(0)
    sizes = torch.rand(_PATTERN, generator=generator).add_(1).div_(2 * width)
    return sizes.mul_(torch.randint(2, (_PATTERN,), generator=generator).mul_(2).sub_(1))


def _copy_settings(grown: Any, model: Any) -> None:
    """Copy the original model's settings that are not parameters, such as its rotary embedding."""
    grown.model.rotary_emb = model.model.rotary_emb
    grown.generation_config = model.generation_config
    if isinstance(model.lm_head, ReducedOutput):
        grown.lm_head.proposed = model.lm_head.proposed
    epsilon = model.config.rms_norm_eps
    for layer in grown.model.layers:  # heads keep their width, so their norms keep epsilon
        for name in ("q_norm", "k_norm"):
            if hasattr(layer.self_attn, name):
                getattr(layer.self_attn, name).variance_epsilon = epsilon


def _num_bytes(model: Model, dtype: torch.dtype) -> int:
    return sum(each.numel() for each in model.parameters()) * dtype.itemsize


def _head_width(model: Any) -> int:
    return int(model.model.layers[0].self_attn.head_dim)


def _tied(model: Any) -> bool:
    return model.lm_head.weight is model.model.embed_tokens.weight
