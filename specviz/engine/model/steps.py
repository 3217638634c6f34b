"""The step: the only interface between the decoding loop and a model.

A step feeds tokens, keeps their keys and values, and forgets by length. It may have open nodes of a
tree after the text; they must be kept or dropped before anything else is fed or forgotten.
Implementations: *library* (here, any family, through transformers) and *lean* (``lean.py``). State
stays on the device and no method waits for it, so static caches with CUDA graphs fit, too.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch
from transformers import DynamicCache, PreTrainedModel

from specviz.engine.model.exits import check_exit
from specviz.engine.model.library_trees import (
    first_layers,
    no_trees,
    num_layers,
    output_matrices,
    tree_masks,
)
from specviz.engine.model.memory import is_out_of_memory
from specviz.engine.model.trees import OpenNodes

_SPREAD_OFF = {torch.float32: 1e-3, torch.float64: 1e-3}  # of trees, relative to the spread
_HALF_OFF = 5e-2
_takes_trees: WeakKeyDictionary[PreTrainedModel, bool] = WeakKeyDictionary()


class Step(Protocol):
    """One model with its cache."""

    @property
    def length(self) -> int:
        """Tokens of the text in the cache, without open nodes."""
        ...

    @property
    def device(self) -> torch.device: ...

    @property
    def hidden(self) -> torch.Tensor | None:
        """Last hidden states of the latest logits, `[num_logits, width]`, for drafters.

        After a prefill, those of its last token. None unless requested.
        """
        ...

    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        """Append tokens `[num_tokens]`, and return the logits of the last ones.

        Returns:
            float32 `[num_logits, vocabulary]`; meaningless if ``num_logits`` is 0 (a prefill).
        """
        ...

    def forget(self, count: int) -> None:
        """Drop the last ``count`` tokens from the cache."""
        ...

    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        """Append nodes of a tree after the text, and return their logits.

        A node attends to the text and its ancestors; its position is the text's length plus its
        depth.

        Args:
            parents: for each node the index of its parent among all open nodes, in the order they
                were appended (over several calls); -1 for the text's last token. A parent comes
                before its children.

        Returns:
            float32 `[num_nodes, vocabulary]`.

        Raises:
            PairError: the model does not support trees.
        """
        ...

    def keep(self, nodes: Sequence[int]) -> None:
        """Append these nodes, a path from the end of the text, to the text; drop the others.

        Their cache rows are moved in place; the cache is not copied.
        """
        ...

    def early_exit(self, layers: int) -> Step:
        """Return a step of the first layers, the norm and the head that shares this step's cache.

        It begins at this step's length and returns to it whenever this step moves; this step
        overwrites what it fed.

        Raises:
            PairError: the model does not support an exit there.
        """
        ...


class LibraryStep:
    """A step for any transformers family whose cache can be rolled back.

    A plain ``DynamicCache`` keeps every position and the mask applies sliding windows, so rollback
    is exact for models with windows, too.
    """

    def __init__(
        self, model: PreTrainedModel, vocabulary: int, *, keep_hidden: bool = False
    ) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._cache = DynamicCache()
        self._nodes = OpenNodes()
        self._exits: list[tuple[LibraryStep, int]] = []  # with their numbers of layers
        self._keep_hidden = keep_hidden
        self._hidden: torch.Tensor | None = None

    @property
    def length(self) -> int:
        return int(self._cache.get_seq_length()) - len(self._nodes)

    @property
    def device(self) -> torch.device:
        embedding: Any = self._model.get_input_embeddings()
        return embedding.weight.device

    @property
    def hidden(self) -> torch.Tensor | None:
        return self._hidden

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
        if not _reads_trees(self._model, self._vocabulary):
            raise no_trees(self._model)
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
        check_exit(layers, num_layers(self._model), output_matrices(self._model))
        step = LibraryStep(
            first_layers(self._model, layers), self._vocabulary, keep_hidden=self._keep_hidden
        )
        step._share(self._cache, layers)
        self._exits.append((step, layers))
        return step

    def _share(self, cache: DynamicCache, layers: int) -> None:
        """Share the first layers of another cache; appended rows are not shared."""
        self._nodes.settle(())
        self._cache.layers = [copy.copy(layer) for layer in cache.layers[:layers]]
        self._update_exits()

    def _update_exits(self) -> None:
        for step, layers in self._exits:
            step._share(self._cache, layers)

    def _run(self, token_ids: torch.Tensor, count: int, **how: Any) -> torch.Tensor:
        output = self._model(
            token_ids[None],
            past_key_values=self._cache,
            use_cache=True,
            output_hidden_states=self._keep_hidden,
            logits_to_keep=count,
            **how,
        )
        if self._keep_hidden:
            self._hidden = output.hidden_states[-1][0, -count:]
        return output.logits[0, -count:, : self._vocabulary].float()


def _gather(cache: torch.Tensor, begin: int, nodes: Sequence[int]) -> None:
    """Move the rows of these nodes to the rows from ``begin`` on."""
    rows = torch.tensor(nodes, device=cache.device) + begin
    cache.narrow(-2, begin, len(nodes)).copy_(cache.index_select(-2, rows))


def _reads_trees(model: PreTrainedModel, vocabulary: int) -> bool:
    """Return whether a tree gives the same logits as its paths; tested once per model."""
    if model not in _takes_trees:
        _takes_trees[model] = _agrees_with_paths(model, vocabulary)
    return _takes_trees[model]


def _agrees_with_paths(model: PreTrainedModel, vocabulary: int) -> bool:
    text, tokens = _probe(model, vocabulary).split(4)
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
    except Exception as error:  # families without support raise anything
        if is_out_of_memory(error):
            raise
        return False
    spread = (separate - separate.mean(-1, keepdim=True)).abs().max()
    return bool((tree - separate).abs().max() <= _SPREAD_OFF.get(model.dtype, _HALF_OFF) * spread)


def _probe(model: Any, vocabulary: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(vocabulary, (8,), generator=generator)
    return tokens.to(model.get_input_embeddings().weight.device)
