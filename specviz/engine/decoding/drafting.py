"""Drafters: whatever proposes candidates and rolls its own cache back.

The draft model is one; prompt lookup, which copies what followed the same words earlier
(Saxena 2023), is another and needs no model. A drafter is handed the target's last hidden
states, so that heads which read them (EAGLE, Medusa) can be drafters too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from specviz.engine.decoding.sampling import Sampler, draft_slot, on_one_thread, one_hot
from specviz.engine.model.pair import Pair
from specviz.engine.model.steps import Step
from specviz.errors import PairError
from specviz.record.trace import RunConfig


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """Candidates and the very distributions they were drawn from."""

    token_ids: torch.Tensor  # [num_candidates]
    probs: torch.Tensor  # [num_candidates, vocabulary]
    logits: torch.Tensor | None  # the same before the processors; None without a model
    catch_up: int  # tokens the first step was fed


class Drafter(Protocol):
    wants_hidden: bool

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        """Read the prompt up to its last token."""
        ...

    def propose(
        self,
        history: Sequence[int],
        count: int,
        uniforms: torch.Tensor,  # the slots of this round
        hidden: torch.Tensor | None,
    ) -> Proposal:
        """At most ``count`` candidates to follow the history."""
        ...

    def settle(self, valid: int) -> None:
        """Forget what was fed beyond the first ``valid`` tokens of the text."""
        ...


class ModelDrafter:
    """A small model of the target's family, drafting token by token.

    The last candidate of a round is never fed. If all were accepted, the first step of the next
    round is fed two tokens to catch up.
    """

    wants_hidden = False

    def __init__(self, step: Step, sampler: Sampler) -> None:
        self._step = step
        self._sampler = sampler

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        if len(prompt_ids) > 1:
            self._step.feed(torch.tensor(prompt_ids[:-1], device=self._step.device), 0)

    def propose(
        self,
        history: Sequence[int],
        count: int,
        uniforms: torch.Tensor,
        hidden: torch.Tensor | None,
    ) -> Proposal:
        del hidden
        catch_up = len(history) - self._step.length
        fed = torch.tensor(history[-catch_up:], device=self._step.device)
        rows: list[torch.Tensor] = []
        probs: list[torch.Tensor] = []
        tokens: list[torch.Tensor] = []
        for position in range(count):
            logits = self._step.feed(fed, 1)
            slot = draft_slot(position)
            fed, law = self._sampler.choose(logits, uniforms[slot : slot + 1])
            rows.append(logits)
            probs.append(law)
            tokens.append(fed)
        return Proposal(_joined(tokens), _joined(probs), _joined(rows), catch_up)

    def settle(self, valid: int) -> None:
        self._step.forget(max(0, self._step.length - valid))


@on_one_thread
def _joined(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat(rows)


class PromptLookupDrafter:
    """Copies what followed the latest earlier occurrence of the last words.

    Certain of itself: its distributions are one-hots, so the lossless rule accepts with the
    target's own probability. Often it finds nothing and proposes nothing. A run may go back and
    along the same words again: what comes later in them is not looked at.
    """

    wants_hidden = False
    longest = 3

    def __init__(self, vocabulary: int, device: torch.device) -> None:
        self._vocabulary = vocabulary
        self._device = device
        self._seen: dict[tuple[int, ...], list[int]] = {}  # the places after them, ascending
        self._indexed = 0

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        self._index(prompt_ids)

    @on_one_thread
    def propose(
        self,
        history: Sequence[int],
        count: int,
        uniforms: torch.Tensor,
        hidden: torch.Tensor | None,
    ) -> Proposal:
        del uniforms, hidden
        self._index(history)
        copied = self._continuation(history, count)
        ids = torch.tensor(copied, dtype=torch.int64, device=self._device)
        return Proposal(ids, one_hot(ids[:, None], self._vocabulary), None, 0)

    def settle(self, valid: int) -> None:
        """Nothing is fed, so nothing is forgotten: the history itself only grows."""

    def _index(self, history: Sequence[int]) -> None:
        """Remember where each short run of tokens was last followed by something."""
        for end in range(max(1, self._indexed), len(history)):
            for size in range(1, min(self.longest, end) + 1):
                self._seen.setdefault(tuple(history[end - size : end]), []).append(end)
        self._indexed = max(self._indexed, len(history))

    def _continuation(self, history: Sequence[int], count: int) -> list[int]:
        for size in range(min(self.longest, len(history)), 0, -1):
            ends = self._seen.get(tuple(history[-size:]), [])
            earlier = bisect_left(ends, len(history))
            if earlier:
                start = ends[earlier - 1]
                return list(history[start : start + count])
        return []


def make_drafter(pair: Pair, config: RunConfig, capacity: int, sampler: Sampler) -> Drafter:
    """The drafter that the settings name, with a cache of its own."""
    match config.drafter:
        case "model":
            return _model_drafter(pair, capacity, sampler)
        case "prompt-lookup":
            return PromptLookupDrafter(pair.vocabulary, pair.device)


def _model_drafter(pair: Pair, capacity: int, sampler: Sampler) -> Drafter:
    if pair.draft is None:
        raise PairError(
            "This pair has no draft model.",
            remedy="Load it with a draft, or choose the prompt-lookup drafter.",
        )
    return ModelDrafter(pair.draft_step(capacity), sampler)
