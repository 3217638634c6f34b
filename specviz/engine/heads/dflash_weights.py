"""Load a DFlash head from files in the format of z-lab or of the speculators library."""

from __future__ import annotations

import pickle
from typing import Any, Literal

import torch

from specviz.engine.heads.draft_vocabulary import DraftLogits, read_logits
from specviz.engine.heads.eagle_shape import EagleShape
from specviz.engine.heads.head import TargetParts
from specviz.engine.heads.tensors import HeadTensors, read_head_tensors
from specviz.engine.model.product import Product
from specviz.engine.model.products import product_of
from specviz.engine.model.step_capabilities import AFTER_NORM, HiddenStates
from specviz.errors import ModelFileError, PairError
from specviz.formats.heads import HeadFacts, section
from specviz.values import Value

_COPY_CONFIG = "Copy or download the head's config.json again."
_OWN_TARGET = "Use a head that was trained for this target."
_MASK_FILE = "mask_embedding.pt"
_UNUSED = ("verifier_lm_head.weight", "verifier_norm.weight")  # copies of the target's tensors
_EMBEDDING = "embed_tokens.weight"
_STATIC_ROPE = ("linear", "llama3", "yarn")  # kinds with the same frequencies for all lengths


class DFlashSettings(Value):
    """Settings of a DFlash head that its files may omit or state wrongly."""

    places: tuple[int, ...]  # as in ``HiddenStates``
    mask_token_id: int
    sample_from_anchor: bool = False  # the anchor's row proposes the first candidate
    causal_windows: bool = False  # a row of a sliding layer does not see later rows of its block
    window_from: Literal["row", "anchor"] = "row"  # where the window of earlier tokens ends

    @property
    def states(self) -> HiddenStates:
        return HiddenStates(self.places)


class DFlashLayer(Value, eq=False):
    before_norm: torch.Tensor
    query: Product
    key: Product
    value: Product
    output: Product
    query_norm: torch.Tensor
    key_norm: torch.Tensor
    after_norm: torch.Tensor
    gate: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor
    sliding: bool

    @property
    def tensors(self) -> list[torch.Tensor]:
        products = (self.query, self.key, self.value, self.output)
        biases = [each.bias for each in products if each.bias is not None]
        norms = (self.before_norm, self.query_norm, self.key_norm, self.after_norm)
        return [*norms, *(each.weight for each in products), *biases, self.gate, self.up, self.down]


class DFlashWeights(Value, eq=False):
    shape: EagleShape
    block_size: int
    window: int | None  # how many tokens a sliding layer sees
    fusion: torch.Tensor  # [width, states * target width]
    context_norm: torch.Tensor
    layers: tuple[DFlashLayer, ...]
    final_norm: torch.Tensor
    embedding: torch.Tensor | None  # None to use the target's
    mask_embedding: torch.Tensor | None  # [1, width]; None for the embedding of the mask token
    logits: DraftLogits

    @property
    def parameters(self) -> list[torch.Tensor]:
        """Return the head's own weights without its embedding."""
        layers = [each for layer in self.layers for each in layer.tensors]
        found = [self.fusion, self.context_norm, *layers, self.final_norm]
        output = self.logits.own_matrix
        return found if output is None else [*found, output.weight]


def read_dflash(
    facts: HeadFacts, target: TargetParts
) -> tuple[DFlashWeights, DFlashSettings, tuple[str, ...]]:
    """Read and return a head's weights, settings and notices.

    Raises:
        ModelFileError: A tensor or a setting is missing, unknown or not valid.
        PairError: The head does not fit the target.
    """
    config = _layer_config(facts)
    tensors, notices = read_head_tensors(facts, target.like)
    if _EMBEDDING not in tensors and config.hidden_size != target.width:
        raise PairError(
            f"The head has width {config.hidden_size}, but {target.name} has {target.width}.",
            remedy=_OWN_TARGET,
        )
    count = _state_count(tensors, target)
    settings = _settings(facts, config, target, count)
    weights = _weights(facts, config, tensors, target, count)
    tensors.finish(_UNUSED)
    vocabulary = target.vocabulary if weights.embedding is None else len(weights.embedding)
    if weights.mask_embedding is None and not 0 <= settings.mask_token_id < vocabulary:
        raise ModelFileError(
            f"The mask token {settings.mask_token_id} has no embedding.", remedy=_OWN_TARGET
        )
    return weights, settings, notices


