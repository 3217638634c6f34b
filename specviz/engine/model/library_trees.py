"""What the library needs to be told so that it reads a tree: masks, or which layers to leave out.

The masks take the place of the family's own, so its windows are in them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from specviz.engine.model.trees import OpenNodes
from specviz.errors import PairError

_TO_STREAM = ("o_proj.weight", "down_proj.weight")
_FULL, _SLIDING = "full_attention", "sliding_attention"
# Families without kinds of layers, whose window, if they have one, is that of every layer.
_ONE_WINDOW = (
    "ministral3",
    "mistral",
    "mixtral",
    "phi3",
    "phimoe",
    "qwen3_moe",
    "starcoder2",
)


def tree_masks(model: PreTrainedModel, nodes: OpenNodes, count: int, length: int) -> Any:
    """For the last ``count`` nodes: one additive mask [1, 1, count, length + nodes], or one for
    each kind of layer."""
    masks = {
        kind: _additive(nodes.unseen(count, length, window), model)
        for kind, window in _windows(model).items()
    }
    return masks if len(masks) > 1 else next(iter(masks.values()))


def _additive(unseen: torch.Tensor, model: Any) -> torch.Tensor:
    mask = torch.zeros(unseen.shape, dtype=model.dtype).masked_fill_(unseen, float("-inf"))
    return mask[None, None].to(model.get_input_embeddings().weight.device)


def _windows(model: PreTrainedModel) -> dict[str, int | None]:
    """By the kind of layer."""
    config: Any = model.config.get_text_config(decoder=True)
    window: int | None = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if kinds is None and window is None:
        return {_FULL: None}
    if kinds is None and config.model_type in _ONE_WINDOW:
        return {_SLIDING: window}
    if kinds is None or not {_FULL, _SLIDING}.issuperset(kinds):
        raise no_trees(model)
    return {kind: window if kind == _SLIDING else None for kind in dict.fromkeys(kinds)}


def no_trees(model: PreTrainedModel) -> PairError:
    return PairError(
        f"{model.config.model_type} models cannot draft trees here: they do not take a mask in "
        "which siblings do not see each other.",
        remedy="Draft one candidate behind the other, without branching.",
    )


def first_layers(model: PreTrainedModel, layers: int) -> PreTrainedModel:
    """The same model without the later ones; it shares every tensor."""
    shared: dict[int, Any] = {id(t): t for t in (*model.parameters(), *model.buffers())}
    twin = copy.deepcopy(model, shared)
    name, all_layers = _layers(twin)
    twin.set_submodule(name, all_layers[:layers])
    return twin


def num_layers(model: PreTrainedModel) -> int:
    return len(_layers(model)[1])


def last_writes(model: PreTrainedModel) -> Sequence[torch.Tensor]:
    """The matrices by which the last layer adds to the stream, where their names are known; else
    all of its own."""
    last = _layers(model)[1][-1]
    named = [each for name, each in last.named_parameters() if name.endswith(_TO_STREAM)]
    return named or list(last.parameters())


def _layers(model: PreTrainedModel) -> tuple[str, nn.ModuleList]:
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return name, module
    raise PairError(
        f"{model.config.model_type} models cannot be left early: their layers are no list.",
        remedy="Choose a draft model.",
    )
