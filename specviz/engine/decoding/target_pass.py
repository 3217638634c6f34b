"""The target pass of a round: feed the candidates, verify, bring the verdicts to the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from specviz.engine.decoding.drafting import Proposal
from specviz.engine.decoding.sampling import EXTRA_SLOT, Sampler, on_one_thread, verdict_slot, wide
from specviz.engine.decoding.verify import Rule, verify
from specviz.engine.model.steps import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """What was decided, in host values; probabilities are the recorded ones."""

    token_ids: list[int]
    draft_probs: list[float]
    target_probs: list[float]
    expected: list[float]  # acceptance at each position before its candidate is drawn
    num_accepted: int
    extra_id: int
    extra_draft_prob: float
    extra_target_prob: float


@dataclass(frozen=True, slots=True, eq=False)
class TargetPassResult:
    """A pass that is over: the verdicts, and what the record is made of."""

    logits: torch.Tensor  # [num_candidates + 1, vocabulary]
    probs: torch.Tensor  # [num_candidates + 1, vocabulary]
    verdicts: Verdicts


class TargetPass:
    """The target's step with the rule and the processors of a run."""

    def __init__(self, step: Step, sampler: Sampler, rule: Rule, device: torch.device) -> None:
        self.step = step
        self._sampler = sampler
        self._rule = rule
        self._device = device

    @torch.inference_mode()
    def check(
        self,
        pending: int,
        proposal: Proposal,
        uniforms: torch.Tensor,
        instead: Mapping[int, int] | None = None,
    ) -> TargetPassResult:
        """Feed the pending token and the candidates; one transfer brings the verdicts over.

        ``instead``: tokens that the target is held to say, by their place.
        """
        fed = torch.cat((torch.tensor([pending], device=self._device), proposal.token_ids))
        logits = self.step.feed(fed.to(self.step.device), fed.shape[0]).to(self._device)
        probs = self._sampler.probs(logits)
        for place, token_id in (instead or {}).items():
            probs[place] = 0.0
            probs[place, token_id] = 1.0
        return TargetPassResult(logits, probs, self._verdicts(proposal, probs, uniforms))

    @on_one_thread
    def _verdicts(
        self, proposal: Proposal, probs: torch.Tensor, uniforms: torch.Tensor
    ) -> Verdicts:
        count = proposal.token_ids.shape[0]
        found = verify(
            self._rule,
            self._sampler,
            proposal.token_ids,
            proposal.probs,
            probs,
            uniforms[verdict_slot(0) : verdict_slot(count) : 2],
            uniforms[EXTRA_SLOT],
        )
        at, extra = found.num_accepted, found.extra
        expected = self._rule.expected(proposal.probs, probs[:count])
        draft_row = proposal.probs[at.clamp(max=count - 1)] if count else probs[0]
        parts = (
            proposal.token_ids,
            found.draft_probs,
            found.target_probs,
            expected,
            torch.stack((at, extra)),
            torch.stack((draft_row[extra], probs[at, extra])),
        )
        values = torch.cat([part.to(wide(probs)) for part in parts]).tolist()
        rows = [values[row * count : (row + 1) * count] for row in range(4)]
        return Verdicts(
            token_ids=[int(value) for value in rows[0]],
            draft_probs=rows[1],
            target_probs=rows[2],
            expected=rows[3],
            num_accepted=int(values[-4]),
            extra_id=int(values[-3]),
            extra_draft_prob=values[-2],
            extra_target_prob=values[-1],
        )
