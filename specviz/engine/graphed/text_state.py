"""A text's tokens and length, stored on the device that decodes the text."""

from __future__ import annotations

from collections.abc import Sequence

import torch

_ROWS = 256  # tokens; every cache size is a multiple of ``_ROWS``


def rows_for(tokens: int) -> int:
    """Return the number of cache rows for a text of ``tokens`` tokens.

    The number is rounded up to one of few values, so that few stages are captured. For long texts,
    it exceeds ``tokens`` by at most a quarter.
    """
    step = max(_ROWS, (1 << (tokens - 1).bit_length()) // 8)
    return -(-tokens // step) * step


class TextState:
    """A text of at most ``rows`` tokens on the device; tokens beyond ``length`` are meaningless."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.rows = rows
        self.tokens = torch.zeros(rows, dtype=torch.int64, device=device)
        self.length = torch.zeros((), dtype=torch.int64, device=device)  # tokens of the text
        self.index = torch.zeros((), dtype=torch.int64, device=device)  # of the next round or step

    @property
    def counters(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tensors that decoding changes and that capturing a function must restore."""
        return self.length, self.index

    def seen(self, length: int) -> int:
        """Return how many cache rows a step attends to for a text of ``length`` tokens.

        The number depends only on ``length``, so a text always gives the same logits. Another
        number of rows would change the tensors' shapes, and possibly the rounding.
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
        """Append the first ``kept`` of these tokens; ``kept`` is a tensor `[]`."""
        places = self.length + torch.arange(token_ids.shape[0], device=self.tokens.device)
        self.tokens.index_copy_(0, places, token_ids)
        self.length.add_(kept)
