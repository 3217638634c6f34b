"""Where a text stands, kept on the device that writes it."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class TextState:
    """``rows`` tokens fit. What stands behind ``length`` tokens means nothing."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.rows = rows
        self.tokens = torch.zeros(rows, dtype=torch.int64, device=device)
        self.length = torch.zeros((), dtype=torch.int64, device=device)  # of the text
        self.index = torch.zeros((), dtype=torch.int64, device=device)  # of what is played next

    @property
    def place(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What playing changes and cannot write anew."""
        return self.length, self.index

    def stand_at(self, length: int, index: int) -> None:
        self.length.fill_(length)
        self.index.fill_(index)

    def write(self, token_ids: Sequence[int], begin: int) -> None:
        ids = torch.tensor(token_ids, dtype=torch.int64)
        self.tokens[begin : begin + len(token_ids)].copy_(ids)

    def ending(self, count: int) -> torch.Tensor:
        """The last ``count`` tokens of the text; where it is shorter, its first one before it."""
        places = self.length - count + torch.arange(count, device=self.tokens.device)
        return self.tokens.index_select(0, places.clamp(min=0))

    def append(self, token_ids: torch.Tensor, kept: torch.Tensor) -> None:
        """The first ``kept`` [] of these tokens; the others do not matter."""
        places = self.length + torch.arange(token_ids.shape[0], device=self.tokens.device)
        self.tokens.index_copy_(0, places, token_ids)
        self.length.add_(kept)
