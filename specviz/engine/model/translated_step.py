"""A draft with a vocabulary of its own, as a step in the target's ids.

What it gives are its own logits where the target has the same token, and elsewhere what no softmax
sees: a law of them is the draft's law restricted to the tokens that both have, made a law again
(Timor et al. 2025, 2502.05202, at token level). So whatever drafts with a step, scores with one or
measures one works with this one, and the text has the target's law whatever the draft reads.

Lengths are of the target's tokens. What the draft has read of them is ``DraftReading``'s to say;
the cache is brought there before logits are asked for, from the longest beginning that it holds.
Beyond its window the draft forgets the older half of it. The host must see every token, so on a GPU
each draft step waits for the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from specviz.engine.model.draft_reading import DraftReading
from specviz.engine.model.shared_tokens import SharedTokens
from specviz.engine.model.steps import Step
from specviz.errors import PairError
from specviz.record.limits import MAX_GAMMA

_DRAFT_TOKENS = 4  # of its own that a draft may need for a token of the target: one a letter, say
_NEVER = -1e9  # finite, since a mean of logits takes it nought times
_SHORTEST = 8  # tokens that a draft reads at any rate


class TranslatedStep:
    """``make``: the draft's own step, of this capacity."""

    def __init__(self, make: Callable[[int], Step], shared: SharedTokens, capacity: int) -> None:
        most = _DRAFT_TOKENS * capacity
        room = most if shared.draft_context is None else shared.draft_context - MAX_GAMMA
        self._window = max(_SHORTEST, min(most, room))
        self._step = make(self._window + capacity)  # behind a full window there is room for a tree
        self._reading = DraftReading(shared)
        self._held: list[int] = []  # what the cache holds
        self._nodes: list[tuple[int, int]] = []  # of a tree, as the target has them and as read
        self._silence = shared.silence
        self._vocabulary = shared.target.size
        self._to_draft = shared.to_draft
        self._target_ids = torch.tensor(list(shared.to_draft), device=self._step.device)
        self._draft_ids = torch.tensor(list(shared.to_draft.values()), device=self._step.device)

    @property
    def length(self) -> int:
        return self._reading.length

    @property
    def device(self) -> torch.device:
        return self._step.device

    @property
    def hidden(self) -> torch.Tensor | None:
        return self._step.hidden

    @torch.inference_mode()
    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        """Several rows may take several passes: each is of the text as it was read up to there."""
        tokens = token_ids.tolist()
        if not num_logits:
            self._reading.read(tokens)
            return self._rows([self._seen()])
        seen: list[list[int]] = []
        for token_id in tokens:
            self._reading.append(token_id)
            seen.append(self._seen())
        runs = _runs(seen[-num_logits:])
        return (
            torch.cat([self._rows(run) for run in runs]) if len(runs) > 1 else self._rows(runs[0])
        )

    @torch.inference_mode()
    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        """Nodes are candidates, which both models know unless there were too few of these."""
        tokens = token_ids.tolist()
        own = [self._to_draft.get(each, self._silence) for each in tokens]
        self._nodes += zip(tokens, own, strict=True)
        fed = torch.tensor(own, device=self.device)
        return self._translated(self._step.branch(fed, parents))

    def keep(self, nodes: Sequence[int]) -> None:
        self._step.keep(nodes)
        for token_id, own in (self._nodes[node] for node in nodes):
            self._reading.append(token_id)
            self._held.append(own)
        self._nodes.clear()

    def early_exit(self, layers: int) -> Step:
        raise PairError(
            f"A draft that reads in tokens of its own has no early exit after {layers} layers.",
            remedy="Leave the target early, or draft with the whole draft.",
        )

    def forget(self, count: int) -> None:
        """The cache is trimmed when it is used again."""
        self._reading.forget(count)

    def _seen(self) -> list[int]:
        """What the draft reads of its own tokens."""
        ids = self._reading.ids
        hop = max(1, self._window // 2)
        beyond = len(ids) - self._window
        return ids[-(-max(0, beyond) // hop) * hop :] or [self._silence]

    def _rows(self, run: Sequence[list[int]]) -> torch.Tensor:
        """Logits behind each of these, of which every one begins with the one before."""
        first, last = len(run[0]), run[-1]
        kept = min(_alike(self._held, last), first - 1)
        self._step.forget(len(self._held) - kept)
        self._held = list(last)
        fed = torch.tensor(last[kept:], device=self.device)
        logits = self._step.feed(fed, len(last) - first + 1)
        if len(run) > 1:
            logits = logits[[len(each) - first for each in run]]
        return self._translated(logits)

    def _translated(self, logits: torch.Tensor) -> torch.Tensor:
        shape = (logits.shape[0], self._vocabulary)
        own = logits.new_full(shape, _NEVER)
        return own.index_copy_(-1, self._target_ids, logits.index_select(-1, self._draft_ids))


def _alike(held: list[int], wanted: list[int]) -> int:
    """How many tokens they have in common from the first on."""
    if held == wanted[: len(held)]:
        return len(held)
    pairs = enumerate(zip(held, wanted, strict=False))
    return next((at for at, (one, other) in pairs if one != other), len(wanted))


def _runs(seen: Sequence[list[int]]) -> list[list[list[int]]]:
    """Neighbours of which each begins with the one before, and that one pass serves."""
    runs: list[list[list[int]]] = []
    for each in seen:
        if runs and each[: len(runs[-1][-1])] == runs[-1][-1]:
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs
