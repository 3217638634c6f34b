"""The record of a round: what both models thought at every candidate's position.

All positions are handled at once, and one transfer brings the result to the host.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from specviz.engine.drafting import Proposal
from specviz.engine.text import TokenTable
from specviz.trace import TOP_ALTERNATIVES, Alternatives, Insight

_BLOCK = 64


@dataclass(frozen=True, slots=True, eq=False)
class Sights:
    """Distributions worth showing at the candidates' positions, [num_candidates, vocabulary]."""

    draft: torch.Tensor
    target: torch.Tensor


def sights_of(
    proposal: Proposal, target_logits: torch.Tensor, target_probs: torch.Tensor, *, greedy: bool
) -> Sights:
    """The run's own distributions; at temperature 0 those at temperature 1 instead."""
    count = proposal.token_ids.shape[0]
    if not greedy:
        return Sights(proposal.probs, target_probs[:count])
    draft = proposal.probs if proposal.logits is None else proposal.logits.softmax(-1)
    return Sights(draft, target_logits[:count].softmax(-1))


def insights(sights: Sights, candidates: torch.Tensor, table: TokenTable) -> list[Insight]:
    """One insight a candidate."""
    count = candidates.shape[0]
    residual = (sights.target - sights.draft).clamp_(min=0.0)
    residual /= residual.sum(-1, keepdim=True).clamp(min=1e-30)
    shown = torch.cat((sights.draft, sights.target, residual))
    top_probs, top_ids = top_of(shown, TOP_ALTERNATIVES)
    models = shown[: 2 * count]
    entropy = torch.special.entr(models).sum(-1)
    own = models.gather(-1, candidates.repeat(2)[:, None])
    numbers = torch.cat((own, entropy[:, None]), -1).tolist()
    rows = list(zip(top_ids.tolist(), top_probs.tolist(), strict=True))
    tops = [_alternatives(ids, probs, table) for ids, probs in rows]
    return [
        Insight(
            draft_prob=numbers[i][0],
            target_prob=numbers[count + i][0],
            draft_entropy=numbers[i][1],
            target_entropy=numbers[count + i][1],
            draft_top=tops[i],
            target_top=tops[count + i],
            residual_top=tops[2 * count + i],
        )
        for i in range(count)
    ]


def top_of(rows: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest values [num_rows, count] of each row and where they stand.

    A row's ``count`` largest values lie in the ``count`` blocks with the largest maxima, so
    most of a large vocabulary is read once and never sorted.
    """
    size = rows.shape[-1]
    count = min(count, size)
    blocks = size // _BLOCK
    if blocks < 4 * count:
        top = rows.topk(count, dim=-1)
        return top.values, top.indices
    even = blocks * _BLOCK
    grid = rows[:, :even].unflatten(-1, (blocks, _BLOCK))
    best = grid.amax(-1).topk(count, dim=-1, sorted=False).indices
    picked = grid.gather(1, best[..., None].expand(-1, -1, _BLOCK)).flatten(1)
    where = (best[..., None] * _BLOCK + torch.arange(_BLOCK, device=rows.device)).flatten(1)
    if even < size:
        tail = torch.arange(even, size, device=rows.device).expand(rows.shape[0], -1)
        picked = torch.cat((picked, rows[:, even:]), -1)
        where = torch.cat((where, tail), -1)
    top = picked.topk(count, dim=-1)
    return top.values, where.gather(-1, top.indices)


def _alternatives(ids: list[int], probs: list[float], table: TokenTable) -> Alternatives:
    kept = sum(prob > 0.0 for prob in probs)
    return Alternatives(
        token_ids=tuple(ids[:kept]),
        texts=tuple(table.text(token_id) for token_id in ids[:kept]),
        probs=tuple(probs[:kept]),
    )
