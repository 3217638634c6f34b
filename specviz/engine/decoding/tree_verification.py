"""Several candidates for one place, one after the other, down a tree while one stands.

A node's children are tried in the order in which they were drawn, each against what the target
still asks for: q_1 is its law, and after a child that falls q_(k+1) is max(0, q_k - p_k), made a
law again, with p_k the law that this child was really drawn from (SpecInfer, Miao et al. 2024;
without replacement Jeon et al. 2024). When none stands, the token is drawn from the last of these.
The recorded probabilities of a child are its own in p_k and q_k.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from specviz.engine.decoding.judging import Verdicts
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import EXTRA_SLOT, Draws, Sampler, on_one_thread, wide


class Siblings:
    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    @on_one_thread
    def judge(self, proposal: Proposal, probs: torch.Tensor, draws: Draws) -> Verdicts:
        walk = _Walk(proposal, probs, draws.verdicts(len(proposal.token_ids)))
        node, law = walk.down()
        extra = int(self._sampler.draw(law.to(probs), draws.uniforms[EXTRA_SLOT]))
        children = proposal.children.get(node, [])
        return Verdicts(
            token_ids=walk.ids,
            draft_probs=walk.draft_probs,
            target_probs=walk.target_probs,
            expected=walk.expected,
            path=tuple(walk.path),
            fallen=tuple(walk.fallen),
            extra_id=extra,
            extra_draft_prob=float(proposal.probs[children[0], extra]) if children else 0.0,
            extra_target_prob=float(probs[node + 1, extra]),
            tested=tuple(walk.tested),
            laws=torch.stack(walk.laws).to(probs) if walk.laws else probs[:0],
        )


@dataclass(slots=True, eq=False)
class _Walk:
    """Down the tree. The facts of nodes that are never reached are those of the plain laws."""

    proposal: Proposal
    probs: torch.Tensor
    uniforms: torch.Tensor
    path: list[int] = field(default_factory=list[int])
    fallen: list[int] = field(default_factory=list[int])
    tested: list[int] = field(default_factory=list[int])
    laws: list[torch.Tensor] = field(default_factory=list[torch.Tensor])  # against which
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
        """The last node that stands, -1 for the text, and the law of what follows it."""
        children, node = self.proposal.children, -1
        drawn = self.uniforms.tolist()
        while True:
            law = self.probs[node + 1].to(wide(self.probs))
            stands = None
            for child in children.get(node, []):
                left = self._left(child, law)
                if stands is None:
                    self.tested.append(child)
                    self.laws.append(law)
                    if drawn[child] * self.draft_probs[child] < self.target_probs[child]:
                        stands = child
                    else:
                        self.fallen.append(child)
                law = left
            if stands is None:
                return node, law
            self.path.append(stands)
            node = stands

    def _left(self, child: int, law: torch.Tensor) -> torch.Tensor:
        """What the target asks for after this child fell; notes the child's facts before."""
        draft = self.proposal.probs[child].to(law)
        self.target_probs[child] = float(law[self.ids[child]])
        self.expected[child] = float(torch.minimum(draft, law).sum())
        left = (law - draft).clamp_(min=0.0)
        total = left.sum()
        return left / total if total > 0.0 else law
