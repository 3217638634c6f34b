"""The record of a round: what both models thought at every candidate's position.

All positions are handled at once, and one transfer brings the result to the host.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from specviz.engine.drafting import Proposal
from specviz.engine.text import TokenTable
from specviz.engine.verify import Lossless, Rule
from specviz.trace import TOP_ALTERNATIVES, Alternatives, Insight

_BLOCK = 64
_BLOCKS_FROM = 512  # below this many blocks, sorting a row at once is as fast


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What the record adds to one candidate; nothing with the record off."""

    insight: Insight | None = None
    overlap: float | None = None
    bias: float | None = None


class Recorder:
    """Makes the insights of a run's rounds in one workspace, so that no round allocates its own.

    The workspace holds the draft's rows, then the target's, then the residual's.
    """

    def __init__(self, table: TokenTable, temperature: float) -> None:
        self._table = table
        self._temperature = temperature
        self._space: torch.Tensor | None = None

    @torch.inference_mode()
    def sights(
        self,
        rule: Rule,
        proposal: Proposal,
        target_logits: torch.Tensor,
        target_probs: torch.Tensor,
    ) -> list[Sight]:
        """One a candidate; a lossy rule is held against the run's own distributions."""
        insights = self.insights(proposal, target_logits, target_probs)
        losses = _losses(rule, proposal.probs, target_probs[: len(insights)])
        if losses is None:
            return [Sight(insight=each) for each in insights]
        return [
            Sight(insight=insight, overlap=min(1.0, overlap), bias=bias)
            for insight, overlap, bias in zip(insights, *losses, strict=True)
        ]

    @torch.inference_mode()
    def insights(
        self, proposal: Proposal, target_logits: torch.Tensor, target_probs: torch.Tensor
    ) -> list[Insight]:
        """One insight a candidate: the run's own distributions, at temperature 0 those at 1."""
        count = proposal.token_ids.shape[0]
        # A drafter without logits is certain: its own one-hots do as well, see `_entropy`.
        certain = proposal.logits is None
        draft_logits = proposal.probs if proposal.logits is None else proposal.logits
        logits = (draft_logits, target_logits[:count])
        rows = self._rows(3 * count, target_probs)
        draft, target, residual = rows[:count], rows[count : 2 * count], rows[2 * count :]
        if self._temperature > 0.0 or certain:
            draft.copy_(proposal.probs)
        else:
            torch.softmax(draft_logits, -1, out=draft)
        if self._temperature > 0.0:
            target.copy_(target_probs[:count])
        else:
            torch.softmax(logits[1], -1, out=target)
        torch.sub(target, draft, out=residual).clamp_(min=0.0)
        return self._write_down(proposal.token_ids, rows, logits)

    def _rows(self, count: int, like: torch.Tensor) -> torch.Tensor:
        if self._space is None or self._space.shape[0] < count:
            self._space = torch.empty(
                count, like.shape[-1], dtype=torch.float32, device=like.device
            )
        return self._space[:count]

    def _write_down(
        self,
        candidates: torch.Tensor,
        rows: torch.Tensor,
        logits: tuple[torch.Tensor, torch.Tensor],
    ) -> list[Insight]:
        """Bring over what explains each row; what is left to the host saves device calls."""
        count = candidates.shape[0]
        top_probs, top_ids = top_of(rows, TOP_ALTERNATIVES)
        facts = [
            _facts(rows[first : first + count], scores, candidates, top_ids[first : first + count])
            for first, scores in zip((0, count), logits, strict=True)
        ]
        numbers: list[list[float]] = torch.cat(facts).tolist()
        totals: list[float] = rows[2 * count :].sum(-1).tolist()
        scales = [1.0] * (2 * count) + totals
        tops = [
            _alternatives(ids, probs, scale, self._table.texts)
            for ids, probs, scale in zip(top_ids.tolist(), top_probs.tolist(), scales, strict=True)
        ]
        temperature = self._temperature or 1.0
        entropies = [
            _entropy(likeliest, mean, temperature, tops[i].probs[0])
            for i, (_, likeliest, mean) in enumerate(numbers)
        ]
        return [
            Insight(
                draft_prob=numbers[i][0],
                target_prob=numbers[count + i][0],
                draft_entropy=entropies[i],
                target_entropy=entropies[count + i],
                draft_top=tops[i],
                target_top=tops[count + i],
                residual_top=tops[2 * count + i],
            )
            for i in range(count)
        ]


def _losses(rule: Rule, draft: torch.Tensor, target: torch.Tensor) -> list[list[float]] | None:
    """Overlap and bias [2][count] of a lossy rule's positions."""
    bias = rule.bias(draft, target)
    if bias is None:
        return None
    return torch.stack((Lossless().expected(draft, target), bias)).tolist()


def _facts(
    probs: torch.Tensor, logits: torch.Tensor, candidates: torch.Tensor, top_ids: torch.Tensor
) -> torch.Tensor:
    """The candidate's probability, the likeliest token's logit, the mean logit: [count, 3]."""
    own = probs.gather(-1, candidates[:, None])
    likeliest = logits.gather(-1, top_ids[:, :1])
    return torch.cat((own, likeliest, torch.linalg.vecdot(probs, logits)[:, None]), -1)


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