def _layer_config(facts: HeadFacts) -> Any:
    """Return the configuration of the head's layers as a transformers object."""
    from transformers import AutoConfig

    nested = facts.layout == "speculators"
    given = dict(section(facts.config, "transformer_layer_config") if nested else facts.config)
    kind = str(given.pop("model_type", "qwen3"))
    try:
        config: Any = AutoConfig.for_model(kind if nested else "qwen3", **given)
    except Exception as error:  # transformers raises errors of many types here
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise ModelFileError(
            f"The configuration of {facts.path.name} is not valid: {reason}.", remedy=_COPY_CONFIG
        ) from None
    if getattr(config, "hidden_act", "silu") != "silu":
        raise ModelFileError(
            f"The head's activation {str(config.hidden_act)[:30]} is not supported.",
            remedy="Use a head of a supported layout.",
        )
    rope = config.rope_parameters
    if isinstance(rope, dict) and "sliding_attention" in rope:
        config.rope_parameters = rope["sliding_attention"]  # speculators uses only this one
    return config


def _state_count(tensors: HeadTensors, target: TargetParts) -> int:
    shape = tensors.needed_shape("fc.weight")
    if shape[-1] % target.width:
        raise PairError(
            f"fc.weight has {shape[-1]} columns, not a multiple of the width {target.width} of "
            f"{target.name}.",
            remedy=_OWN_TARGET,
        )
    return shape[-1] // target.width


def _settings(facts: HeadFacts, config: Any, target: TargetParts, count: int) -> DFlashSettings:
    stated = facts.config | section(facts.config, "dflash_config")
    mask = stated.get("mask_token_id")
    if type(mask) is not int:
        if not (facts.path / _MASK_FILE).is_file():
            raise ModelFileError(
                f"{facts.path.name} does not state mask_token_id.",
                remedy="Write mask_token_id into the head's config.json.",
            )
        mask = 0  # the embedding in the file is used instead
    trained_here = facts.layout == "speculators"
    return DFlashSettings(
        places=_places(facts, config, target, count),
        mask_token_id=mask,
        sample_from_anchor=stated.get("sample_from_anchor") is True,
        causal_windows=stated.get("sliding_window_non_causal") is False,
        window_from="anchor" if trained_here else "row",
    )


def _places(facts: HeadFacts, config: Any, target: TargetParts, count: int) -> tuple[int, ...]:
    if facts.convention == "input":
        places = facts.feature_layers
    else:
        stated = facts.feature_layers or _default_layers(facts, config, target)
        # The authors read hidden_states[id + 1] of transformers; its last entry is after the norm.
        places = tuple(AFTER_NORM if each == target.layers - 1 else each + 1 for each in stated)
    if len(places) != count:
        raise ModelFileError(
            f"The head states {len(places)} layers, but fc.weight is for {count} hidden states.",
            remedy="Write target_layer_ids into dflash_config of the head's config.json.",
        )
    if missing := [
        each for each in places if each != AFTER_NORM and not 0 <= each <= target.layers
    ]:
        raise PairError(
            f"The head reads layer {missing[0]}, but {target.name} has {target.layers} layers.",
            remedy=_OWN_TARGET,
        )
    return places


