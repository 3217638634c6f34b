"""The step: the one small interface through which the loop speaks to a model.

A step feeds tokens, keeps their keys and values, and forgets by length. It may hold open nodes of a
tree behind the text; they are kept or dropped before anything else is fed or forgotten. Two kinds
of weights stand behind it: *library* here (any family, through transformers) and *lean*
(``lean.py``). A third with static caches and CUDA graphs can stand beside them: state stays on the
device, rollback is a length, and nothing here asks the device for a value.
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
    last_writes,
    no_trees,
    num_layers,
    tree_masks,
)
from specviz.engine.model.memory import is_out_of_memory
from specviz.engine.model.trees import OpenNodes

_SPREAD_OFF = {torch.float32: 1e-3, torch.float64: 1e-3}  # what trees may be off, of the spread
_HALF_OFF = 5e-2
_takes_trees: WeakKeyDictionary[PreTrainedModel, bool] = WeakKeyDictionary()


class Step(Protocol):
    """One model with its cache."""

    @property
    def length(self) -> int:
        """Tokens of the text held in the cache; open nodes are not among them."""
        ...

    @property
    def device(self) -> torch.device: ...

    @property
    def hidden(self) -> torch.Tensor | None:
        """Last hidden states behind the latest logits, [num_logits, width], for drafters.

        After a prefill, those of its last token. None where they were not asked for.
        """
        ...

    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        """Append tokens [num_tokens]; float32 logits [num_logits, vocabulary] of the last ones.

        With ``num_logits`` 0 (a prefill) what is returned means nothing.
        """
        ...

    def forget(self, count: int) -> None:
        """Drop the last ``count`` tokens from the cache."""
        ...

    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        """Append nodes of a tree behind the text; float32 logits [num_nodes, vocabulary] of all.

        ``parents[i]`` is the number of the node's parent among all nodes since the text's end, in
        the order they were appended (over several calls), -1 for the text's last token; a parent
        comes before its children. A node sees the text and its ancestors; its position is the
        text's length plus its depth. Raises PairError where a model cannot do it.
        """
        ...

    def keep(self, nodes: Sequence[int]) -> None:
        """Make these nodes, a path down from the text's end, part of the text; drop the others.

        The kept rows are gathered in place; no whole cache is copied.
        """
        ...

    def early_exit(self, layers: int) -> Step:
        """The first layers, the norm and the head, as a step that shares this one's cache.

        It begins at this step's length, and is there again whenever this step has moved; what it
        feeds is overwritten by this step. Raises PairError where leaving early means nothing.
        """
        ...


class LibraryStep:
    """Any family of transformers whose cache can be rolled back.

    A plain ``DynamicCache`` keeps every position, and the mask applies a sliding window;
    so rollback is exact for window models too.
    """

    def __init__(
        self, model: PreTrainedModel, vocabulary: int, *, keep_hidden: bool = False
    ) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._cache = DynamicCache()
        self._nodes = OpenNodes()
        self._exits: list[tuple[LibraryStep, int]] = []  # and their numbers of layers
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
        self._tell_exits()
        return logits

    def forget(self, count: int) -> None:
        assert not self._nodes
        if count:
            self._cache.crop(-count)
        self._tell_exits()

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
        check_exit(layers, num_layers(self._model), last_writes(self._model))
        step = LibraryStep(
            first_layers(self._model, layers), self._vocabulary, keep_hidden=self._keep_hidden
        )
        step._share(self._cache, layers)
        self._exits.append((step, layers))
        return step

    def _share(self, cache: DynamicCache, layers: int) -> None:
        """Refer to the first layers of another cache; what is appended is one's own."""
        self._nodes.settle(())
        self._cache.layers = [copy.copy(layer) for layer in cache.layers[:layers]]
        self._tell_exits()

    def _tell_exits(self) -> None:
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
    """Bring the rows of these nodes, which lie behind so many others, to the front of them."""
    rows = torch.tensor(nodes, device=cache.device) + begin
    cache.narrow(-2, begin, len(nodes)).copy_(cache.index_select(-2, rows))


def _reads_trees(model: PreTrainedModel, vocabulary: int) -> bool:
    """Tried once for a model: a tree must give what its paths give when they are fed alone."""
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
        alone = torch.empty_like(tree)
        for path in ([0, 2], [1, 3]):
            alone[path] = step.feed(tokens[path], 2)
            step.forget(2)
    except Exception as error:  # whatever a family raises that knows no such mask
        if is_out_of_memory(error):
            raise
        return False
    spread = (alone - alone.mean(-1, keepdim=True)).abs().max()
    return bool((tree - alone).abs().max() <= _SPREAD_OFF.get(model.dtype, _HALF_OFF) * spread)


def _probe(model: Any, vocabulary: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(vocabulary, (8,), generator=generator)
    return tokens.to(model.get_input_embeddings().weight.device)
