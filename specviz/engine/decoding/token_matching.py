"""Judging by what the target says itself: a candidate stands if it is the same token.

*match*: the target's own token is drawn in the candidate's place, by the uniform of its verdict.
*coupled*: draft and target draw by the same noise (Daliri et al. 2024), keyed by the place in the
text, so that the text depends neither on the draft nor on where rounds begin. In both cases the
target's token is emitted, so the text has its law whatever the draft proposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from specviz.engine.decoding.judging import TargetWord, Verdicts
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import (
    EXTRA_SLOT,
    Draws,
    Sampler,
    on_one_thread,
    race,
    wide,
)


@dataclass(frozen=True, slots=True, eq=False)
class _Said:
    """The target's tokens [count + 1] in every place; the noise and margins where there are any."""

    token_ids: torch.Tensor
    noise: torch.Tensor | None = None  # [count + 1, vocabulary]
    margins: torch.Tensor | None = None  # [count + 1]


class TargetSampler(Protocol):
    def say(self, probs: torch.Tensor, draws: Draws) -> _Said:
        """The target's tokens by its laws [count + 1, vocabulary]."""
        ...

    def expected(self, draft: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The chance [count] that both say the same, before anything is drawn."""
        ...


class Equal:
    def __init__(self, voice: TargetSampler) -> None:
        self._voice = voice

    @on_one_thread
    def judge(self, proposal: Proposal, probs: torch.Tensor, draws: Draws) -> Verdicts:
        ids = proposal.token_ids.tolist()
        count = len(ids)
        said = self._voice.say(probs, draws)
        words = said.token_ids.tolist()
        stand = next((i for i in range(count) if ids[i] != words[i]), count)
        rows = torch.arange(count, device=probs.device)
        noise = None if said.noise is None else said.noise[rows, proposal.token_ids].tolist()
        rivals = self._rivals(said, probs)
        return Verdicts(
            token_ids=ids,
            draft_probs=proposal.probs[rows, proposal.token_ids].tolist(),
            target_probs=probs[rows, proposal.token_ids].tolist(),
            expected=self._voice.expected(proposal.probs, probs[:count]).tolist(),
            path=tuple(range(stand)),
            fallen=(stand,) if stand < count else (),
            extra_id=words[stand],
            extra_draft_prob=float(proposal.probs[stand, words[stand]]) if stand < count else 0.0,
            extra_target_prob=rivals[stand].target_prob,
            extra_noise=rivals[stand].noise,
            noises=noise,
            rivals=[each if i <= stand else None for i, each in enumerate(rivals[:count])],
        )

    def _rivals(self, said: _Said, probs: torch.Tensor) -> list[TargetWord]:
        at = said.token_ids[:, None]
        own = probs.gather(-1, at)[:, 0].tolist()
        missing = [None] * len(own)
        noise = missing if said.noise is None else said.noise.gather(-1, at)[:, 0].tolist()
        margins = missing if said.margins is None else said.margins.tolist()
        return [
            TargetWord(token_id=token, target_prob=prob, noise=drawn, margin=margin)
            for token, prob, drawn, margin in zip(
                said.token_ids.tolist(), own, noise, margins, strict=True
            )
        ]


class OwnDraw:
    """The target draws by itself; the draft proposed its likeliest token."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def say(self, probs: torch.Tensor, draws: Draws) -> _Said:
        count = probs.shape[0] - 1
        uniforms = torch.cat((draws.verdicts(count), draws.uniforms[EXTRA_SLOT : EXTRA_SLOT + 1]))
        return _Said(self._sampler.draw(probs, uniforms))

    def expected(self, draft: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (draft * target).sum(-1)


class SharedNoise:
    """Both draw by the same noise."""

    def say(self, probs: torch.Tensor, draws: Draws) -> _Said:
        assert draws.noise is not None
        noise = draws.noise[: probs.shape[0]]
        first = race(probs, noise).topk(2, largest=False)
        margins = first.values[:, 1] / first.values[:, 0] - 1.0
        return _Said(first.indices[:, 0], noise, margins)

    def expected(self, draft: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """sum over v of 1 / sum over w of max(draft_w/draft_v, target_w/target_v).

        Tokens sorted by target/draft: for w behind v the target's ratio is the larger, for w
        before v the draft's; so two cumulated sums give every denominator.
        """
        p, q = draft.to(wide(draft)), target.to(wide(target))
        ratio = torch.where(p > 0.0, q / p, torch.inf).where(q > 0.0, 0.0)
        order = ratio.argsort(-1)
        p, q = p.gather(-1, order), q.gather(-1, order)
        before, behind = p.cumsum(-1), q.flip(-1).cumsum(-1).flip(-1) - q
        both = (p > 0.0) & (q > 0.0)
        waiting = before / p.where(both, 1.0) + behind / q.where(both, 1.0)
        return torch.where(both, 1.0 / waiting, 0.0).sum(-1)
