"""Token matching: a candidate is accepted if the target samples the same token.

*match*: the target's token is drawn with the uniform of the candidate's verdict.
*coupled*: draft and target draw with the same noise (Daliri et al. 2024). The noise is keyed by the
position in the text, so the text depends neither on the draft nor on where rounds begin. In both
cases the target's token is emitted, so the text has the target's distribution for any draft.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from specviz.engine.decoding.judging import TargetToken, Verdicts
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import (
    EXTRA_SLOT,
    Draws,
    Sampler,
    on_one_thread,
    race,
    widest_float,
)


@dataclass(frozen=True, slots=True, eq=False)
class _TargetTokens:
    """The target's tokens `[count + 1]`; ``noise`` and ``margins`` are set for shared noise."""

    token_ids: torch.Tensor
    noise: torch.Tensor | None = None  # [count + 1, vocabulary]
    margins: torch.Tensor | None = None  # [count + 1]


class TargetSampler(Protocol):
    def sample(self, probs: torch.Tensor, draws: Draws) -> _TargetTokens:
        """Sample the target's tokens from its distributions `[count + 1, vocabulary]`."""
        ...

    def expected(self, draft: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the probability `[count]` that draft and target draw the same token."""
        ...


class MatchingJudge:
    """Implements ``judging.Judge`` for a chain by token matching."""

    def __init__(self, sampler: TargetSampler) -> None:
        self._sampler = sampler

    @on_one_thread
    def judge(self, proposal: Proposal, probs: torch.Tensor, draws: Draws) -> Verdicts:
        ids = proposal.token_ids.tolist()
        count = len(ids)
        sampled = self._sampler.sample(probs, draws)
        sampled_ids = sampled.token_ids.tolist()
        num_accepted = next((i for i in range(count) if ids[i] != sampled_ids[i]), count)
        rows = torch.arange(count, device=probs.device)
        noise = None if sampled.noise is None else sampled.noise[rows, proposal.token_ids].tolist()
        rivals = self._rivals(sampled, probs)
        return Verdicts(
            token_ids=ids,
            draft_probs=proposal.probs[rows, proposal.token_ids].tolist(),
            target_probs=probs[rows, proposal.token_ids].tolist(),
            expected=self._sampler.expected(proposal.probs, probs[:count]).tolist(),
            path=tuple(range(num_accepted)),
            rejected=(num_accepted,) if num_accepted < count else (),
            extra_id=sampled_ids[num_accepted],
            extra_draft_prob=(
                float(proposal.probs[num_accepted, sampled_ids[num_accepted]])
                if num_accepted < count
                else 0.0
            ),
            extra_target_prob=rivals[num_accepted].target_prob,
            extra_noise=rivals[num_accepted].noise,
            noises=noise,
            rivals=[each if i <= num_accepted else None for i, each in enumerate(rivals[:count])],
        )

    def _rivals(self, sampled: _TargetTokens, probs: torch.Tensor) -> list[TargetToken]:
        at = sampled.token_ids[:, None]
        own = probs.gather(-1, at)[:, 0].tolist()
        missing = [None] * len(own)
        noise = missing if sampled.noise is None else sampled.noise.gather(-1, at)[:, 0].tolist()
        margins = missing if sampled.margins is None else sampled.margins.tolist()
        return [
            TargetToken(token_id=token, target_prob=prob, noise=drawn, margin=margin)
            for token, prob, drawn, margin in zip(
                sampled.token_ids.tolist(), own, noise, margins, strict=True
            )
        ]


class IndependentDraw:
    """Draws the target's token independently of the draft, which proposes its likeliest token."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def sample(self, probs: torch.Tensor, draws: Draws) -> _TargetTokens:
        count = probs.shape[0] - 1
        uniforms = torch.cat((draws.verdicts(count), draws.uniforms[EXTRA_SLOT : EXTRA_SLOT + 1]))
        return _TargetTokens(self._sampler.draw(probs, uniforms))

    def expected(self, draft: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (draft * target).sum(-1)


class SharedNoise:
    """Draws the target's token with the noise that the draft also uses."""

    def sample(self, probs: torch.Tensor, draws: Draws) -> _TargetTokens:
        assert draws.noise is not None
        noise = draws.noise[: probs.shape[0]]
        first = race(probs, noise).topk(2, largest=False)
        margins = first.values[:, 1] / first.values[:, 0] - 1.0
        return _TargetTokens(first.indices[:, 0], noise, margins)

    def expected(self, draft: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return Σ_v 1 / Σ_w max(draft_w/draft_v, target_w/target_v).

        With tokens sorted by target/draft, the maximum is target_w/target_v for w behind v and
        draft_w/draft_v for w before v. So two cumulative sums give every denominator.
        """
        p, q = draft.to(widest_float(draft)), target.to(widest_float(target))
        ratio = torch.where(p > 0.0, q / p, torch.inf).where(q > 0.0, 0.0)
        order = ratio.argsort(-1)
        p, q = p.gather(-1, order), q.gather(-1, order)
        before, behind = p.cumsum(-1), q.flip(-1).cumsum(-1).flip(-1) - q
        both = (p > 0.0) & (q > 0.0)
        waiting = before / p.where(both, 1.0) + behind / q.where(both, 1.0)
        return torch.where(both, 1.0 / waiting, 0.0).sum(-1)
