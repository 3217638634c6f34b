"""Verification: which candidates stand, and what is emitted after them.

The lossless rule accepts with probability min(1, target/draft) and samples the residual
max(0, target - draft) after a rejection (Leviathan et al. 2023; Chen et al. 2023). The
over-acceptance rule accepts with min(1, (target + epsilon)/draft) and is *lossy*: it trades
bias for fewer rejections (Yin et al. 2024, section 4), and so is typical acceptance. One vectorised
function serves a run (no batch dimension) and the statistics of many draws (any batch dimensions).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch

from specviz.engine.decoding.sampling import Sampler, wide
from specviz.record.trace import RunConfig


class Rule(Protocol):
    """When a candidate stands, and where the recovered token comes from."""

    def accepts(
        self,
        uniforms: torch.Tensor,
        draft_probs: torch.Tensor,
        target_probs: torch.Tensor,
        laws: torch.Tensor,
    ) -> torch.Tensor:
        """Verdicts [...] on candidates of these probabilities [...]; ``laws`` [..., vocabulary] are
        the target's."""
        ...

    def residual(self, draft_probs: torch.Tensor, target_probs: torch.Tensor) -> torch.Tensor:
        """Unnormalised law [..., vocabulary] of the token after a rejection."""
        ...

    def expected(self, draft_probs: torch.Tensor, target_probs: torch.Tensor) -> torch.Tensor:
        """Chance [...] that a candidate yet to be drawn from [..., vocabulary] will stand."""
        ...

    def bias(self, draft_probs: torch.Tensor, target_probs: torch.Tensor) -> torch.Tensor | None:
        """Distance [...] of the emitted token's law from the target; None where it is always 0."""
        ...


@dataclass(frozen=True, slots=True)
class Lossless:
    """The output has exactly the target's law."""

    def accepts(
        self,
        uniforms: torch.Tensor,
        draft_probs: torch.Tensor,
        target_probs: torch.Tensor,
        laws: torch.Tensor,
    ) -> torch.Tensor:
        del laws
        return uniforms * draft_probs < target_probs

    def residual(self, draft_probs: torch.Tensor, target_probs: torch.Tensor) -> torch.Tensor:
        return (target_probs - draft_probs).clamp_(min=0.0)

    def expected(self, draft_probs: torch.Tensor, target_probs: torch.Tensor) -> torch.Tensor:
        return torch.minimum(draft_probs, target_probs).sum(-1)

    def bias(self, draft_probs: torch.Tensor, target_probs: torch.Tensor) -> None:
        del draft_probs, target_probs


@dataclass(frozen=True, slots=True)
class OverAccept:
    """LOSSY. ``source`` names the law of the recovered token.

    *leftover*, max(0, target - draft), is the optimum at every epsilon (decoding-OPT);
    *target* is decoding-UNO; *draft* is what the paper's listing does.
    """

    epsilon: float
    source: Literal["leftover", "target", "draft"] = "leftover"

    def accepts(
        self,
        uniforms: torch.Tensor,
        draft_probs: torch.Tensor,
        target_probs: torch.Tensor,
        laws: torch.Tensor,
    ) -> torch.Tensor:
        del laws
        return uniforms * draft_probs < target_probs + self.epsilon

    def residual(self, draft_probs: torch.Tensor, target_probs: torch.Tensor) -> torch.Tensor:
        if self.source == "target":
            return target_probs.clone()
        if self.source == "draft":
            return draft_probs.clone()
        return (target_probs - draft_probs).clamp_(min=0.0)

    def expected(self, draft_probs: torch.Tensor, target_probs: torch.Tensor) -> torch.Tensor:
        return torch.minimum(draft_probs, target_probs + self.epsilon).sum(-1)

    def bias(self, draft_probs: torch.Tensor, target_probs: torch.Tensor) -> torch.Tensor:
        accepted = torch.minimum(draft_probs, target_probs + self.epsilon)
        rejected = (1.0 - accepted.sum(-1, keepdim=True)).clamp_(min=0.0)
        recovered = self.residual(draft_probs, target_probs)
        recovered *= rejected / recovered.sum(-1, keepdim=True).clamp(min=1e-30)
        return (accepted + recovered - target_probs).abs().sum(-1) / 2.0


