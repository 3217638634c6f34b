"""Prompt lookup: a drafter that copies from the text so far and needs no model."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import torch

from specviz.engine.decoding.copying import CopyingDrafter


class PromptLookupDrafter(CopyingDrafter):
    """Copies the tokens that followed the latest earlier occurrence of the text's last n tokens.

    First n is 3; if there is no such occurrence, n is 2, then 1. Without any occurrence the
    proposal is empty. After a run has returned to an earlier round, occurrences after the current
    position are ignored. The draft distributions are one-hots, so the lossless rule accepts a
    candidate with a probability equal to the candidate's target probability.
    """

    longest = 3

    def __init__(self, vocabulary: int, device: torch.device) -> None:
        super().__init__(vocabulary, device)
        self._seen: dict[tuple[int, ...], list[int]] = {}  # positions after each n-gram, ascending
        self._indexed = 0

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        """Do nothing: there is no cache, and positions in the index beyond the text are ignored."""

    def _read(self, history: Sequence[int]) -> None:
        """Index the positions after every n-gram of the history."""
        for end in range(max(1, self._indexed), len(history)):
            for size in range(1, min(self.longest, end) + 1):
                self._seen.setdefault(tuple(history[end - size : end]), []).append(end)
        self._indexed = max(self._indexed, len(history))

    def _continuation(self, history: Sequence[int], count: int) -> list[int]:
        for size in range(min(self.longest, len(history)), 0, -1):
            ends = self._seen.get(tuple(history[-size:]), [])
            earlier = bisect_left(ends, len(history))
            if earlier:
                start = ends[earlier - 1]
                return list(history[start : start + count])
        return []
