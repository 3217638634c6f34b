"""Run an EAGLE head on many chains of candidates at once, along one text.

Each chain begins after a different token of the text, and its candidates are the text's own tokens.
One pass computes the head's rows of the text, one row per token, from the target's hidden states;
all chains share these rows. Then each candidate position takes one pass, with a row for every
chain. A row attends to the text before its chain's start and to the earlier rows of its own chain,
as if the chain were drafted alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from specviz.engine.heads.eagle import EagleHead, EagleRun


class EagleChains(EagleRun):
    """Drafts many chains at once: ``depth`` candidates after each token index in ``starts``."""

    def __init__(
        self,
        head: EagleHead,
        token_ids: torch.Tensor,
        states: torch.Tensor,
        depth: int,
        starts: Sequence[int],
    ) -> None:
        read = max(starts)  # rows computed from the target's states
        super().__init__(head, read + len(starts) * depth)
        self._text, self._states, self._depth, self._read_rows = token_ids, states, depth, read
        self._starts = torch.tensor(starts, device=token_ids.device)
        chains = [self._starts + each for each in range(depth - 1)]
        self._places = torch.cat((torch.arange(read, device=token_ids.device), *chains))

    @torch.inference_mode()
    def logits(self) -> Iterator[torch.Tensor]:
        """Yield the logits `[num_starts, vocabulary]` of each candidate position in turn."""
        count = len(self._starts)
        x = self._rows(0, self._read_rows, self._head.fuse(self._states[: self._read_rows]))
        x = x[self._starts - 1]
        for position in range(self._depth):
            state, logits = self._outputs(x)
            yield logits
            if position + 1 < self._depth:
                begin = self._read_rows + position * count
                x = self._rows(begin, begin + count, state)

    def _rows(self, begin: int, end: int, states: torch.Tensor) -> torch.Tensor:
        places = self._places[begin:end]
        return self._read(self._tokens(places), states, begin, self._mask(begin, end), places)

    def _tokens(self, places: torch.Tensor) -> torch.Tensor:
        """Return the tokens whose embeddings the head reads in the rows at these positions.

        The row at position t reads token t + ``shift_ids``; position 0 always reads token 1.
        """
        if self._head.settings.shift_ids == 1:
            return self._text[places + 1]
        return self._text[places.clamp(min=1)]

    def _mask(self, begin: int, end: int) -> torch.Tensor | None:
        if begin == 0:
            return super()._mask(begin, end)
        before = torch.arange(self._read_rows, device=self._starts.device) < self._starts[:, None]
        same = torch.eye(end - begin, dtype=torch.bool, device=self._starts.device)
        passes = (end - self._read_rows) // (end - begin)
        return torch.cat((before, *(same for _ in range(passes))), 1)
