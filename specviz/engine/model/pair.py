"""A loaded pair of a draft and a target, which creates the models' steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from specviz.engine.model.fingerprint import Stamps, stamps_of
from specviz.engine.model.read_text import ReadText
from specviz.engine.model.shared_tokens import SharedTokens
from specviz.engine.model.steps import Step, StepWeights
from specviz.engine.model.suffix_automaton import SuffixAutomaton
from specviz.engine.model.text import TokenTable
from specviz.engine.model.translated_step import TranslatedStep
from specviz.record.drafters import MODEL
from specviz.record.trace import Environment, PairInfo

if TYPE_CHECKING:
    from specviz.engine.decoding.device_lanes import DeviceLanes
    from specviz.engine.heads.head import Head
    from specviz.engine.model.plain_llama import Model


@dataclass(slots=True, eq=False, kw_only=True)
class Pair:
    """A loaded target and draft that use the same token ids.

    ``vocabulary`` is the number of ids: both models' logits are cut to it, and larger ids are
    padding. If the vocabularies differ, the ids are the target's, and ``shared`` maps them to the
    draft's. ``draft`` is None for drafters without a model. ``max_context`` is the shorter of the
    two models' context limits, or the target's limit if the vocabularies differ. The embedded
    pairs' models are ``PlainLlamaForCausalLM``, which ``in_transformers`` converts.
    """

    name: str
    target: Model
    draft: Model | None
    tokenizer: Any  # of transformers, or a ``PlainTokenizer``
    vocabulary: int
    token_table: TokenTable
    eos_ids: frozenset[int]
    max_context: int | None
    device: torch.device  # of the input token ids
    info: PairInfo
    environment: Environment
    notices: tuple[str, ...] = ()
    lacks_kernels: bool = False  # loaded before the kernels were compiled; steps run through torch
    stamps: Stamps = field(default_factory=dict[Path, Any], repr=False)  # of the model files
    target_weights: StepWeights = field(repr=False)
    draft_weights: StepWeights | None = field(default=None, repr=False)
    head: Head | None = field(default=None, repr=False)  # drafts in place of a draft model
    shared: SharedTokens | None = field(default=None, repr=False)
    texts: SuffixAutomaton | None = field(default=None, repr=False)  # for suffix lookup
    lanes: DeviceLanes | None = field(default=None, repr=False)  # run rounds on the device
    last_read: ReadText | None = field(default=None, repr=False)  # caches of the latest run

    @property
    def draft_kind(self) -> str:
        """Return what drafts the candidates, as a draft method names it.

        ``MODEL`` for a draft model, the method (such as "eagle") for a head, or "" for neither.
        """
        if self.head is not None:
            return self.head.method
        return "" if self.draft is None else MODEL

    @property
    def has_chat(self) -> bool:
        """Return whether the target has a chat template."""
        return bool(getattr(self.tokenizer, "chat_template", None))

    @property
    def is_current(self) -> bool:
        """Return whether the model files are unchanged since loading."""
        return stamps_of(self.stamps) == self.stamps

    def target_step(self, capacity: int, prompt_ids: Sequence[int] = ()) -> Step:
        """Return a step of the target for at most ``capacity`` tokens.

        The step's cache already contains the tokens that ``prompt_ids`` shares with ``last_read``.
        """
        step, read = self.target_weights.step(self.vocabulary, capacity), self.last_read
        if read is not None and (count := read.num_shared(prompt_ids)):
            step.copy_rows(read.target, count)
        return step

    def draft_step(self, capacity: int, prompt_ids: Sequence[int] = ()) -> Step:
        """Return a step of the draft; the step takes the target's token ids.

        If the vocabularies are equal, the step's cache already contains tokens of ``prompt_ids``,
        as in ``target_step``. If the vocabularies differ, the cache is empty.
        """
        weights, shared, read = self.draft_weights, self.shared, self.last_read
        assert weights is not None
        if shared is not None:
            return TranslatedStep(
                lambda most: weights.step(shared.draft.size, most), shared, capacity
            )
        step = weights.step(self.vocabulary, capacity)
        if read is not None and read.draft is not None and (count := read.num_shared(prompt_ids)):
            step.copy_rows(read.draft, min(count, read.draft.length))
        return step
