"""The record of a round: what both models thought at every candidate's position.

All positions are handled at once, and one transfer brings the result to the host.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from specviz.engine.drafting import Proposal
from specviz.engine.text import TokenTable
from specviz.trace import TOP_ALTERNATIVES, Alternatives, Insight

_BLOCK = 64
_BLOCKS_FROM = 512  # below this many blocks, sorting a row at once is as fast


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """What both models thought, the draft's rows above the target's."""

    probs: torch.Tensor  # [2 * num_candidates, vocabulary]
    logits: torch.Tensor  # the same before the processors
    temperature: float


def views_of(
    proposal: Proposal, target_logits: torch.Tensor, target_probs: torch.Tensor, temperature: float
) -> Views:
    """Distributions as the run used them; at temperature 0, as they are at temperature 1."""
    count = proposal.token_ids.shape[0]
    # A drafter without logits is certain: its own one-hots do as well, see `_entropy`.
    draft_logits = proposal.probs if proposal.logits is None else proposal.logits
    logits = torch.cat((draft_logits, target_logits[:count]))
    if temperature > 0.0:
        return Views(torch.cat((proposal.probs, target_probs[:count])), logits, temperature)
    probs = logits.softmax(-1)
    if proposal.logits is None:
        probs[:count] = proposal.probs
    return Views(probs, logits, 1.0)


def insights(views: Views, candidates: torch.Tensor, table: TokenTable) -> list[Insight]:
    """One insight a candidate. What is left to the host here is small and saves device calls."""
    count = candidates.shape[0]
    residual = (views.probs[count:] - views.probs[:count]).clamp_(min=0.0)
    top_probs, top_ids = top_of(torch.cat((views.probs, residual)), TOP_ALTERNATIVES)
    parts = (
        views.probs.gather(-1, candidates.repeat(2)[:, None]),
        views.logits.gather(-1, top_ids[: 2 * count, :1]),
        torch.linalg.vecdot(views.probs, views.logits)[:, None],
    )
    facts: list[list[float]] = torch.cat(parts, -1).tolist()
    totals: list[float] = residual.sum(-1).tolist()
    rows = zip(top_ids.tolist(), top_probs.tolist(), strict=True)
    scales = [1.0] * (2 * count) + totals
    tops = [
        _alternatives(ids, probs, scale, table.texts)
        for (ids, probs), scale in zip(rows, scales, strict=True)
    ]
    entropies = [
        _entropy(likeliest, mean, views.temperature, tops[i].probs[0])
        for i, (_, likeliest, mean) in enumerate(facts)
    ]
    return [
        Insight(
            draft_prob=facts[i][0],
            target_prob=facts[count + i][0],
            draft_entropy=entropies[i],
            target_entropy=entropies[count + i],
            draft_top=tops[i],
            target_top=tops[count + i],
            residual_top=tops[2 * count + i],
        )
        for i in range(count)
    ]


def _entropy(likeliest: float, mean: float, temperature: float, top_prob: float) -> float:
    """Nats, from a few numbers instead of a logarithm of every entry.

    Where p > 0, log p = z / T - k with one constant k, also after top-k and top-p; the
    likeliest token gives k, and the entropy is k - sum p z / T. For a one-hot it is 0.
    """
    return max(0.0, (likeliest - mean) / temperature - math.log(top_prob))


def top_of(rows: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest values [num_rows, count] of each row and where they stand.

    A row's ``count`` largest values lie in the ``count`` blocks with the largest maxima, so
    most of a large vocabulary is read once and never sorted.
    """
    size = rows.shape[-1]
    count = min(count, size)
    blocks = size // _BLOCK
    if blocks < _BLOCKS_FROM:
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


def _alternatives(
    ids: list[int], probs: list[float], scale: float, texts: tuple[str, ...]
) -> Alternatives:
    if probs[-1] <= 0.0:
        kept = probs.index(0.0)
        ids, probs = ids[:kept], probs[:kept]
    if scale != 1.0:
        probs = [prob / scale for prob in probs]
    return Alternatives(
        token_ids=tuple(ids), texts=tuple(map(texts.__getitem__, ids)), probs=tuple(probs)
    )
