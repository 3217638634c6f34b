"""Steps of transformers families with recurrent layers (linear attention, state space models).

The state of a recurrent layer cannot be cut to an earlier length. The step therefore copies all
recurrent states (a snapshot) before passes of several tokens and before some passes of one token. A
rollback restores the newest snapshot at or before the new length and cuts the attention layers to
the same length. The text's tokens after the snapshot are then *pending*: the next pass reads them
together with the new tokens. So a rollback makes the next pass longer but needs no extra pass.
``catch_up`` reads the pending tokens in a separate pass. The step calls ``catch_up`` itself if more
than ``MOST_PENDING`` tokens are pending.

Only some snapshots are kept; most of these are recent. If the snapshot for a rollback was dropped,
the rollback starts at an earlier snapshot and repeats the later passes, each with the same tokens.
The state at a length therefore depends only on the text and its passes. So a run that rolls back
and continues computes the same logits again.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import (
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
    LinearAttentionCacheLayerMixin,
)

from specviz.engine.model.library_step import LibraryStep
from specviz.engine.model.step_capabilities import refuse
from specviz.engine.model.steps import Step

MOST_PENDING = 8
_MOST_SNAPSHOTS = 8
_NEWEST = 3  # snapshots that are never dropped, besides the two oldest
_STRIDE = 8  # tokens fed one at a time between two snapshots

_Values: TypeAlias = Mapping[str, Mapping[int, Any]]  # the states of one layer, by attribute


@dataclass(slots=True, eq=False)
class _Pass:
    """A pass of the model.

    ``start``: the number of tokens before the pass. ``is_anchor``: whether rollbacks may return to
    this length; only anchors have snapshots. ``snapshot``: the states of each recurrent layer
    before the pass; None if the states were not copied or were dropped.
    """

    start: int
    is_anchor: bool
    snapshot: tuple[_Values, ...] | None


class RecurrentStep(LibraryStep):
    """A step with snapshots of its recurrent states; it supports neither trees nor exits."""

    def __init__(self, model: PreTrainedModel, vocabulary: int) -> None:
        super().__init__(model, vocabulary)
        accepted = inspect.signature(model.forward).parameters
        self._cache = _empty_cache(model)
        self._cache_argument = "past_key_values" if "past_key_values" in accepted else _OTHER_NAME
        self._takes_positions = "position_ids" in accepted
        self._text = torch.empty(0, dtype=torch.int64, device=self.device)
        self._num_read = 0  # tokens in the cache; the later ones are pending
        self._passes: list[_Pass] = []
        self._rolled_back = False  # since the last feed

    @property
    def length(self) -> int:
        return len(self._text)

    @property
    def num_pending(self) -> int:
        return len(self._text) - self._num_read

    @property
    def state_bytes(self) -> int:
        """Return the size of the recurrent states in bytes; a snapshot has the same size."""
        tensors = [
            each
            for values in self._snapshot()
            for states in values.values()
            for each in states.values()
            if isinstance(each, torch.Tensor)
        ]
        return sum(each.nbytes for each in tensors)

    def copy_rows(self, other: Step, count: int) -> None:
        assert self.length == 0
        if not isinstance(other, RecurrentStep) or other._model is not self._model:
            return
        self._text, self._num_read = other._text, other._num_read
        self._passes = [_Pass(each.start, each.is_anchor, each.snapshot) for each in other._passes]
        self._cache.layers = [_copied(layer) for layer in other._cache.layers]
        self._begin_pass(is_anchor=True)
        self.forget(self.length - count)

    @torch.inference_mode()
    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        if self.num_pending > MOST_PENDING:
            self.catch_up()
        count = len(token_ids)
        last = max((each.start for each in self._passes if each.is_anchor), default=-_STRIDE)
        far = self._num_read - last >= _STRIDE
        self._begin_pass(is_anchor=count > 1 or self._rolled_back or far)
        self._rolled_back = False
        self._text = torch.cat((self._text, token_ids))
        logits = self._read_until(self.length, max(1, num_logits))
        if self._hidden is not None:
            self._hidden = self._hidden[-count:]
        return logits

    def forget(self, count: int) -> None:
        assert count <= self.length
        length = self.length - count
        self._rolled_back = True
        if length < self._num_read:
            self._return_to(length)
        self._text = self._text[:length]

    def keep(self, nodes: Sequence[int]) -> None:
        del nodes
        refuse(self.capabilities.trees)

    @torch.inference_mode()
    def catch_up(self) -> None:
        if self.num_pending:
            self._begin_pass(is_anchor=True)
            self._read_again(self.length)

    def _begin_pass(self, *, is_anchor: bool) -> None:
        """Record the text's length at the start of a pass, if it is not recorded yet.

        If rollbacks may return to this length (an anchor), copy the recurrent states.
        """
        if self._passes and self._passes[-1].start == self._num_read:
            return
        snapshot = self._snapshot() if is_anchor else None
        self._passes.append(_Pass(self._num_read, is_anchor, snapshot))
        self._drop_snapshots()

    def _read_until(self, end: int, num_logits: int) -> torch.Tensor:
        fed = self._text[self._num_read : end]
        how: dict[str, Any] = {}
        if self._takes_positions:
            how["position_ids"] = torch.arange(self._num_read, end, device=fed.device)[None]
        logits = self._run(fed, num_logits, **how)
        self._num_read = end
        return logits

    def _read_again(self, end: int) -> None:
        """Feed the tokens up to ``end`` again, without changing the hidden states."""
        hidden = self._hidden
        self._read_until(end, 1)
        self._hidden = hidden

    @torch.inference_mode()
    def _return_to(self, length: int) -> None:
        """Restore the states at the newest anchor (see ``_Pass``) at or before ``length``."""
        anchors = [i for i, each in enumerate(self._passes) if each.is_anchor]
        chosen = max(i for i in anchors if self._passes[i].start <= length)
        copied = max(i for i in range(chosen + 1) if self._passes[i].snapshot is not None)
        self._passes = self._passes[: chosen + 1]
        self._restore(self._passes[copied])
        for begun, following in pairwise(self._passes[copied:]):
            assert begun.start == self._num_read
            self._read_again(following.start)
        if self._passes[-1].snapshot is None:
            self._passes[-1].snapshot = self._snapshot()

    def _snapshot(self) -> tuple[_Values, ...]:
        return tuple(_states(layer) for layer in self._recurrent_layers())

    def _recurrent_layers(self) -> Sequence[Any]:
        layers = self._cache.layers
        return [each for each in layers if isinstance(each, LinearAttentionCacheLayerMixin)]

    def _restore(self, begun: _Pass) -> None:
        assert begun.snapshot is not None
        layers: list[Any] = self._cache.layers
        for layer in layers:
            if not isinstance(layer, LinearAttentionCacheLayerMixin):
                layer.crop(begun.start - self._num_read)
            elif isinstance(layer, DynamicLayer):  # the layer has attention, too
                DynamicLayer.crop(layer, begun.start - self._num_read)
        for layer, values in zip(self._recurrent_layers(), begun.snapshot, strict=True):
            vars(layer).update(_cloned(values))
        self._num_read = begun.start

    def _drop_snapshots(self) -> None:
        """Drop all but a few snapshots; the older ones are farther apart."""
        kept = [each for each in self._passes if each.snapshot is not None]
        while len(kept) > _MOST_SNAPSHOTS:
            gaps = {
                i: (kept[i + 1].start - kept[i - 1].start) / (self._num_read - kept[i - 1].start)
                for i in range(2, len(kept) - _NEWEST)
            }
            kept.pop(min(gaps, key=lambda i: gaps[i])).snapshot = None


_OTHER_NAME = "cache_params"  # the argument of families without attention


def _empty_cache(model: PreTrainedModel) -> DynamicCache:
    """Return an empty cache; its attention layers also keep tokens outside a sliding window."""
    cache = DynamicCache(config=model.config)
    for number, layer in enumerate(cache.layers):
        if isinstance(layer, LinearAttentionAndSlidingWindowAttentionLayer):
            states = layer.number_of_states
            cache.layers[number] = LinearAttentionAndFullAttentionLayer(number_of_states=states)
        elif isinstance(layer, DynamicSlidingWindowLayer):
            cache.layers[number] = DynamicLayer()
    return cache


def _states(layer: Any) -> _Values:
    """Return copies of a recurrent layer's states, and of the flags that describe them."""
    return _cloned({name: each for name, each in vars(layer).items() if isinstance(each, dict)})


def _copied(layer: Any) -> Any:
    """Return a copy of a cache layer, including its rows and states."""
    twin = copy.copy(layer)
    vars(twin).update(_cloned(vars(layer)))
    return twin


def _cloned(value: Any) -> Any:
    """Return a copy of a value; tensors and the values of dictionaries are copied, too."""
    if isinstance(value, dict):
        return {name: _cloned(each) for name, each in value.items()}
    return value.clone() if isinstance(value, torch.Tensor) else value
