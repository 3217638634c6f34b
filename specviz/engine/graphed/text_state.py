"""A text's tokens and length, kept on the device that writes it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

_ROWS = 256  # tokens; the least granularity of caches and of the rows attended to


def rows_for(tokens: int) -> int:
    """Return the cache rows for a text of so many tokens.

    Few different values, so that few stages are captured; at most a quarter too many for long
    texts.
    """
    step = max(_ROWS, (1 << (tokens - 1).bit_length()) // 8)
    return -(-tokens // step) * step


class TextState:
    """A text of at most ``rows`` tokens; tokens beyond ``length`` are meaningless."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.rows = rows
        self.tokens = torch.zeros(rows, dtype=torch.int64, device=device)
        self.length = torch.zeros((), dtype=torch.int64, device=device)  # of the text
        self.index = torch.zeros((), dtype=torch.int64, device=device)  # of the next round or step

    @property
    def counters(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The state that playing a stage changes and that capturing must restore."""
        return self.length, self.index

    def seen(self, length: int) -> int:
        """Return the cache rows attended to for a text of so many tokens.

        It depends on nothing else, since with other shapes results may round differently.
        """
        assert length <= self.rows, "the text outgrew its cache"
        return rows_for(length)

    def set_position(self, length: int, index: int) -> None:
        self.length.fill_(length)
        self.index.fill_(index)

    def write(self, token_ids: Sequence[int], begin: int) -> None:
        ids = torch.tensor(token_ids, dtype=torch.int64)
        self.tokens[begin : begin + len(token_ids)].copy_(ids)

    def ending(self, count: int) -> torch.Tensor:
        """Return the last ``count`` tokens; a shorter text is padded with its first token."""
        places = self.length - count + torch.arange(count, device=self.tokens.device)
        return self.tokens.index_select(0, places.clamp(min=0))

    def append(self, token_ids: torch.Tensor, kept: torch.Tensor) -> None:
        """Append the first ``kept`` `[]` of these tokens."""
        places = self.length + torch.arange(token_ids.shape[0], device=self.tokens.device)
        self.tokens.index_copy_(0, places, token_ids)
        self.length.add_(kept)
