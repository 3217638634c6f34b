"""A loaded pair of a draft and a target, and the factory of their steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel

from specviz.engine.model.fingerprint import Stamps, stamps_of
from specviz.engine.model.shared_tokens import SharedTokens
from specviz.engine.model.steps import Step, StepWeights
from specviz.engine.model.suffix_automaton import SuffixAutomaton
from specviz.engine.model.text import TokenTable
from specviz.engine.model.translated_step import TranslatedStep
from specviz.record.trace import Environment, PairInfo

if TYPE_CHECKING:
    from specviz.engine.decoding.device_lanes import DeviceLanes


@dataclass(slots=True, eq=False, kw_only=True)
class Pair:
    """A loaded target and draft that use the same token ids.

    ``vocabulary`` is the number of ids: both models' logits are cut to it, and larger ids are
    padding. If the vocabularies differ, the ids are the target's, and ``shared`` maps them to the
    draft's. ``draft`` is None for drafters without a model. ``max_context`` is the shorter of the
    two models' contexts.
    """

    name: str
    target: PreTrainedModel
    draft: PreTrainedModel | None
    tokenizer: Any  # a transformers tokenizer, fast or slow
    vocabulary: int
    token_table: TokenTable
    eos_ids: frozenset[int]
    max_context: int | None
    device: torch.device  # of the input token ids
    info: PairInfo
    environment: Environment
    notices: tuple[str, ...] = ()
    stamps: Stamps = field(default_factory=dict[Path, Any], repr=False)  # of the model files
    target_weights: StepWeights = field(repr=False)
    draft_weights: StepWeights | None = field(default=None, repr=False)
    shared: SharedTokens | None = field(default=None, repr=False)
    texts: SuffixAutomaton | None = field(default=None, repr=False)  # for suffix lookup
    lanes: DeviceLanes | None = field(default=None, repr=False)  # run rounds on the device

    @property
    def is_current(self) -> bool:
        """Return whether the model files are unchanged since loading."""
        return stamps_of(self.stamps) == self.stamps

    def target_step(self, capacity: int) -> Step:
        """Return a step of the target with an empty cache for at most ``capacity`` tokens."""
        return self.target_weights.step(self.vocabulary, capacity)

    def draft_step(self, capacity: int) -> Step:
        """Return a step of the draft with an empty cache, in the target's token ids."""
        weights, shared = self.draft_weights, self.shared
        assert weights is not None
        if shared is None:
            return weights.step(self.vocabulary, capacity)
        return TranslatedStep(lambda most: weights.step(shared.draft.size, most), shared, capacity)
