"""Trees and early exits for transformers models: attention masks, and models with fewer layers.

The masks replace the model's own masks, so they must also apply the model's sliding windows.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from specviz.engine.model.exits import Weights, exits_of
from specviz.engine.model.packed_weights import packed_layers
from specviz.engine.model.step_capabilities import Missing, refuse, require
from specviz.engine.model.trees import OpenNodes

if TYPE_CHECKING:
    from specviz.engine.model.plain_llama import Model


_TO_STREAM = ("o_proj.weight", "down_proj.weight")
_FULL, _SLIDING = "full_attention", "sliding_attention"
# Families whose configurations have no ``layer_types``; a window applies to every layer.
_ONE_WINDOW = (
    "ministral3",
    "mistral",
    "mixtral",
    "phi3",
    "phimoe",
    "qwen3_moe",
    "starcoder2",
)


def tree_masks(model: Model, nodes: OpenNodes, count: int, length: int) -> Any:
    """Return the additive mask `[1, 1, count, length + nodes]` of the last ``count`` nodes.

    For a model with several kinds of layers, return a dictionary with one mask per kind.
    """
    masks = {
        kind: _additive(nodes.unseen(count, length, window), model)
        for kind, window in _windows(model).items()
    }
    return masks if len(masks) > 1 else next(iter(masks.values()))


def _additive(unseen: torch.Tensor, model: Any) -> torch.Tensor:
    mask = torch.zeros(unseen.shape, dtype=model.dtype).masked_fill_(unseen, float("-inf"))
    return mask[None, None].to(model.get_input_embeddings().weight.device)


def _windows(model: Model) -> dict[str, int | None]:
    """Return the sliding window of each kind of layer."""
    config: Any = model.config.get_text_config(decoder=True)
    window: int | None = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if kinds is None and window is None:
        return {_FULL: None}
    if kinds is None and config.model_type in _ONE_WINDOW:
        return {_SLIDING: window}
    if kinds is None or not {_FULL, _SLIDING}.issuperset(kinds):
        refuse(no_trees(model))
    return {kind: window if kind == _SLIDING else None for kind in dict.fromkeys(kinds)}


def no_trees(model: Model) -> Missing:
    return Missing(
        f"{model.config.model_type} models cannot draft trees: they do not support a mask that "
        "hides siblings from each other",
        "Draft a chain of candidates, without branching.",
    )


def first_layers(model: Model, layers: int) -> Any:
    """Return a model with the first ``layers`` layers; it shares the tensors of ``model``."""
    shared: dict[int, Any] = {id(t): t for t in (*model.parameters(), *model.buffers())}
    twin = copy.deepcopy(model, shared)
    name, all_layers = require(_layers(twin))
    twin.set_submodule(name, all_layers[:layers])
    return twin


def exits_of_model(model: Model) -> range | Missing:
    found = _layers(model)
    if isinstance(found, Missing):
        return found
    _, layers = found
    return exits_of(len(layers), _output_matrices(layers[-1]))


def _output_matrices(layer: nn.Module) -> Sequence[Weights]:
    """Return the matrices through which a layer writes to the residual stream.

    If the names of these matrices are unknown, return all parameters of the layer.
    """
    packed = packed_layers(layer)
    quantised = [
        each.matrix for name, each in packed.items() if f"{name}.weight".endswith(_TO_STREAM)
    ]
    named = [each for name, each in layer.named_parameters() if name.endswith(_TO_STREAM)]
    return quantised or named or list(layer.parameters())


def _layers(model: Model) -> tuple[str, nn.ModuleList] | Missing:
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return name, module
    return Missing(
        f"{model.config.model_type} models do not support early exit: they have no list of layers",
        "Use a draft model.",
    )
