"""Verification of a tree: test a node's children in turn and descend to the accepted child.

Children are tested in the order they were drawn. Child k is accepted with probability
min(1, q_k/p_k), where p_k is the distribution it was drawn from and q_k is what remains of the
target's distribution. q_1 is the target's distribution; after a rejection, q_(k+1) is
max(0, q_k - p_k), normalised (SpecInfer, Miao et al. 2024). Jeon et al. (2024) extend this to
children drawn without replacement. If all children are rejected, the extra token is drawn from the
last remaining distribution. The record stores child k's probabilities under p_k and q_k.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from specviz.engine.decoding.judging import Verdicts
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import EXTRA_SLOT, Draws, Sampler, on_one_thread, widest_float


class TreeJudge:
    """Implements ``judging.Judge`` for a tree of candidates."""

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
    """The state of a walk down the tree.

    At first, every node has its probabilities under the two models' distributions. The walk changes
    only the probabilities of the nodes that it reaches.
    """

    proposal: Proposal
    probs: torch.Tensor
    uniforms: torch.Tensor
    path: list[int] = field(default_factory=list[int])
    rejected: list[int] = field(default_factory=list[int])
    tested: list[int] = field(default_factory=list[int])
    remaining: list[torch.Tensor] = field(default_factory=list[torch.Tensor])  # q_k by tested node
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
        """Walk down the tree; set the verdicts and the probabilities of the nodes reached.

        Returns:
            The last accepted node (-1: none), and the distribution of the extra token.
        """
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
        """Set the child's probabilities; return the remaining distribution after its rejection."""
        draft = self.proposal.probs[child].to(remaining)
        self.target_probs[child] = float(remaining[self.ids[child]])
        self.expected[child] = float(torch.minimum(draft, remaining).sum())
        rest = (remaining - draft).clamp_(min=0.0)
        total = rest.sum()
        return rest / total if total > 0.0 else remaining
