"""The output matrix of a draft model that can propose only some of its tokens.

The matrix has one row for each of these tokens. The logits of all other tokens are ``NEVER``, so
their probability is 0. The configuration of such a model states ``draft_vocab_size``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from specviz.engine.model.packed_weights import PackedLinear
from specviz.formats.reduced_drafts import proposed_count

NEVER = -1e9  # finite, since a weighted mean of logits multiplies it by 0


class ReducedOutput(nn.Module):
    """Returns logits of the whole vocabulary; ``proposed`` has the token id of each matrix row."""

    proposed: torch.Tensor

    def __init__(self, width: int, proposed: torch.Tensor, vocabulary: int) -> None:
        super().__init__()
        self.rows: nn.Linear | PackedLinear = nn.Linear(width, len(proposed), bias=False)
        self.register_buffer("proposed", proposed, persistent=False)
        self.vocabulary = vocabulary

    @property
    def weight(self) -> torch.Tensor:
        return self.rows.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return over_vocabulary(self.rows(x).float(), self.proposed, self.vocabulary)


def over_vocabulary(logits: torch.Tensor, proposed: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Return logits `[…, vocabulary]`, given the logits of the tokens ``proposed``."""
    whole = logits.new_full((*logits.shape[:-1], vocabulary), NEVER)
    return whole.index_copy_(-1, proposed, logits)


def reduce_skeleton(skeleton: Any) -> None:
    """Give a model on the meta device a reduced output, if its configuration states one."""
    config = skeleton.config
    if (count := proposed_count(vars(config))) is not None:
        ids = torch.empty(count, dtype=torch.int64)
        skeleton.lm_head = ReducedOutput(config.hidden_size, ids, config.vocab_size)


def known_logits(ours: torch.Tensor, reference: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the columns of both logits in which the reference is not ``NEVER``."""
    known = (reference > NEVER / 2).all(0)
    return (ours, reference) if bool(known.all()) else (ours[:, known], reference[:, known])
