"""Detect recurrent layers, and state why a model with them supports no trees and no early exit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specviz.engine.model.step_capabilities import Missing

if TYPE_CHECKING:
    from specviz.engine.model.plain_llama import Model

# In transformers, the recurrent layers of these families ignore their state if a text is continued
# by several tokens in one pass.
ONE_TOKEN_AT_A_TIME = ("falcon_mamba", "jamba", "mamba", "recurrent_gemma")


def has_recurrent_layers(model: Model) -> bool:
    """Return whether the model's cache contains recurrent states."""
    config: Any = model.config.get_text_config(decoder=True)
    kinds = getattr(config, "layer_types", None)
    if not kinds:
        return False
    from transformers import cache_utils

    layers = [cache_utils.DYNAMIC_LAYER_TYPE_MAPPING.get(kind) for kind in kinds]
    recurrent = cache_utils.LinearAttentionCacheLayerMixin
    return any(each is not None and issubclass(each, recurrent) for each in layers)


def no_recurrent_trees(family: str) -> Missing:
    return Missing(
        f"{family} models cannot draft or verify trees: their recurrent layers have one state, not "
        "one for each branch",
        "Draft a chain of candidates, without branching.",
    )


def no_recurrent_exits(family: str) -> Missing:
    return Missing(
        f"{family} models do not support early exit: their recurrent layers have only one state",
        "Use a draft model.",
    )
