"""Check that an EAGLE head fits its target, before its weights are used."""

from __future__ import annotations

from specviz.engine.heads.eagle_settings import reads_final_state
from specviz.engine.heads.eagle_shape import EagleShape
from specviz.engine.heads.head import TargetParts
from specviz.engine.heads.tensors import HeadTensors
from specviz.errors import ModelFileError, PairError
from specviz.formats.heads import HeadFacts, section

_THIS_TARGET = "Use a head that was trained for this target."


def check_target(facts: HeadFacts, shape: EagleShape, target: TargetParts) -> None:
    """Raise PairError if the head's configuration does not fit the target."""
    stated = facts.config.get("target_hidden_size")
    width = shape.width if facts.kind == "eagle" or reads_final_state(facts) else stated
    if width not in (None, target.width):
        raise PairError(
            f"The head was made for a target of width {width}, but {target.name} has "
            f"{target.width}.",
            remedy=_THIS_TARGET,
        )
    if (shape.vocabulary or 0) > target.vocabulary:
        raise PairError(
            f"The head has a vocabulary of {shape.vocabulary} tokens, but {target.name} has "
            f"{target.vocabulary}.",
            remedy=_THIS_TARGET,
        )
    if str(getattr(target.config, "model_type", "")).startswith("gemma"):
        raise PairError(
            "EAGLE heads of Gemma models are not supported.", remedy="Choose another drafter."
        )


def joined_states(tensors: HeadTensors, target: TargetParts) -> int:
    """Return how many of the target's hidden states the matrix ``fc`` joins."""
    columns = tensors.needed_shape("fc.weight")[-1]
    if columns % target.width or columns == 0:
        raise PairError(
            f"The head's fc.weight has {columns} columns, not a multiple of the width "
            f"{target.width} of {target.name}.",
            remedy=_THIS_TARGET,
        )
    return columns // target.width


def logit_scale(facts: HeadFacts) -> float:
    """Return the factor by which the head's configuration scales its logits, or 1."""
    parts = (facts.config, section(facts.config, "transformer_layer_config"))
    found = next((each["logit_scale"] for each in parts if each.get("logit_scale")), 1.0)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ModelFileError(
            "logit_scale in the head's config.json is not a number.",
            remedy="Copy or download the head's config.json again.",
        )
    return float(found)
