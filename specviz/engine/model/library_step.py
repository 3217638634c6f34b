"""The step that runs a model through transformers, if the model's cache can be truncated.

Models with recurrent layers have another step (``recurrent_step.py``).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import DynamicCache, PreTrainedModel

from specviz.engine.model.exits import require_exit
from specviz.engine.model.library_trees import exits_of_model, first_layers, no_trees, tree_masks
from specviz.engine.model.memory import is_out_of_memory
from specviz.engine.model.packed_weights import agree_roughly, is_packed
from specviz.engine.model.recurrent_layers import (
    has_recurrent_layers,
    no_recurrent_exits,
    no_recurrent_trees,
)
from specviz.engine.model.step_capabilities import (
    AFTER_NORM,
    HiddenStates,
    Missing,
    Offered,
    StepCapabilities,
    joined,
    require,
)
from specviz.engine.model.steps import Step
from specviz.engine.model.trees import OpenNodes

_SPREAD_OFF = {
    torch.float32: 1e-3,
    torch.float64: 1e-3,
}  # largest error of a tree's logits, as a share of the logits' spread
_HALF_OFF = 5e-2
_ROWS = ("keys", "values", "indexer_keys")  # what cache layers keep for each token
_takes_trees: WeakKeyDictionary[PreTrainedModel, bool] = WeakKeyDictionary()


class LibraryStep(Step):
    """A step for any transformers family whose cache can be rolled back.

    Models with sliding windows are rolled back exactly, too: a ``DynamicCache`` made without a
    configuration keeps every position, and the mask hides the positions outside a window.
    """

    def __init__(self, model: PreTrainedModel, vocabulary: int) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._cache = DynamicCache()
        self._cache_argument = "past_key_values"
        self._nodes = OpenNodes()
        self._exits: list[tuple[LibraryStep, int]] = []  # exits and their numbers of layers
        self._requested: HiddenStates | None = None
        self._hidden: torch.Tensor | None = None

    @property
    def capabilities(self) -> StepCapabilities:
        return library_capabilities(self._model)

    @property
    def length(self) -> int:
        return int(self._cache.get_seq_length()) - len(self._nodes)

    @property
    def device(self) -> torch.device:
        embedding: Any = self._model.get_input_embeddings()
        return embedding.weight.device

    @property
    def state_bytes(self) -> int:
        """Return the size of the recurrent states in bytes; 0 without recurrent layers."""
        return 0

    @property
    def row_bytes(self) -> int:
        """Return the size of the cached keys and values in bytes."""
        layers: list[Any] = self._cache.layers
        return sum(_nbytes(getattr(layer, name, None)) for layer in layers for name in _ROWS)

    def request_hidden(self, states: HiddenStates) -> None:
        assert set(states.places) <= set(hidden_places(self._model))
        self._requested = states

    @property
    def hidden(self) -> torch.Tensor | None:
        return self._hidden

    def copy_rows(self, other: Step, count: int) -> None:
        assert self.length == 0
        if not isinstance(other, LibraryStep) or other._model is not self._model:
            return
        layers: list[Any] = other._cache.layers
        for number, layer in enumerate(layers):
            rows = (each[:, :, :count].clone() for each in (layer.keys, layer.values))
            self._cache.update(*rows, number)

    @torch.inference_mode()
    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        assert not self._nodes
        logits = self._run(token_ids, max(1, num_logits))
        self._update_exits()
        return logits

    def forget(self, count: int) -> None:
        assert not self._nodes
        if count:
            self._cache.crop(-count)
        self._update_exits()

    @torch.inference_mode()
    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        require(_trees(self._model))
        return self._branch(token_ids, parents)

    @torch.inference_mode()
    def _branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        length, count = self.length, token_ids.shape[0]
        self._nodes.add(parents)
        depths = torch.tensor(self._nodes.depths(count), device=token_ids.device)
        masks = tree_masks(self._model, self._nodes, count, length)
        return self._run(
            token_ids, count, attention_mask=masks, position_ids=(depths + length)[None]
        )

    @torch.inference_mode()
    def keep(self, nodes: Sequence[int]) -> None:
        begin, dropped = self.length, len(self._nodes) - len(nodes)
        self._nodes.settle(nodes)
        if list(nodes) != list(range(len(nodes))):
            layers: list[Any] = self._cache.layers
            for layer in layers:
                _gather(layer.keys, begin, nodes)
                _gather(layer.values, begin, nodes)
        self.forget(dropped)

    def early_exit(self, layers: int) -> LibraryStep:
        require_exit(_exits(self._model), layers)
        step = LibraryStep(first_layers(self._model, layers), self._vocabulary)
        step._share(self._cache, layers)
        self._exits.append((step, layers))
        return step

    def _share(self, cache: DynamicCache, layers: int) -> None:
        """Share the first ``layers`` layers of ``cache``, but not the rows that are added later."""
        self._nodes.settle(())
        self._cache.layers = [copy.copy(layer) for layer in cache.layers[:layers]]
        self._update_exits()

    def _update_exits(self) -> None:
        for step, layers in self._exits:
            step._share(self._cache, layers)

    @property
    def _requested_entries(self) -> list[int]:
        """Return the indices of the requested states in transformers' ``hidden_states``."""
        places = () if self._requested is None else self._requested.places
        last = len(hidden_places(self._model)) - 1
        return [last if place == AFTER_NORM else place for place in places]

    def _run(self, token_ids: torch.Tensor, count: int, **how: Any) -> torch.Tensor:
        output = self._model(
            token_ids[None],
            **{self._cache_argument: self._cache},
            use_cache=True,
            output_hidden_states=self._requested_entries or None,
            logits_to_keep=count,
            **how,
        )
        if self._requested is not None:
            entries = self._requested_entries
            self._hidden = joined([output.hidden_states[entry][0] for entry in entries])
        return output.logits[0, -count:, : self._vocabulary].float()


