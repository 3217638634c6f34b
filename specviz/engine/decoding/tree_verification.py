"""Verification of a tree: test a node's children in turn and descend into the accepted one.

Children are tested in the order they were drawn, each against the target's remaining
distribution: q_1 is the target's, and after a rejected child q_(k+1) is max(0, q_k - p_k),
normalised, with p_k the distribution that child was drawn from (SpecInfer, Miao et al. 2024;
without replacement Jeon et al. 2024). If all are rejected, the token is drawn from the last
remaining distribution. The recorded probabilities of a child are its own in p_k and q_k.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from specviz.engine.decoding.judging import Verdicts
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import EXTRA_SLOT, Draws, Sampler, on_one_thread, widest_float


class TreeJudge:
    """Judges a tree of candidates; see ``judging.Judge``."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    @on_one_thread
    def judge(self, proposal: Proposal, probs: torch.Tensor, draws: Draws) -> Verdicts:
        walk = _Walk(proposal, probs, draws.verdicts(len(proposal.token_ids)))
        node, remaining = walk.down()
        extra = int(self._sampler.draw(remaining.to(probs), draws.uniforms[EXTRA_SLOT]))
        children = proposal.children.get(node, [])
        return Verdicts(
            token_ids=walk.ids,
            draft_probs=walk.draft_probs,
            target_probs=walk.target_probs,
            expected=walk.expected,
            path=tuple(walk.path),
            rejected=tuple(walk.rejected),
            extra_id=extra,
            extra_draft_prob=float(proposal.probs[children[0], extra]) if children else 0.0,
            extra_target_prob=float(probs[node + 1, extra]),
            tested=tuple(walk.tested),
            remaining=torch.stack(walk.remaining).to(probs) if walk.remaining else probs[:0],
        )


@dataclass(slots=True, eq=False)
class _Walk:
    """A walk down the tree.

    Nodes that are never reached keep the values of the models' plain distributions.
    """

    proposal: Proposal
    probs: torch.Tensor
    uniforms: torch.Tensor
    path: list[int] = field(default_factory=list[int])
    rejected: list[int] = field(default_factory=list[int])
    tested: list[int] = field(default_factory=list[int])
    remaining: list[torch.Tensor] = field(default_factory=list[torch.Tensor])  # by tested node
    ids: list[int] = field(init=False)
    draft_probs: list[float] = field(init=False)
    target_probs: list[float] = field(init=False)
    expected: list[float] = field(init=False)

    def __post_init__(self) -> None:
        tokens = self.proposal.token_ids
        rows = self.probs[[parent + 1 for parent in self.proposal.in_tree]]
        self.ids = tokens.tolist()
        self.draft_probs = self.proposal.probs.gather(-1, tokens[:, None])[:, 0].tolist()
        self.target_probs = rows.gather(-1, tokens[:, None])[:, 0].tolist()
        self.expected = torch.minimum(self.proposal.probs, rows).sum(-1).tolist()

    def down(self) -> tuple[int, torch.Tensor]:
        """Return the last accepted node (-1: none) and the distribution of the token after it."""
        children, node = self.proposal.children, -1
        drawn = self.uniforms.tolist()
        while True:
            remaining = self.probs[node + 1].to(widest_float(self.probs))
            accepted = None
            for child in children.get(node, []):
                rest = self._remaining_after(child, remaining)
                if accepted is None:
                    self.tested.append(child)
                    self.remaining.append(remaining)
                    if drawn[child] * self.draft_probs[child] < self.target_probs[child]:
                        accepted = child
                    else:
                        self.rejected.append(child)
                remaining = rest
            if accepted is None:
                return node, remaining
            self.path.append(accepted)
            node = accepted

    def _remaining_after(self, child: int, remaining: torch.Tensor) -> torch.Tensor:
        """Set the child's values, and return the remaining distribution if it is rejected."""
        draft = self.proposal.probs[child].to(remaining)
        self.target_probs[child] = float(remaining[self.ids[child]])
        self.expected[child] = float(torch.minimum(draft, remaining).sum())
        rest = (remaining - draft).clamp_(min=0.0)
        total = rest.sum()
        return rest / total if total > 0.0 else remaining
