"""Token matching: a candidate is accepted if the target samples this token, too.

*match*: the target's token is drawn with the uniform of the candidate's verdict.
*coupled*: draft and target draw with the same noise (Daliri et al. 2024). The noise is keyed by the
position in the text, so the text depends neither on the draft nor on where rounds begin. In both
cases the target's token is emitted, so the text has the target's distribution for any draft.

*match* also judges trees. At each node, the target draws one token, with the uniform of the verdict
on the node's first child. If a child is this token, the child is accepted; its earlier siblings are
rejected, and its later siblings are not tested. The tree must be fixed before the target draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
    verdict_slot,
    widest_float,
)


@dataclass(frozen=True, slots=True, eq=False)
class _TargetTokens:
    """The tokens `[count + 1]` that the target drew after the text and after each candidate.

    ``noise`` and ``margins`` are None unless draft and target share noise.
    """

    token_ids: torch.Tensor
    noise: torch.Tensor | None = None  # [count + 1, vocabulary]
    margins: torch.Tensor | None = None  # [count + 1]


class TargetSampler(Protocol):
    def sample(self, probs: torch.Tensor, draws: Draws, slots: Sequence[int]) -> _TargetTokens:
        """Return tokens sampled from the target's distributions `[count + 1, vocabulary]`.

        ``slots``: for each row, the index of its uniform in ``draws.uniforms``.
        """
        ...

    def expected(self, draft: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the probability `[count]` that draft and target draw the same token."""
        ...


class MatchingJudge:
    """Implements ``judging.Judge`` for a chain or a tree by token matching."""

    def __init__(self, sampler: TargetSampler) -> None:
        self._sampler = sampler

    @on_one_thread
    def judge(self, proposal: Proposal, probs: torch.Tensor, draws: Draws) -> Verdicts:
        ids, children = proposal.token_ids.tolist(), proposal.children
        firsts = [children[node][0] if node in children else None for node in range(-1, len(ids))]
        slots = [EXTRA_SLOT if each is None else verdict_slot(each) for each in firsts]
        sampled = self._sampler.sample(probs, draws, slots)
        sampled_ids = sampled.token_ids.tolist()
        walk = _Walk.down(ids, children, sampled_ids)
        end = walk.end + 1  # the row of the extra token's distribution
        rows = [parent + 1 for parent in proposal.in_tree]
        own = proposal.token_ids[:, None]
        noise = None if sampled.noise is None else sampled.noise[rows].gather(-1, own)
        rivals = self._rivals(sampled, probs)
        first = firsts[end]
        found = Verdicts(
            token_ids=ids,
            draft_probs=proposal.probs.gather(-1, own)[:, 0].tolist(),
            target_probs=probs[rows].gather(-1, own)[:, 0].tolist(),
            expected=self._sampler.expected(proposal.probs, probs[rows]).tolist(),
            path=tuple(walk.path),
            rejected=tuple(walk.rejected),
            extra_id=sampled_ids[end],
            extra_draft_prob=(
                0.0 if first is None else float(proposal.probs[first, sampled_ids[end]])
            ),
            extra_target_prob=rivals[end].target_prob,
            extra_noise=rivals[end].noise,
            noises=None if noise is None else noise[:, 0].tolist(),
            rivals=[
                rivals[row] if number in walk.tested else None for number, row in enumerate(rows)
            ],
        )
        if proposal.parents is None:
            return found
        return replace(
            found,
            tested=tuple(walk.tested),
            remaining=probs[[rows[number] for number in walk.tested]],
            decided_with=[children[row - 1][0] for row in rows],
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


@dataclass(slots=True)
class _Walk:
    """The nodes that are tested on the way from the text down the tree of candidates."""

    path: list[int] = field(default_factory=list[int])
    rejected: list[int] = field(default_factory=list[int])
    tested: list[int] = field(default_factory=list[int])

    @property
    def end(self) -> int:
        """The last accepted node; -1 for the text."""
        return self.path[-1] if self.path else -1

    @staticmethod
    def down(ids: Sequence[int], children: dict[int, list[int]], sampled: Sequence[int]) -> _Walk:
        """Descend from the text to each accepted child; return the nodes tested on the way.

        ``sampled``: the target's tokens after the text and after each node.
        """
        walk, accepted = _Walk(), True
        while accepted:
            accepted, wanted = False, sampled[walk.end + 1]
            for child in children.get(walk.end, []):
                walk.tested.append(child)
                if ids[child] == wanted:
                    walk.path.append(child)
                    accepted = True
                    break
                walk.rejected.append(child)
        return walk


class IndependentDraw:
    """Draws the target's token without regard to the draft.

    The draft always proposes its likeliest token.
    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def sample(self, probs: torch.Tensor, draws: Draws, slots: Sequence[int]) -> _TargetTokens:
        return _TargetTokens(self._sampler.draw(probs, draws.uniforms[list(slots)]))

    def expected(self, draft: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (draft * target).sum(-1)


class SharedNoise:
    """Draws the target's token with the noise that the draft also uses."""

    def sample(self, probs: torch.Tensor, draws: Draws, slots: Sequence[int]) -> _TargetTokens:
        del slots
        assert draws.noise is not None
        noise = draws.noise[: probs.shape[0]]
        first = race(probs, noise).topk(2, largest=False)
        margins = first.values[:, 1] / first.values[:, 0] - 1.0
        return _TargetTokens(first.indices[:, 0], noise, margins)

    def expected(self, draft: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the probability `[count]` that draft and target draw the same token.

        It is Σ_v 1 / Σ_w max(draft_w/draft_v, target_w/target_v). The term of v is the probability
        that both models draw v. Sort the tokens by target/draft. Then the maximum is
        target_w/target_v for each w after v, and draft_w/draft_v for each w before v. So two
        cumulative sums give every denominator.
        """
        p, q = draft.to(widest_float(draft)), target.to(widest_float(target))
        ratio = torch.where(p > 0.0, q / p, torch.inf).where(q > 0.0, 0.0)
        order = ratio.argsort(-1)
        p, q = p.gather(-1, order), q.gather(-1, order)
        before, behind = p.cumsum(-1), q.flip(-1).cumsum(-1).flip(-1) - q
        both = (p > 0.0) & (q > 0.0)
        waiting = before / p.where(both, 1.0) + behind / q.where(both, 1.0)
        return torch.where(both, 1.0 / waiting, 0.0).sum(-1)