@dataclass(frozen=True, slots=True)
class Typical:
    """LOSSY. A candidate stands if its target probability exceeds min(epsilon, delta exp(-H)), H
    being the target's entropy there and delta the root of epsilon (Medusa, Cai et al. 2024); no
    draw decides. After a rejection the token is the target's own.
    """

    epsilon: float

    def accepts(
        self,
        uniforms: torch.Tensor,
        draft_probs: torch.Tensor,
        target_probs: torch.Tensor,
        laws: torch.Tensor,
    ) -> torch.Tensor:
        del uniforms, draft_probs
        return target_probs > self.threshold(laws)

    def threshold(self, laws: torch.Tensor) -> torch.Tensor:
        entropy = torch.special.entr(laws.to(wide(laws))).sum(-1)
        return (self.epsilon**0.5 * (-entropy).exp()).clamp(max=self.epsilon)

    def residual(self, draft_probs: torch.Tensor, target_probs: torch.Tensor) -> torch.Tensor:
        del draft_probs
        return target_probs.clone()

    def expected(self, draft_probs: torch.Tensor, target_probs: torch.Tensor) -> torch.Tensor:
        return self._standing(draft_probs, target_probs).sum(-1)

    def bias(self, draft_probs: torch.Tensor, target_probs: torch.Tensor) -> torch.Tensor:
        standing = self._standing(draft_probs, target_probs)
        recovered = (1.0 - standing.sum(-1, keepdim=True)).clamp_(min=0.0) * target_probs
        return (standing + recovered - target_probs).abs().sum(-1) / 2.0

    def _standing(self, draft_probs: torch.Tensor, target_probs: torch.Tensor) -> torch.Tensor:
        """The draft's mass [..., vocabulary] on tokens that would stand."""
        return draft_probs.where(target_probs > self.threshold(target_probs)[..., None], 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Verification:
    """What verification found; all on the device."""

    num_accepted: torch.Tensor  # [...]
    draft_probs: torch.Tensor  # [..., num_candidates] of each candidate
    target_probs: torch.Tensor  # [..., num_candidates] of each candidate
    extra: torch.Tensor  # [...] recovered or bonus token


def make_rule(config: RunConfig) -> Rule:
    """What is done with one candidate; of rules that need more than this, the lossless one."""
    match config.rule:
        case "over-accept":
            return OverAccept(config.epsilon, config.residual)
        case "typical":
            return Typical(config.epsilon)
        case _:
            return Lossless()


def verify(
    rule: Rule,
    sampler: Sampler,
    candidates: torch.Tensor,  # [..., num_candidates]
    draft_probs: torch.Tensor,  # [..., num_candidates, vocabulary]
    target_probs: torch.Tensor,  # [..., num_candidates + 1, vocabulary]
    verdict_uniforms: torch.Tensor,  # [..., num_candidates]
    extra_uniform: torch.Tensor,  # [...]
) -> Verification:
    """Accept up to the first rejection, then draw one more token."""
    count = candidates.shape[-1]
    precise = wide(target_probs)
    draft_own = draft_probs.gather(-1, candidates[..., None])[..., 0]
    target_own = target_probs[..., :count, :].gather(-1, candidates[..., None])[..., 0]
    accepted = rule.accepts(
        verdict_uniforms.to(precise),
        draft_own.to(precise),
        target_own.to(precise),
        target_probs[..., :count, :],
    )
    num_accepted = accepted.cumprod(-1).sum(-1)
    law = _law_after(rule, draft_probs, target_probs, num_accepted)
    extra = sampler.draw(law, extra_uniform)
    return Verification(num_accepted, draft_own, target_own, extra)


def _law_after(
    rule: Rule, draft_probs: torch.Tensor, target_probs: torch.Tensor, num_accepted: torch.Tensor
) -> torch.Tensor:
    """The law [..., vocabulary] of the token at the first position that did not stand.

    After a full acceptance it is the target itself. Where both models agree to the last
    bit the residual is empty, and the target itself is the limit (never 0/0).
    """
    count, vocabulary = draft_probs.shape[-2:]
    target_row = _row(target_probs, num_accepted, vocabulary)
    if count == 0:
        return target_row
    draft_row = _row(draft_probs, num_accepted.clamp(max=count - 1), vocabulary)
    residual = rule.residual(draft_row, target_row)
    total = residual.sum(-1, keepdim=True)
    take_target = (num_accepted == count)[..., None] | (total <= 0.0)
    return torch.where(take_target, target_row, residual / total.clamp(min=1e-30))


def _row(probs: torch.Tensor, index: torch.Tensor, vocabulary: int) -> torch.Tensor:
    expanded = index[..., None, None].expand(*index.shape, 1, vocabulary)
    return probs.gather(-2, expanded)[..., 0, :]
