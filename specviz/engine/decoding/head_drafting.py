"""Draft with a head, which reads the target's hidden states."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specviz.engine.decoding.model_drafting import draft_chain, nothing
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Chooser, Draws
from specviz.engine.decoding.stopping import Stopper
from specviz.engine.heads.head import Head
from specviz.engine.model.step_capabilities import HiddenStates
from specviz.engine.model.steps import Step


class HeadDrafter:
    """Drafts a chain.

    The first pass of a round reads the target's states at the tokens that the last round added;
    its number of rows is the proposal's ``catch_up``. Each later candidate takes one row.
    """

    def __init__(
        self,
        head: Head,
        target: Step,
        capacity: int,
        choose: Chooser,
        vocabulary: int,
        stopper: Stopper | None = None,
    ) -> None:
        self._head = head
        self._target = target
        self._run = head.start(capacity)
        self._choose = choose
        self._vocabulary = vocabulary
        self._stopper = stopper

    @property
    def wants_hidden(self) -> HiddenStates:
        return self._head.states

    @property
    def proposable(self) -> frozenset[int] | None:
        """The tokens that the head can propose; None if it can propose all."""
        ids = self._head.proposable
        return None if ids is None else frozenset(ids[ids < self._vocabulary].tolist())

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        """Read the prompt's states but the last, which the first round reads."""
        if len(prompt_ids) > 2:
            assert self._target.hidden is not None
            self.read(prompt_ids[1:-1], self._target.hidden[:-1])

    def read(self, token_ids: Sequence[int], hidden: torch.Tensor) -> torch.Tensor:
        """Read rows; ``token_ids`` are the tokens after those of the states ``hidden``."""
        places, width = len(self._head.states.places), self._head.target.width
        states = hidden.view(len(hidden), places, -1)[..., :width]  # a body adds columns
        fed = torch.tensor(token_ids, device=hidden.device)
        logits = self._run.begin(fed, states.reshape(len(hidden), places * width))
        return logits[:, : self._vocabulary]

    def propose(
        self, history: Sequence[int], count: int, draws: Draws, hidden: torch.Tensor | None
    ) -> Proposal:
        if hidden is None:  # the prompt has a single token, which the target has not read
            return nothing(self._vocabulary, draws.uniforms.device)
        catch_up = len(history) - 1 - self._run.length
        first = self.read(history[-catch_up:], hidden[-catch_up:])
        most = min(count, self._head.most_candidates or count)
        made = draft_chain(
            lambda last: first if last is None else self._run.go_on(last)[:, : self._vocabulary],
            most, self._choose, draws, self._stopper,
        )  # fmt: skip
        if made is None:
            return nothing(self._vocabulary, draws.uniforms.device, catch_up)
        return Proposal(*made, catch_up)

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        """Drop the rows beyond the text; its last token has no row of its own yet."""
        del kept
        self._run.forget(max(0, self._run.length - max(0, valid - 1)))
