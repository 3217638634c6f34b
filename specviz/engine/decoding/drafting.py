"""Drafters: objects that propose candidates and roll their own caches back.

The draft model (``model_drafting.py``) and heads (``head_drafting.py``) draft a chain or a tree
(``tree_drafting.py``). A head reads the hidden states that the target computed in its last pass.
Lookup drafters (``lookup.py``, ``suffix.py``) find an earlier occurrence of the text's last tokens
and copy the tokens after it. An early exit drafts with the target's first layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from specviz.engine.decoding.head_drafting import HeadDrafter, HeadReader
from specviz.engine.decoding.lookup import PromptLookupDrafter
from specviz.engine.decoding.model_drafting import ExitDrafter, ModelDrafter, ModelReader
from specviz.engine.decoding.own_drafter import own_drafter
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Chooser, Draws, Sampler, make_chooser
from specviz.engine.decoding.stopping import Stopper
from specviz.engine.decoding.suffix import SuffixDrafter
from specviz.engine.decoding.tree_drafting import TreeDrafter
from specviz.engine.heads.head import Head
from specviz.engine.model.feeds import Reading
from specviz.engine.model.pair import Pair
from specviz.engine.model.step_capabilities import FINAL, HiddenStates, require
from specviz.engine.model.steps import Step
from specviz.errors import PairError
from specviz.record.drafters import DraftMethod, chosen_drafter
from specviz.record.run_config import RunConfig


class Drafter(Protocol):
    @property
    def wants_hidden(self) -> HiddenStates | bool:
        """The target's hidden states that ``propose`` reads.

        True means the final states (``FINAL``); False means no states.
        """
        ...

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        """Read the prompt; a drafter that runs a model feeds it all prompt tokens but the last."""
        ...

    def propose(
        self, history: Sequence[int], count: int, draws: Draws, hidden: torch.Tensor | None
    ) -> Proposal:
        """Return candidates that follow the history, at most ``count`` on any path.

        Args:
            hidden: The hidden states `[num_tokens, width]` that ``wants_hidden`` names, oldest
                first; None if there are none. In the first round, they are the states of all prompt
                tokens but the last. Later, the last target pass fed some tokens of the text, and
                ``hidden`` holds the states of these tokens. The target has not read the history's
                last token yet, so this token has no state.
        """
        ...

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        """Cut the cache to the first ``valid`` tokens of the text.

        ``kept``: the tree nodes that are now part of the text.
        """
        ...


def proposing(
    drafter: Drafter,
    history: Sequence[int],
    count: int,
    draws: Draws,
    hidden: torch.Tensor | None,
) -> Reading[Proposal]:
    """Draft like ``propose``, but let the caller make the draft model's passes.

    The generator yields each pass of the draft model, receives the pass's logits, and returns the
    proposal. A drafter without a draft model makes its own passes, so its generator yields nothing.
    """
    if type(drafter) is ModelDrafter:
        return (yield from drafter.proposing(history, count, draws))
    return drafter.propose(history, count, draws, hidden)


def wanted_states(drafter: Drafter) -> HiddenStates | None:
    """Return the target's hidden states that a drafter reads; None if it reads none."""
    wanted = drafter.wants_hidden
    return FINAL if wanted is True else wanted or None


def proposable_by(drafter: Drafter) -> frozenset[int] | None:
    """Return the tokens that a head can propose.

    Return None if the drafter has no head, or if the head can propose all tokens.
    """
    reader = _reader_of(drafter)
    return reader.proposable if isinstance(reader, HeadReader) else None


def own_step_of(drafter: Drafter) -> Step | None:
    """Return the draft model's step, which has its own cache; None for any other drafter.

    An early exit has no step of its own, because it uses the target's cache.
    """
    reader = _reader_of(drafter)
    return reader.own_step if isinstance(reader, ModelReader) else None


def _reader_of(drafter: Drafter) -> object:
    return drafter.reader if isinstance(drafter, TreeDrafter) else drafter


def make_drafter(
    pair: Pair,
    config: RunConfig,
    capacity: int,
    sampler: Sampler,
    stopper: Stopper | None,
    target: Step,
    prompt_ids: Sequence[int] = (),
) -> Drafter:
    """Return the drafter that the configuration names, with its own cache.

    An early exit uses the cache of ``target`` instead. ``stopper`` may end drafting early. If
    ``prompt_ids`` and an earlier text begin with the same tokens, the draft's cache begins with a
    copy of these tokens' rows.
    """
    chosen = chosen_drafter(config.drafter)
    match chosen.method.name:
        case "model":
            return _from_draft_model(pair, config, capacity, sampler, stopper, target, prompt_ids)
        case "prompt-lookup":
            return PromptLookupDrafter(pair.vocabulary, pair.device)
        case "suffix":
            return SuffixDrafter(pair.vocabulary, pair.device, pair.texts)
        case "own":
            return own_drafter(pair, config, capacity)
        case _:
            choose = make_chooser(config, sampler)
    if chosen.method.needs_head:
        return _from_head(pair, config, capacity, choose, stopper, target)
    return ExitDrafter(target.early_exit(chosen.number), choose, pair.vocabulary, stopper)


def _from_draft_model(
    pair: Pair,
    config: RunConfig,
    capacity: int,
    sampler: Sampler,
    stopper: Stopper | None,
    target: Step,
    prompt_ids: Sequence[int],
) -> Drafter:
    step = _draft_step(pair, capacity, prompt_ids)
    choose = make_chooser(config, sampler)
    if config.is_chain:
        return ModelDrafter(step, choose, pair.vocabulary, stopper)
    for each in (target, step):
        require(each.capabilities.trees)
    return TreeDrafter(ModelReader(step), config, choose, pair.vocabulary)


def _from_head(
    pair: Pair,
    config: RunConfig,
    capacity: int,
    choose: Chooser,
    stopper: Stopper | None,
    target: Step,
) -> Drafter:
    head = _head(pair, config.draft_method)
    if config.is_chain:
        return HeadDrafter(head, target, capacity, choose, pair.vocabulary, stopper)
    for trees in (target.capabilities.trees, head.trees):
        require(trees)
    reader = HeadReader(head, target, capacity, pair.vocabulary)
    return TreeDrafter(reader, config, choose, pair.vocabulary)


def _head(pair: Pair, method: DraftMethod) -> Head:
    if pair.head is None or pair.head.method != method.name:
        raise PairError(
            f"This pair has no {method.words}.",
            remedy="Load the target with the head as its draft, or choose another drafter.",
        )
    return pair.head


def _draft_step(pair: Pair, capacity: int, prompt_ids: Sequence[int]) -> Step:
    if pair.draft is None:
        raise PairError(
            "This pair has no draft model.",
            remedy="Load the pair with a draft model, or choose the prompt-lookup drafter.",
        )
    return pair.draft_step(capacity, prompt_ids)
