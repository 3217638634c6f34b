"""A draft with a different vocabulary, as a step in the target's token ids.

Shared tokens have the draft's logits; all other logits are -1e9. So the distribution is the
draft's, restricted to the shared tokens and normalised (Timor et al. 2025, arXiv 2502.05202, at
token level). Verification uses this distribution, so the output still has the target's
distribution. Code that drafts, scores or measures uses a ``TranslatedStep`` like any other step.

Lengths count target tokens; ``DraftReading`` translates the tokens to the draft's. A new token may
change the draft tokens before it. So the cache keeps the draft tokens before the first change, and
the draft is fed all later draft tokens.

If the text outgrows the draft's window (its usable context), the draft forgets the older half of
the window. The host must see every token, so on a GPU a draft step waits for the previous draft
step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from specviz.engine.model.draft_reading import DraftReading
from specviz.engine.model.reduced_output import over_vocabulary
from specviz.engine.model.shared_tokens import SharedTokens
from specviz.engine.model.step_capabilities import Missing, StepCapabilities
from specviz.engine.model.steps import Step
from specviz.engine.model.wrapped_step import StepOver
from specviz.record.limits import MAX_GAMMA
from specviz.record.token_text import common_prefix

_DRAFT_TOKENS = 4  # draft tokens allowed per target token, for example one per letter
_SHORTEST = 8  # smallest window of the draft, in tokens
_NO_HIDDEN_STATES = Missing(
    "A draft with a different vocabulary provides no hidden states",
    "Choose a drafter that reads the target's hidden states.",
)
_NO_EXITS = Missing(
    "A draft with a different vocabulary has no early exit",
    "Use an early exit of the target, or the whole draft.",
)
NO_DEVICE_ROUNDS = Missing(
    "draft and target have different vocabularies", "Use `--step lean`, or another draft."
)


class TranslatedStep(StepOver):
    """The draft's step, in the target's token ids.

    ``make`` creates a step of a given capacity, in the draft's own ids.
    """

    def __init__(self, make: Callable[[int], Step], shared: SharedTokens, capacity: int) -> None:
        most = _DRAFT_TOKENS * capacity
        room = most if shared.draft_context is None else shared.draft_context - MAX_GAMMA
        self._window = max(_SHORTEST, min(most, room))
        # The capacity leaves room for a tree after a full window.
        super().__init__(make(self._window + capacity))
        self._reading = DraftReading(shared)
        self._cached: list[int] = []  # draft tokens in the cache
        self._nodes: list[tuple[int, int]] = []  # nodes of the tree: target id, draft id
        self._filler_id = shared.filler_id
        self._vocabulary = shared.target.size
        self._to_draft = shared.to_draft
        self._target_ids = torch.tensor(list(shared.to_draft), device=self.step.device)
        self._draft_ids = torch.tensor(list(shared.to_draft.values()), device=self.step.device)

    @property
    def capabilities(self) -> StepCapabilities:
        return StepCapabilities(
            hidden_states=_NO_HIDDEN_STATES,
            trees=self.step.capabilities.trees,
            exits=_NO_EXITS,
            device_rounds=NO_DEVICE_ROUNDS,
        )

    @property
    def length(self) -> int:
        return self._reading.length

    @torch.inference_mode()
    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        """Feed tokens; a token that makes the draft tokenise a word again needs another pass."""
        tokens = token_ids.tolist()
        if not num_logits:
            self._reading.read(tokens)
            return self._rows([self._visible()])
        visible: list[list[int]] = []
        for token_id in tokens:
            self._reading.append(token_id)
            visible.append(self._visible())
        runs = _runs(visible[-num_logits:])
        return (
            torch.cat([self._rows(run) for run in runs]) if len(runs) > 1 else self._rows(runs[0])
        )

    @torch.inference_mode()
    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        """Append tree nodes; the draft reads ``filler_id`` for a token that it does not have.

        A node has an unshared token only if its earlier siblings use up all shared tokens.
        """
        tokens = token_ids.tolist()
        own = [self._to_draft.get(each, self._filler_id) for each in tokens]
        self._nodes += zip(tokens, own, strict=True)
        fed = torch.tensor(own, device=self.device)
        return self._translated(self.step.branch(fed, parents))

    def keep(self, nodes: Sequence[int]) -> None:
        self.step.keep(nodes)
        for token_id, own in (self._nodes[node] for node in nodes):
            self._reading.append(token_id)
            self._cached.append(own)
        self._nodes.clear()

    def forget(self, count: int) -> None:
        """Forget tokens; the cache is trimmed at its next use."""
        self._reading.forget(count)

    def _visible(self) -> list[int]:
        """Return the text as draft tokens, without the tokens outside the draft's window."""
        ids = self._reading.ids
        hop = max(1, self._window // 2)
        beyond = len(ids) - self._window
        return ids[-(-max(0, beyond) // hop) * hop :] or [self._filler_id]

    def _rows(self, run: Sequence[list[int]]) -> torch.Tensor:
        """Return the logits after each sequence of draft tokens.

        Every sequence extends the previous sequence.
        """
        first, last = len(run[0]), run[-1]
        kept = min(common_prefix(self._cached, last), first - 1)
        self.step.forget(len(self._cached) - kept)
        self._cached = list(last)
        fed = torch.tensor(last[kept:], device=self.device)
        logits = self.step.feed(fed, len(last) - first + 1)
        if len(run) > 1:
            logits = logits[[len(each) - first for each in run]]
        return self._translated(logits)

    def _translated(self, logits: torch.Tensor) -> torch.Tensor:
        known = logits.index_select(-1, self._draft_ids)
        return over_vocabulary(known, self._target_ids, self._vocabulary)


def _runs(visible: Sequence[list[int]]) -> list[list[list[int]]]:
    """Group consecutive sequences; within a group, each sequence is a prefix of the next.

    One pass computes all logits of a group.
    """
    runs: list[list[list[int]]] = []
    for each in visible:
        if runs and each[: len(runs[-1][-1])] == runs[-1][-1]:
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs
