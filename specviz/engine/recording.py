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
class View:
    """One model's distributions [num_candidates, vocabulary], and the logits behind them."""

    probs: torch.Tensor
    logits: torch.Tensor | None  # None for a drafter that is certain of itself
    temperature: float


def views_of(
    proposal: Proposal, target_logits: torch.Tensor, target_probs: torch.Tensor, temperature: float
) -> tuple[View, View]:
    """Draft and target as the run used them; at temperature 0, as they are at temperature 1."""
    count = proposal.token_ids.shape[0]
    target_logits, target_probs = target_logits[:count], target_probs[:count]
    draft_probs, draft_logits = proposal.probs, proposal.logits
    if temperature == 0.0:
        temperature = 1.0
        target_probs = target_logits.softmax(-1)
        draft_probs = draft_probs if draft_logits is None else draft_logits.softmax(-1)
    return View(draft_probs, draft_logits, temperature), View(
        target_probs, target_logits, temperature
    )


def insights(
    draft: View, target: View, candidates: torch.Tensor, table: TokenTable
) -> list[Insight]:
    """One insight a candidate."""
    count = candidates.shape[0]
    residual = (target.probs - draft.probs).clamp_(min=0.0)
    residual /= residual.sum(-1, keepdim=True).clamp_(min=1e-30)
    top_probs, top_ids = top_of(torch.cat((draft.probs, target.probs, residual)), TOP_ALTERNATIVES)
    own = [view.probs.gather(-1, candidates[:, None])[:, 0] for view in (draft, target)]
    entropies = [
        _entropy(view, top_ids[first : first + count, 0], top_probs[first : first + count, 0])
        for view, first in ((draft, 0), (target, count))
    ]
    numbers = torch.stack((*own, *entropies), -1).tolist()
    rows = zip(top_ids.tolist(), top_probs.tolist(), strict=True)
    tops = [_alternatives(ids, probs, table) for ids, probs in rows]
    return [
        Insight(
            draft_prob=draft_prob,
            target_prob=target_prob,
            draft_entropy=draft_entropy,
            target_entropy=target_entropy,
            draft_top=tops[i],
            target_top=tops[count + i],
            residual_top=tops[2 * count + i],
        )
        for i, (draft_prob, target_prob, draft_entropy, target_entropy) in enumerate(numbers)
    ]


def _entropy(view: View, top_ids: torch.Tensor, top_probs: torch.Tensor) -> torch.Tensor:
    """Nats, without a logarithm of every entry.

    Where p > 0, log p = z / T - k with one constant k a row, also after top-k and top-p; the
    likeliest token gives k, and the entropy is k - sum p z / T.
    """
    if view.logits is None:
        return torch.zeros_like(top_probs)
    constant = view.logits.gather(-1, top_ids[:, None])[:, 0] / view.temperature - top_probs.log()
    mean = torch.linalg.vecdot(view.probs, view.logits) / view.temperature
    return (constant - mean).clamp_(min=0.0)


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
