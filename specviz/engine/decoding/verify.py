"""Verification of a chain: which candidates are accepted, and which token follows them.

The lossless rule accepts with probability min(1, target/draft) and samples the residual
max(0, target - draft) after a rejection (Leviathan et al. 2023; Chen et al. 2023). Two rules are
*lossy*. Over-acceptance accepts with probability min(1, (target + epsilon)/draft): it rejects less
often, but biases the output (Yin et al. 2024, section 4). Typical acceptance compares the target's
probability with a threshold (Cai et al. 2024). The tensors of ``verify`` may have leading batch
dimensions, for statistics over many draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from specviz.engine.decoding.sampling import Sampler, widest_float
from specviz.record.trace import RunConfig


class Rule(Protocol):
    """Decides which candidates are accepted and how the recovered token is distributed."""

    def accepts(
        self, uniforms: Tensor, draft_probs: Tensor, target_probs: Tensor, distributions: Tensor
    ) -> Tensor:
        """Return whether each candidate is accepted.

        Args:
            uniforms, draft_probs, target_probs: `[...]`, one value per candidate.
            distributions: the target's distributions `[..., vocabulary]`.
        """
        ...

    def residual(self, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
        """Return the unnormalised distribution `[..., vocabulary]` of the recovered token."""
        ...

    def expected(self, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
        """Return the acceptance probability `[...]` at each position, before a token is drawn."""
        ...

    def bias(self, draft_probs: Tensor, target_probs: Tensor) -> Tensor | None:
        """Return the bias `[...]`; None if it is always 0.

        The bias is the total variation distance between the emitted token's distribution and the
        target's distribution.
        """
        ...


@dataclass(frozen=True, slots=True)
class Lossless:
    """The lossless rule: the output has exactly the target's distribution."""

    def accepts(
        self, uniforms: Tensor, draft_probs: Tensor, target_probs: Tensor, distributions: Tensor
    ) -> Tensor:
        del distributions
        return uniforms * draft_probs < target_probs

    def residual(self, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
        return (target_probs - draft_probs).clamp_(min=0.0)

    def expected(self, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
        return torch.minimum(draft_probs, target_probs).sum(-1)

    def bias(self, draft_probs: Tensor, target_probs: Tensor) -> None:
        del draft_probs, target_probs


@dataclass(frozen=True, slots=True)
class OverAccept:
    """LOSSY. Accepts with probability min(1, (target + epsilon)/draft) (Yin et al. 2024).

    ``source`` names the distribution of the recovered token. *leftover*: max(0, target - draft),
    which has the least bias at every epsilon (decoding-OPT). *target*: the target's distribution
    (decoding-UNO). *draft*: the draft's distribution, as in the paper's listing.
    """

    epsilon: float
    source: Literal["leftover", "target", "draft"] = "leftover"

    def accepts(
        self, uniforms: Tensor, draft_probs: Tensor, target_probs: Tensor, distributions: Tensor
    ) -> Tensor:
        del distributions
        return uniforms * draft_probs < target_probs + self.epsilon

    def residual(self, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
        if self.source == "target":
            return target_probs.clone()
        if self.source == "draft":
            return draft_probs.clone()
        return (target_probs - draft_probs).clamp_(min=0.0)

    def expected(self, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
        return torch.minimum(draft_probs, target_probs + self.epsilon).sum(-1)

    def bias(self, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
        accepted = torch.minimum(draft_probs, target_probs + self.epsilon)
        rejected = (1.0 - accepted.sum(-1, keepdim=True)).clamp_(min=0.0)
        recovered = self.residual(draft_probs, target_probs)
        recovered *= rejected / recovered.sum(-1, keepdim=True).clamp(min=1e-30)
        return (accepted + recovered - target_probs).abs().sum(-1) / 2.0


@dataclass(frozen=True, slots=True)
class Typical:
    """LOSSY. Accepts a candidate if its target probability exceeds min(epsilon, delta exp(-H)).

    H is the target's entropy at that position and delta the square root of epsilon (Medusa, Cai et
    al. 2024). Acceptance needs no random draw. The recovered token is drawn from the target's
    distribution.
    """

    epsilon: float

    def accepts(
        self, uniforms: Tensor, draft_probs: Tensor, target_probs: Tensor, distributions: Tensor
    ) -> Tensor:
        del uniforms, draft_probs
        return target_probs > self.threshold(distributions)

    def threshold(self, distributions: Tensor) -> Tensor:
        entropy = torch.special.entr(distributions.to(widest_float(distributions))).sum(-1)
        return (self.epsilon**0.5 * (-entropy).exp()).clamp(max=self.epsilon)

    def residual(self, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
        del draft_probs
        return target_probs.clone()

    def expected(self, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
        return self._accepted_probs(draft_probs, target_probs).sum(-1)

    def bias(self, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
        accepted = self._accepted_probs(draft_probs, target_probs)
        recovered = (1.0 - accepted.sum(-1, keepdim=True)).clamp_(min=0.0) * target_probs
        return (accepted + recovered - target_probs).abs().sum(-1) / 2.0

    def _accepted_probs(self, draft_probs: Tensor, target_probs: Tensor) -> Tensor:
        """Return ``draft_probs`` with 0 for every token that would be rejected."""
        return draft_probs.where(target_probs > self.threshold(target_probs)[..., None], 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Verification:
    """The result of verification, on the device."""

    num_accepted: Tensor  # [...]
    draft_probs: Tensor  # [..., num_candidates]
    target_probs: Tensor  # [..., num_candidates]
    extra: Tensor  # [...] recovered or bonus token


def make_rule(config: RunConfig) -> Rule:
    """Return the rule for ``ChainJudge``; the lossless rule if the run uses another judge."""
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
    candidates: Tensor,  # [..., num_candidates]
    draft_probs: Tensor,  # [..., num_candidates, vocabulary]
    target_probs: Tensor,  # [..., num_candidates + 1, vocabulary]
    verdict_uniforms: Tensor,  # [..., num_candidates]
    extra_uniform: Tensor,  # [...]
) -> Verification:
    """Accept candidates up to the first rejection and draw one more token; return the results."""
    count = candidates.shape[-1]
    precise = widest_float(target_probs)
    draft_own = draft_probs.gather(-1, candidates[..., None])[..., 0]
    target_own = target_probs[..., :count, :].gather(-1, candidates[..., None])[..., 0]
    accepted = rule.accepts(
        verdict_uniforms.to(precise),
        draft_own.to(precise),
        target_own.to(precise),
        target_probs[..., :count, :],
    )
    num_accepted = accepted.cumprod(-1).sum(-1)
    distribution = _extra_distribution(rule, draft_probs, target_probs, num_accepted)
    extra = sampler.draw(distribution, extra_uniform)
    return Verification(num_accepted, draft_own, target_own, extra)


def _extra_distribution(
    rule: Rule, draft_probs: Tensor, target_probs: Tensor, num_accepted: Tensor
) -> Tensor:
    """Return the distribution `[..., vocabulary]` of the last token, not normalised.

    If all candidates are accepted, this is the target's distribution; otherwise it is the residual.
    If the models agree to the last bit, the residual is 0 everywhere, and the target's distribution
    replaces it.
    """
    count, vocabulary = draft_probs.shape[-2:]
    target_row = _row(target_probs, num_accepted, vocabulary)
    if count == 0:
        return target_row
    draft_row = _row(draft_probs, num_accepted.clamp(max=count - 1), vocabulary)
    residual = rule.residual(draft_row, target_row)
    take_target = (num_accepted == count)[..., None] | (residual.amax(-1, keepdim=True) <= 0.0)
    return torch.where(take_target, target_row, residual)


def _row(probs: Tensor, index: Tensor, vocabulary: int) -> Tensor:
    expanded = index[..., None, None].expand(*index.shape, 1, vocabulary)
    return probs.gather(-2, expanded)[..., 0, :]
