"""Draft token by token with a model: the pair's draft, or the target's first layers.

``ModelReader`` also feeds the trees of a ``TreeDrafter`` to the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from specviz.engine.decoding.proposal import Proposal, nothing
from specviz.engine.decoding.sampling import Chooser, Draws, on_one_thread
from specviz.engine.decoding.stopping import Stopper
from specviz.engine.model.feeds import Feed, Reading, read_alone
from specviz.engine.model.read_text import read
from specviz.engine.model.steps import Step


class ModelReader:
    """Runs a drafting model along a text, and on the trees of a ``TreeDrafter``."""

    wants_hidden = False

    def __init__(self, step: Step) -> None:
        self._step = step

    @property
    def own_step(self) -> Step | None:
        """The drafter's step; None if the step's cache belongs to the target."""
        return self._step

    @property
    def deepest(self) -> None:
        return None

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        read(self._step, prompt_ids[:-1])

    def begin(
        self, history: Sequence[int], hidden: torch.Tensor | None
    ) -> tuple[torch.Tensor, int]:
        """Feed the text's new tokens; return the next logits and the number of fed tokens."""
        del hidden
        catch_up = len(history) - self._step.length
        fed = torch.tensor(history[-catch_up:], device=self._step.device)
        return self._step.feed(fed, 1), catch_up

    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        return self._step.branch(token_ids, parents)

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        """Roll back to the first ``valid`` tokens of the text.

        ``kept``: the fed tree nodes that are now part of the text.
        """
        self._step.keep(kept)
        self._step.forget(max(0, self._step.length - valid))


class ModelDrafter(ModelReader):
    """Drafts a chain token by token.

    The last candidate of a round is not fed to the model. If all candidates were accepted, the
    first step of the next round feeds two tokens: this candidate and the bonus token.
    """

    def __init__(
        self, step: Step, choose: Chooser, vocabulary: int, stopper: Stopper | None = None
    ) -> None:
        super().__init__(step)
        self._choose = choose
        self._vocabulary = vocabulary
        self._stopper = stopper

    def propose(
        self, history: Sequence[int], count: int, draws: Draws, hidden: torch.Tensor | None
    ) -> Proposal:
        del hidden
        return read_alone(self.proposing(history, count, draws))

    def proposing(self, history: Sequence[int], count: int, draws: Draws) -> Reading[Proposal]:
        """Draft like ``propose``: yield each pass, receive its logits, return the proposal."""
        catch_up = len(history) - self._step.length
        chain = _GrowingChain(count, self._choose, draws, self._stopper)
        while chain.wants_more():
            if chain.last is None:
                fed = torch.tensor(history[-catch_up:], device=self._step.device)
            else:
                fed = chain.last
            chain.add((yield Feed(step=self._step, token_ids=fed, num_logits=1)))
        made = chain.joined()
        if made is None:
            return nothing(self._vocabulary, draws.uniforms.device)
        return Proposal(*made, catch_up)

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        del kept
        self._step.forget(max(0, self._step.length - valid))


class ExitDrafter(ModelDrafter):
    """Drafts with the target's first layers, which share the target's cache."""

    @property
    def own_step(self) -> None:
        return None

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        """Do nothing: the target has read the prompt into the shared cache."""

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        """Do nothing: rolling back the target rolls back the shared cache."""


def draft_chain(
    logits_after: Callable[[torch.Tensor | None], torch.Tensor],
    count: int,
    choose: Chooser,
    draws: Draws,
    stopper: Stopper | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
    """Draft up to ``count`` tokens; return tokens, distributions and logits.

    Returns None if no token was drafted.

    Args:
        logits_after: takes a candidate and returns the logits `[1, vocabulary]` after it. Given
            None, it returns the logits after the text.
    """
    chain = _GrowingChain(count, choose, draws, stopper)
    while chain.wants_more():
        chain.add(logits_after(chain.last))
    return chain.joined()


class _GrowingChain:
    """Up to ``count`` candidates, each chosen from the logits after the previous candidate."""

    def __init__(self, count: int, choose: Chooser, draws: Draws, stopper: Stopper | None) -> None:
        self._count = count
        self._choose = choose
        self._draws = draws
        self._stopper = stopper
        self._rows, self._probs = list[torch.Tensor](), list[torch.Tensor]()
        self._tokens = list[torch.Tensor]()

    @property
    def last(self) -> torch.Tensor | None:
        """The newest candidate `[1]`; None before the first candidate."""
        return self._tokens[-1] if self._tokens else None

    def wants_more(self) -> bool:
        """Return whether to draft one more candidate; call it once per candidate."""
        number = len(self._tokens)
        if number >= self._count:
            return False
        return self._stopper is None or self._stopper.should_continue(number)

    def add(self, logits: torch.Tensor) -> None:
        token, distribution = self._choose(logits, self._draws, len(self._tokens))
        self._rows.append(logits)
        self._probs.append(distribution)
        self._tokens.append(token)
        if self._stopper is not None:
            self._stopper.observe(logits, distribution, token)

    def joined(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
        """Return tokens, distributions and logits; None if no token was drafted."""
        if not self._tokens:
            return None
        return _joined(self._tokens), _joined(self._probs), _joined(self._rows)


@on_one_thread
def _joined(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat(rows)
