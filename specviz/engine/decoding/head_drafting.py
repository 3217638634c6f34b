"""Draft with a head, which reads the target's hidden states."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specviz.engine.decoding.model_drafting import draft_chain
from specviz.engine.decoding.proposal import Proposal, nothing
from specviz.engine.decoding.sampling import Chooser, Draws
from specviz.engine.decoding.stopping import Stopper
from specviz.engine.heads.head import Head
from specviz.engine.model.step_capabilities import HiddenStates
from specviz.engine.model.steps import Step


class HeadReader:
    """Runs a head along a text, and on the trees of a ``TreeDrafter``.

    The first pass of a round feeds one row (a hidden state and a token) for each token that the
    last round added to the text. The number of these rows is the proposal's ``catch_up``. In a
    chain, each later candidate takes one call of ``go_on``.
    """

    def __init__(self, head: Head, target: Step, capacity: int, vocabulary: int) -> None:
        self._head = head
        self._target = target
        self._run = head.start(capacity)
        self._vocabulary = vocabulary

    @property
    def wants_hidden(self) -> HiddenStates:
        return self._head.states

    @property
    def proposable(self) -> frozenset[int] | None:
        """The tokens that the head can propose; None if it can propose all."""
        ids = self._head.proposable
        return None if ids is None else frozenset(ids[ids < self._vocabulary].tolist())

    @property
    def deepest(self) -> int | None:
        return self._head.most_candidates

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        """Feed the hidden states that the target computed for the prompt.

        The last state is left out, because the first round feeds it.
        """
        if len(prompt_ids) > 2:
            assert self._target.hidden is not None
            self.read(prompt_ids[1:-1], self._target.hidden[:-1])

    def read(self, token_ids: Sequence[int], hidden: torch.Tensor) -> torch.Tensor:
        """Feed one row per state of ``hidden``; return the logits of the first candidate.

        ``token_ids``: the token after each state.
        """
        places, width = len(self._head.states.places), self._head.target.width
        states = hidden.view(len(hidden), places, -1)[..., :width]  # a simulated size adds columns
        fed = torch.tensor(token_ids, device=hidden.device)
        logits = self._run.begin(fed, states.reshape(len(hidden), places * width))
        return logits[:, : self._vocabulary]

    def begin(
        self, history: Sequence[int], hidden: torch.Tensor | None
    ) -> tuple[torch.Tensor, int] | None:
        """Feed a row for each new token of the text; return the next logits and the number of rows.

        Return None if ``hidden`` is None. ``hidden`` is None in the first round after a prompt of
        one token, because the target has not read this token yet.
        """
        if hidden is None:
            return None
        catch_up = len(history) - 1 - self._run.length
        return self.read(history[-catch_up:], hidden[-catch_up:]), catch_up

    def go_on(self, last: torch.Tensor) -> torch.Tensor:
        """Return the logits after the candidate ``last`` `[1]`."""
        return self._run.go_on(last)[:, : self._vocabulary]

    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        return self._run.branch(token_ids, parents)[:, : self._vocabulary]

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        """Drop all rows but those of the first ``valid`` tokens.

        These are ``valid - 1`` rows, because the newest token has no row (see ``head.py``).
        """
        del kept
        self._run.forget(max(0, self._run.length - max(0, valid - 1)))


class HeadDrafter(HeadReader):
    """Drafts a chain with a head."""

    def __init__(
        self,
        head: Head,
        target: Step,
        capacity: int,
        choose: Chooser,
        vocabulary: int,
        stopper: Stopper | None = None,
    ) -> None:
        super().__init__(head, target, capacity, vocabulary)
        self._choose = choose
        self._stopper = stopper

    def propose(
        self, history: Sequence[int], count: int, draws: Draws, hidden: torch.Tensor | None
    ) -> Proposal:
        first = self.begin(history, hidden)
        if first is None:
            return nothing(self._vocabulary, draws.uniforms.device)
        logits, catch_up = first
        made = draft_chain(
            lambda last: logits if last is None else self.go_on(last),
            min(count, self.deepest or count), self._choose, draws, self._stopper,
        )  # fmt: skip
        if made is None:
            return nothing(self._vocabulary, draws.uniforms.device, catch_up)
        return Proposal(*made, catch_up)