def _default_layers(facts: HeadFacts, config: Any, target: TargetParts) -> tuple[int, ...]:
    """Return the layers whose outputs a head reads, for heads whose files do not state them.

    The layers are evenly spaced.
    """
    stated = facts.config.get("num_target_layers")
    layers = stated if type(stated) is int else target.layers
    count = int(config.num_hidden_layers)
    if count == 1:
        return (layers // 2,)
    return tuple(round(1 + each * (layers - 4) / (count - 1)) for each in range(count))


def _weights(
    facts: HeadFacts, config: Any, tensors: HeadTensors, target: TargetParts, count: int
) -> DFlashWeights:
    shape = _shape(facts, config, target.like)
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * shape.layers
    return DFlashWeights(
        shape=shape,
        block_size=_block_size(facts),
        window=getattr(config, "sliding_window", None),
        fusion=tensors.take("fc.weight", shape.width, count * target.width),
        context_norm=tensors.take("hidden_norm.weight", shape.width),
        layers=tuple(
            _layer(tensors, shape, f"layers.{index}.", kinds[index] == "sliding_attention")
            for index in range(shape.layers)
        ),
        final_norm=tensors.take("norm.weight", shape.width),
        embedding=_embedding(tensors, shape),
        mask_embedding=_mask_embedding(facts, shape.width, target.like),
        logits=read_logits(tensors, shape, target, embedding=None, scale=1.0),
    )


def _shape(facts: HeadFacts, config: Any, like: torch.Tensor) -> EagleShape:
    heads = int(config.num_attention_heads)
    head_width = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    frequencies, scale = _rotation(facts, config, head_width)
    return EagleShape(
        width=int(config.hidden_size),
        inner=int(config.intermediate_size),
        layers=int(config.num_hidden_layers),
        heads=heads,
        key_heads=int(config.num_key_value_heads),
        head_width=head_width,
        eps=float(config.rms_norm_eps),
        attention_bias=bool(config.attention_bias),
        query_norms=True,
        tied=False,
        vocabulary=int(config.vocab_size),
        inverse_frequencies=frequencies.to(like.device),
        rope_scale=scale,
    )


def _rotation(facts: HeadFacts, config: Any, head_width: int) -> tuple[torch.Tensor, float]:
    """Return RoPE's inverse frequencies, and the factor that scales cos and sin."""
    kind = config.rope_parameters["rope_type"]
    if kind == "default":
        exponents = torch.arange(0, head_width, 2, dtype=torch.float32) / head_width
        return config.rope_parameters["rope_theta"] ** -exponents, 1.0
    if kind not in _STATIC_ROPE:
        raise ModelFileError(
            f"The RoPE scaling {str(kind)[:30]} of {facts.path.name} is not supported.",
            remedy="Use a head of a supported layout.",
        )
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    frequencies, scale = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
    return frequencies.float(), float(scale)


def _layer(tensors: HeadTensors, shape: EagleShape, prefix: str, sliding: bool) -> DFlashLayer:
    width, inner, head_width = shape.width, shape.inner, shape.head_width
    queries, keys = shape.heads * head_width, shape.key_heads * head_width

    def product(name: str, rows: int, columns: int) -> Product:
        full = f"{prefix}self_attn.{name}_proj."
        weight = tensors.take(f"{full}weight", rows, columns)
        return product_of(weight, tensors.take_optional(f"{full}bias", rows))

    return DFlashLayer(
        before_norm=tensors.take(f"{prefix}input_layernorm.weight", width),
        query=product("q", queries, width),
        key=product("k", keys, width),
        value=product("v", keys, width),
        output=product("o", width, queries),
        query_norm=tensors.take(f"{prefix}self_attn.q_norm.weight", head_width),
        key_norm=tensors.take(f"{prefix}self_attn.k_norm.weight", head_width),
        after_norm=tensors.take(f"{prefix}post_attention_layernorm.weight", width),
        gate=tensors.take(f"{prefix}mlp.gate_proj.weight", inner, width),
        up=tensors.take(f"{prefix}mlp.up_proj.weight", inner, width),
        down=tensors.take(f"{prefix}mlp.down_proj.weight", width, inner),
        sliding=sliding,
    )


def _embedding(tensors: HeadTensors, shape: EagleShape) -> torch.Tensor | None:
    if _EMBEDDING not in tensors:
        return None
    return tensors.take(_EMBEDDING, tensors.needed_shape(_EMBEDDING)[0], shape.width)


def _block_size(facts: HeadFacts) -> int:
    stated = (facts.config | section(facts.config, "dflash_config")).get("block_size")
    if type(stated) is not int or stated < 2:
        raise ModelFileError(
            f"block_size in the config.json of {facts.path.name} is missing or not valid.",
            remedy=_COPY_CONFIG,
        )
    return stated


def _mask_embedding(facts: HeadFacts, width: int, like: torch.Tensor) -> torch.Tensor | None:
    """Return the mask token's embedding `[1, width]` from ``_MASK_FILE``; None if it is missing."""
    path = facts.path / _MASK_FILE
    if not path.is_file():
        return None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError):
        found = None
    if isinstance(found, dict):
        found = found.get("embedding")
    if not isinstance(found, torch.Tensor) or found.numel() != width:
        raise ModelFileError(
            f"{_MASK_FILE} of {facts.path.name} does not contain one embedding of width {width}.",
            remedy="Copy or download the file again.",
        )
    return found.reshape(1, width).to(like)