def _nbytes(rows: torch.Tensor | None) -> int:
    return 0 if rows is None else rows.nbytes


def _gather(cache: torch.Tensor, begin: int, nodes: Sequence[int]) -> None:
    """Move the cache rows of these nodes to consecutive rows from ``begin`` on."""
    rows = torch.tensor(nodes, device=cache.device) + begin
    cache.narrow(-2, begin, len(nodes)).copy_(cache.index_select(-2, rows))


def library_capabilities(model: PreTrainedModel) -> StepCapabilities:
    family = model.config.model_type
    return StepCapabilities(
        hidden_states=hidden_places(model),
        trees=_trees(model),
        exits=_exits(model),
        device_rounds=Missing(
            f"specviz's static caches do not support {family} models", "Use `--step library`."
        ),
    )


def hidden_places(model: PreTrainedModel) -> range:
    """Return which hidden states transformers provides, numbered as in ``HiddenStates.places``.

    These are the input of every layer and the output of the final norm. Only the residual stream
    before the final norm is missing.
    """
    return range(AFTER_NORM, model.config.get_text_config().num_hidden_layers)


def _trees(model: PreTrainedModel) -> Offered:
    """Return True if the model can read trees of candidates, else the reason why it cannot.

    A model can read trees if a tree's nodes get the logits that they get when each path is fed
    separately. Each model is tested once.
    """
    if model not in _takes_trees:
        _takes_trees[model] = not has_recurrent_layers(model) and _agrees_with_paths(model)
    if _takes_trees[model]:
        return True
    recurrent = has_recurrent_layers(model)
    return no_recurrent_trees(model.config.model_type) if recurrent else no_trees(model)


def _exits(model: PreTrainedModel) -> range | Missing:
    recurrent = has_recurrent_layers(model)
    return no_recurrent_exits(model.config.model_type) if recurrent else exits_of_model(model)


def _agrees_with_paths(model: PreTrainedModel) -> bool:
    embedding: Any = model.get_input_embeddings()
    vocabulary = int(model.config.get_text_config().vocab_size)
    tokens = torch.randint(vocabulary, (8,), generator=torch.Generator().manual_seed(0))
    text, tokens = tokens.to(embedding.weight.device).split(4)
    try:
        step = LibraryStep(model, vocabulary)
        step.feed(text, 0)
        level = step._branch(tokens[:2], (-1, -1))
        tree = torch.cat((level, step._branch(tokens[2:], (0, 1))))
        step.keep(())
        separate = torch.empty_like(tree)
        for path in ([0, 2], [1, 3]):
            separate[path] = step.feed(tokens[path], 2)
            step.forget(2)
    except Exception as error:  # unsupported families may raise anything
        if is_out_of_memory(error):
            raise
        return False
    if is_packed(model):
        return agree_roughly(tree, separate)
    spread = (separate - separate.mean(-1, keepdim=True)).abs().max()
    return bool((tree - separate).abs().max() <= _SPREAD_OFF.get(model.dtype, _HALF_OFF) * spread)
