"""Drafters: whatever proposes candidates and rolls its own cache back.

The draft model is one, with a chain (here) or a tree (``tree_drafting.py``); others copy what
followed the same words earlier (``lookup.py``, ``suffix.py``) or leave the target after its first
layers. A drafter is handed the target's last hidden states, so that heads which read them (EAGLE,
Medusa) can be drafters too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from specviz.engine.decoding.lookup import PromptLookupDrafter
from specviz.engine.decoding.own_drafter import own_drafter
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import (
    Chooser,
    Draws,
    Sampler,
    make_chooser,
    on_one_thread,
)
from specviz.engine.decoding.stopping import Stopper
from specviz.engine.decoding.suffix import SuffixDrafter
from specviz.engine.decoding.tree_drafting import TreeDrafter
from specviz.engine.model.pair import Pair
from specviz.engine.model.steps import Step
from specviz.errors import PairError
from specviz.record.drafters import chosen_drafter
from specviz.record.run_config import RunConfig


class Drafter(Protocol):
    wants_hidden: bool

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        """Read the prompt up to its last token."""
        ...

    def propose(
        self,
        history: Sequence[int],
        count: int,
        draws: Draws,
        hidden: torch.Tensor | None,
    ) -> Proposal:
        """Candidates to follow the history, at most ``count`` one behind the other."""
        ...

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        """Forget what was fed beyond the first ``valid`` tokens of the text. ``kept``: of a tree,
        the nodes that are among these."""
        ...


class ModelDrafter:
    """A small model of the target's family, drafting token by token.

    The last candidate of a round is never fed. If all were accepted, the first step of the next
    round is fed two tokens to catch up.
    """

    wants_hidden = False

    def __init__(
        self, step: Step, choose: Chooser, vocabulary: int, stopper: Stopper | None = None
    ) -> None:
        self._step = step
        self._choose = choose
        self._vocabulary = vocabulary
        self._stopper = stopper

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        if len(prompt_ids) > 1:
            self._step.feed(torch.tensor(prompt_ids[:-1], device=self._step.device), 0)

    def propose(
        self,
        history: Sequence[int],
        count: int,
        draws: Draws,
        hidden: torch.Tensor | None,
    ) -> Proposal:
        del hidden
        catch_up = len(history) - self._step.length
        fed = torch.tensor(history[-catch_up:], device=self._step.device)
        rows: list[torch.Tensor] = []
        probs: list[torch.Tensor] = []
        tokens: list[torch.Tensor] = []
        for number in range(count):
            if self._stopper is not None and not self._stopper.goes_on(number):
                break
            logits = self._step.feed(fed, 1)
            fed, law = self._choose(logits, draws, number)
            rows.append(logits)
            probs.append(law)
            tokens.append(fed)
            if self._stopper is not None:
                self._stopper.saw(logits, law, fed)
        if not tokens:
            return nothing(self._vocabulary, draws.uniforms.device)
        return Proposal(_joined(tokens), _joined(probs), _joined(rows), catch_up)

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        del kept
        self._step.forget(max(0, self._step.length - valid))


class ExitDrafter(ModelDrafter):
    """The target's first layers, whose step is wherever the whole target is."""

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        """The target has read it."""

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        """The target's own step is brought back, and this one with it."""


@on_one_thread
def _joined(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat(rows)


def nothing(vocabulary: int, device: torch.device) -> Proposal:
    """No candidates."""
    return Proposal(
        torch.empty(0, dtype=torch.int64, device=device),
        torch.empty(0, vocabulary, device=device),
        torch.empty(0, vocabulary, device=device),
        0,
    )


def make_drafter(
    pair: Pair,
    config: RunConfig,
    capacity: int,
    sampler: Sampler,
    stopper: Stopper | None,
    target: Step,
) -> Drafter:
    """The drafter that the settings name, with a cache of its own; an early exit shares that of the
    ``target``'s step. ``stopper`` may end drafting early."""
    chosen = chosen_drafter(config.drafter)
    match chosen.method.name:
        case "model":
            return _model_drafter(pair, config, capacity, sampler, stopper)
        case "prompt-lookup":
            return PromptLookupDrafter(pair.vocabulary, pair.device)
        case "suffix":
            return SuffixDrafter(pair.vocabulary, pair.device)
        case "early-exit":
            step = target.early_exit(chosen.number)
            return ExitDrafter(step, make_chooser(config, sampler), pair.vocabulary, stopper)
        case "own":
            return own_drafter(pair, config, capacity)
        case _:
            raise PairError(f"The drafter {config.drafter} is not known.", remedy="Choose another.")


def _model_drafter(
    pair: Pair,
    config: RunConfig,
    capacity: int,
    sampler: Sampler,
    stopper: Stopper | None,
) -> Drafter:
    if pair.draft is None:
        raise PairError(
            "This pair has no draft model.",
            remedy="Load it with a draft, or choose the prompt-lookup drafter.",
        )
    step = pair.draft_step(capacity)
    if config.is_chain:
        return ModelDrafter(step, make_chooser(config, sampler), pair.vocabulary, stopper)
    return TreeDrafter(step, config, sampler)
