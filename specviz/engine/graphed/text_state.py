"""Where a text stands, kept on the device that writes it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

_ROWS = 256  # memory comes in so many tokens, and at least so many are looked at


def rows_for(tokens: int) -> int:
    """Rows of a cache for a text of so many tokens: few numbers, so that few stages are captured,
    and at most a quarter too many of a long text."""
    step = max(_ROWS, (1 << (tokens - 1).bit_length()) // 8)
    return -(-tokens // step) * step


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

    def seen(self, length: int) -> int:
        """Rows of the cache that are looked at for a text of so many tokens. It depends on nothing
        else: where more is looked at, results may round otherwise."""
        assert length <= self.rows, "the text outgrew its cache"
        return rows_for(length)

    def state_at(self, length: int, index: int) -> None:
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
