"""The sizes and RoPE frequencies of an EAGLE head, from its configuration.

Official heads use the keys and defaults of Llama's configuration. The speculators format names a
configuration class of transformers and leaves out values that equal the class's defaults. So
missing values are taken from that class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from specviz.errors import ModelFileError
from specviz.formats.heads import HeadFacts, section
from specviz.values import Value

_LLAMA_DEFAULTS = {
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "num_hidden_layers": 1,
    "max_position_embeddings": 2048,
    "attention_bias": False,
    "tie_word_embeddings": False,
}
_STATIC_ROPE = ("linear", "llama3", "yarn")  # kinds with the same frequencies for all lengths
_SUPPORTED_HEAD = "Use a head of a supported layout."


class EagleShape(Value, eq=False):
    width: int
    inner: int  # width inside the feed-forward
    layers: int
    heads: int
    key_heads: int
    head_width: int
    eps: float
    attention_bias: bool
    query_norms: bool  # whether the format requires norms of queries and keys
    tied: bool  # whether a head without an output matrix uses its embedding as one
    vocabulary: int | None  # the target's vocabulary size that the head states
    inverse_frequencies: torch.Tensor  # [head_width / 2]
    rope_scale: float


def read_shape(facts: HeadFacts) -> EagleShape:
    """Return the sizes that a head's configuration states.

    Raises:
        ModelFileError: A size is missing or invalid, or a setting is not supported.
    """
    stated = _stated(facts)
    width, heads = _size(stated, "hidden_size"), _size(stated, "num_attention_heads")
    head_width = _size(stated, "head_dim", width // heads)
    key_heads = _size(stated, "num_key_value_heads", heads)
    if heads % key_heads or head_width % 2:
        raise _invalid("num_key_value_heads" if heads % key_heads else "head_dim")
    _check_supported(stated)
    frequencies, scale = _rotation(stated, head_width)
    return EagleShape(
        width=width,
        inner=_size(stated, "intermediate_size"),
        layers=_size(stated, "num_hidden_layers"),
        heads=heads,
        key_heads=key_heads,
        head_width=head_width,
        eps=_positive(stated, "rms_norm_eps"),
        attention_bias=bool(stated.get("attention_bias")),
        query_norms=facts.layout == "speculators" and stated.get("model_type") == "qwen3",
        tied=bool(stated.get("tie_word_embeddings")),
        vocabulary=_size(stated, "vocab_size", 0) or None,
        inverse_frequencies=frequencies,
        rope_scale=scale,
    )


def _stated(facts: HeadFacts) -> dict[str, Any]:
    if facts.layout != "speculators":
        return _LLAMA_DEFAULTS | facts.config
    from transformers import AutoConfig

    given = section(facts.config, "transformer_layer_config")
    try:
        built = AutoConfig.for_model(**{"model_type": "qwen3"} | given)
    except Exception as error:  # transformers raises errors of many types here
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise ModelFileError(
            f"transformer_layer_config of the head is not valid: {reason}.",
            remedy="Copy or download the head's config.json again.",
        ) from None
    return built.to_dict() | {"model_type": built.model_type}


def _check_supported(stated: Mapping[str, Any]) -> None:
    if (act := stated.get("hidden_act")) != "silu":
        raise ModelFileError(
            f"The head's activation {str(act)[:30]} is not supported.", remedy=_SUPPORTED_HEAD
        )
    rope = stated.get("rope_parameters")
    turned = (rope if isinstance(rope, dict) else stated).get("partial_rotary_factor")
    if turned not in (None, 1):
        raise ModelFileError(
            "The head's RoPE rotates only a part of each row, which is not supported.",
            remedy=_SUPPORTED_HEAD,
        )
    kinds = stated.get("layer_types") or ()
    if stated.get("sliding_window") and "sliding_attention" in kinds:
        raise ModelFileError(
            "The head's attention has a sliding window, which is not supported.",
            remedy=_SUPPORTED_HEAD,
        )


def _rotation(stated: Mapping[str, Any], head_width: int) -> tuple[torch.Tensor, float]:
    """Return RoPE's inverse frequencies, and the factor that scales cos and sin."""
    nested = stated.get("rope_parameters") or stated.get("rope_scaling") or {}
    scaling: dict[str, Any] = dict(nested) if isinstance(nested, dict) else {}
    kind = scaling.get("rope_type", scaling.get("type")) or "default"
    theta = _positive({"rope_theta": 10_000.0} | dict(stated) | scaling, "rope_theta")
    if kind == "default":
        exponents = torch.arange(0, head_width, 2, dtype=torch.float32) / head_width
        return theta**-exponents, 1.0
    if kind not in _STATIC_ROPE:
        raise ModelFileError(
            f"The head's RoPE scaling {str(kind)[:30]} is not supported.", remedy=_SUPPORTED_HEAD
        )
    return _scaled_rotation(stated, scaling | {"rope_type": kind, "rope_theta": theta}, head_width)


def _scaled_rotation(
    stated: Mapping[str, Any], scaling: dict[str, Any], head_width: int
) -> tuple[torch.Tensor, float]:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    try:
        config = LlamaConfig(
            hidden_size=stated["hidden_size"],
            num_attention_heads=stated["num_attention_heads"],
            head_dim=head_width,
            max_position_embeddings=stated["max_position_embeddings"],
            rope_parameters=scaling,  # pyright: ignore[reportArgumentType]
        )
        frequencies, scale = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, torch.device("cpu"))
    except Exception as error:  # transformers raises errors of many types here
        raise _invalid("rope_scaling") from error
    return frequencies.float(), float(scale)


def _size(stated: Mapping[str, Any], key: str, default: int | None = None) -> int:
    found = stated.get(key)
    found = default if found is None else found
    if type(found) is not int or found < (0 if default == 0 else 1):
        raise _invalid(key)
    return found


def _positive(stated: Mapping[str, Any], key: str) -> float:
    found = stated.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not found > 0:
        raise _invalid(key)
    return float(found)


def _invalid(key: str) -> ModelFileError:
    return ModelFileError(
        f"{key} in the head's config.json is missing or not valid.",
        remedy="Copy or download the head's config.json again.",
    )
