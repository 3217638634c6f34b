"""The target pass of a round: feed the candidates and judge them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from specviz.engine.decoding.judging import Judge, Verdicts
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Draws, Sampler
from specviz.engine.model.feeds import Feed, Reading, read_alone
from specviz.engine.model.steps import Step


@dataclass(frozen=True, slots=True, eq=False)
class TargetPassResult:
    """The result of a pass: the verdicts, and the tensors that the record needs."""

    logits: torch.Tensor  # [num_candidates + 1, vocabulary]
    probs: torch.Tensor  # [num_candidates + 1, vocabulary]
    verdicts: Verdicts


class TargetPass:
    """Runs the target on a round's candidates and decides which of them are accepted."""

    def __init__(self, step: Step, sampler: Sampler, judge: Judge, device: torch.device) -> None:
        self.step = step
        self._sampler = sampler
        self._judge = judge
        self._device = device

    @torch.inference_mode()
    def check(
        self,
        pending: int,
        proposal: Proposal,
        draws: Draws,
        forced: Mapping[int, int] | None = None,
    ) -> TargetPassResult:
        """Feed the text's last token and the candidates; return the verdicts on the candidates.

        ``pending``: the text's last token. ``forced``: the tokens that the user set, by position;
        their target probability becomes 1.
        """
        return read_alone(self.checking(pending, proposal, draws, forced))

    def checking(
        self,
        pending: int,
        proposal: Proposal,
        draws: Draws,
        forced: Mapping[int, int] | None = None,
    ) -> Reading[TargetPassResult]:
        """Return the result of ``check``, but let the caller make the pass over a chain.

        For a chain, the generator yields the pass and receives the logits. For a tree, the
        generator makes the pass itself. Either way, it returns the result.
        """
        logits = (yield from self._reading(pending, proposal)).to(self._device)
        probs = self._sampler.probs(logits)
        for place, token_id in (forced or {}).items():
            probs[place] = 0.0
            probs[place, token_id] = 1.0
        return TargetPassResult(logits, probs, self._judge.judge(proposal, probs, draws))

    def settle(self, valid: int, kept: Sequence[int] | None) -> None:
        """Roll the cache back to the first ``valid`` tokens of the text.

        ``kept``: the tree nodes that are now part of the text; None for a chain.
        """
        if kept is not None:
            self.step.keep([0, *(node + 1 for node in kept)])
        self.step.forget(self.step.length - valid)

    def _reading(self, pending: int, proposal: Proposal) -> Reading[torch.Tensor]:
        first = torch.tensor([pending], device=self._device)
        fed = torch.cat((first, proposal.token_ids)).to(self.step.device)
        if proposal.parents is None:
            return (yield Feed(step=self.step, token_ids=fed, num_logits=fed.shape[0]))
        return self.step.branch(fed, [-1, *(parent + 1 for parent in proposal.parents)])
