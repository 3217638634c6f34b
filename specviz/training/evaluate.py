"""Measure both models' losses and the draft's expected acceptance on held-out text.

Two numbers measure acceptance along given text. The first is the mean of Σ min(draft, target) over
all positions, at a temperature. The second is the share of positions where both models have the
same most likely token.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import nn

from specviz.training.corpus import TokenStream
from specviz.values import Value

_LENGTH = 512
_BATCH = 8


class Agreement(Value):
    """How well the draft's distributions agree with the target's along a text."""

    draft_loss: float
    overlap: float  # expected acceptance at temperature 1
    overlap_cool: float  # expected acceptance at temperature 0.7
    greedy: float  # share of positions with the same most likely token

    def rows(self) -> dict[str, float]:
        return {
            "draft_loss": round(self.draft_loss, 4),
            "acceptance_t1": round(self.overlap, 4),
            "acceptance_t07": round(self.overlap_cool, 4),
            "greedy_agreement": round(self.greedy, 4),
        }


@torch.no_grad()
def held_out_loss(model: nn.Module, stream: TokenStream, max_tokens: int | None = None) -> float:
    """Return the loss in nats per token, computed in float32."""
    model.eval()
    total, count = 0.0, 0
    for batch in _windows(stream, next(model.parameters()).device, max_tokens):
        logits = model(batch[:, :-1]).logits.float()
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="sum")
        total += float(loss)
        count += batch[:, 1:].numel()
    return total / count


@torch.no_grad()
def agreement(
    draft: nn.Module, target: nn.Module, stream: TokenStream, max_tokens: int | None = None
) -> Agreement:
    draft.eval()
    target.eval()
    sums = torch.zeros(4, dtype=torch.float64)
    count = 0
    for batch in _windows(stream, next(target.parameters()).device, max_tokens):
        draft_logits = draft(batch[:, :-1]).logits.float()
        target_logits = target(batch[:, :-1]).logits.float()
        loss = F.cross_entropy(draft_logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="sum")
        same = (draft_logits.argmax(-1) == target_logits.argmax(-1)).sum()
        overlaps = [_overlap(draft_logits, target_logits, t) for t in (1.0, 0.7)]
        sums += torch.stack([loss, *overlaps, same.float()]).double().cpu()
        count += batch[:, 1:].numel()
    loss, overlap, cool, greedy = (sums / count).tolist()
    return Agreement(draft_loss=loss, overlap=overlap, overlap_cool=cool, greedy=greedy)


def _overlap(
    draft_logits: torch.Tensor, target_logits: torch.Tensor, temperature: float
) -> torch.Tensor:
    draft_probs = (draft_logits / temperature).softmax(-1)
    target_probs = (target_logits / temperature).softmax(-1)
    return torch.minimum(draft_probs, target_probs).sum()


def _windows(
    stream: TokenStream, device: torch.device, max_tokens: int | None
) -> Iterator[torch.Tensor]:
    """Yield windows `[batch, length + 1]` of the stream; each token is predicted once."""
    ids = stream.ids if max_tokens is None else stream.ids[:max_tokens]
    length = min(_LENGTH, len(ids) - 1)
    count = (len(ids) - 1) // length
    starts = torch.arange(count) * length
    rows = ids[starts[:, None] + torch.arange(length + 1)]
    for batch in rows.split(_BATCH):
        yield batch.to(device)
