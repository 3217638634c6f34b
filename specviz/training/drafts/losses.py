"""The loss of a draft, and the share of its candidates that the target would accept.

The target's probabilities are normalised over its whole vocabulary. So the probabilities of the
tokens that a draft can propose may add up to less than 1. The loss starts as the cross-entropy and
later shifts to 1 minus the overlap Σ min(draft, target). The overlap is the expected acceptance
(Leviathan et al. 2023), but its gradient is poor for an untrained draft.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specviz.values import Value

_OVERLAP_WEIGHT = 4.0
_DECAY = 0.9  # weight of a position relative to the one before it


class Learned(Value, eq=False):
    """The loss of a batch, and the sums from which acceptance by position is computed.

    A position is the index of a candidate in its round, from 0.
    """

    loss: torch.Tensor
    accepted: torch.Tensor  # [position]: sums of Σ min(draft, target)
    agreeing: torch.Tensor  # [position]: rows where both models have the same likeliest token
    places: torch.Tensor  # [position]: number of counted rows


def learned(
    draft_logs: Sequence[torch.Tensor],
    target_probs: Sequence[torch.Tensor],
    likeliest: Sequence[torch.Tensor],
    counted: Sequence[torch.Tensor],
    overlap: float,
) -> Learned:
    """Return the loss over all candidate positions, and sums for the acceptance by position.

    Args:
        draft_logs: for each position, the draft's log probabilities `[text, row, vocabulary]`.
        target_probs: for each position, the target's probabilities of the tokens in ``draft_logs``.
        likeliest: for each position, the draft's index of the target's likeliest token; -1 if the
            draft cannot propose this token.
        counted: for each position, whether a row counts in the loss `[text, row]`.
        overlap: 0 for cross-entropy alone, 1 for 1 − Σ min(draft, target) alone.
    """
    total, accepted, agreeing, places = torch.zeros(()), [], [], []
    for number, logs in enumerate(draft_logs):
        probs, rows = target_probs[number], counted[number]
        count = rows.sum().clamp(min=1)
        shared = torch.minimum(logs.exp(), probs).sum(-1)
        entropy = -(probs * logs).sum(-1)
        each = (1 - overlap) * entropy + overlap * _OVERLAP_WEIGHT * (1 - shared)
        total = total + _DECAY**number * (each * rows).sum() / count
        with torch.no_grad():
            accepted.append((shared * rows).sum())
            agreeing.append(((logs.argmax(-1) == likeliest[number]) & rows).sum())
            places.append(rows.sum())
    return Learned(
        loss=total,
        accepted=torch.stack(accepted),
        agreeing=torch.stack(agreeing),
        places=torch.stack(places),
    )
