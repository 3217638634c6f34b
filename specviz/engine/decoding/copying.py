"""The base class of drafters that copy tokens from texts and need no model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from specviz.engine.decoding.proposal import Proposal, certain
from specviz.engine.decoding.sampling import Draws, on_one_thread


class CopyingDrafter(ABC):
    """Proposes copied tokens with one-hot distributions; proposes nothing if no text matches."""

    wants_hidden = False

    def __init__(self, vocabulary: int, device: torch.device) -> None:
        self._vocabulary = vocabulary
        self._device = device

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        self._read(prompt_ids)

    @on_one_thread
    def propose(
        self, history: Sequence[int], count: int, draws: Draws | None, hidden: torch.Tensor | None
    ) -> Proposal:
        del draws, hidden
        self._read(history)
        return certain(self._continuation(history, count), self._vocabulary, self._device)

    @abstractmethod
    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        """Forget the text beyond its first ``valid`` tokens."""

    @abstractmethod
    def _read(self, history: Sequence[int]) -> None:
        """Process the tokens that the history has gained since the last call."""

    @abstractmethod
    def _continuation(self, history: Sequence[int], count: int) -> list[int]:
        """Return at most ``count`` tokens that follow the history."""
