"""The interface of drafts in training: one class for each kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from specviz.training.drafts.losses import Learned, learned
from specviz.training.drafts.stored_states import Window


class Draft(nn.Module, ABC):
    """A draft whose parameters are trained; ``kept`` are the token ids that it can propose."""

    kept: torch.Tensor
    places: tuple[int, ...] = ()  # target hidden states that it uses, besides the final one

    def keep(self, kept: torch.Tensor, vocabulary: int) -> None:
        self.register_buffer("kept", kept)
        index = torch.full((vocabulary,), -1)
        index[kept] = torch.arange(len(kept))
        self._index = index  # of a token among the kept ones; -1 if it is not kept

    def index(self, ids: torch.Tensor) -> torch.Tensor:
        return self._index[ids]

    def learned(
        self,
        logs: Sequence[torch.Tensor],
        window: Window,
        output: torch.Tensor,
        overlap: float,
    ) -> Learned:
        """Return the loss, given the draft's log probabilities for each position.

        ``output``: the target's output matrix `[vocabulary, width]`. ``overlap``: as in ``learn``.
        """
        count = len(logs)
        return learned(
            logs,
            shifted(target_probs(window, output[self.kept]), count),
            shifted(self.index(window.best), count),
            shifted(window.written, count),
            overlap,
        )

    @abstractmethod
    def learn(self, window: Window, overlap: float) -> Learned:
        """Return the loss of a batch.

        ``overlap``: 0 for cross-entropy alone, 1 for 1 − Σ min(draft, target) alone.
        """

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write the weights in half precision, as a folder that can be loaded like any draft."""


def halved(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: each.detach().half() for name, each in tensors.items()}


def shifted(values: torch.Tensor, positions: int) -> list[torch.Tensor]:
    """Return one tensor for each position p: ``values`` `[text, row, …]`, shifted by 1 + p rows.

    Row t of the tensor has the values at token t + 1 + p. At token t + 1 + p, the target predicts
    token t + 2 + p, which is the candidate at position p.
    """
    rows = values.shape[1] - positions
    return [values[:, 1 + number : 1 + number + rows] for number in range(positions)]


def target_probs(window: Window, output: torch.Tensor) -> torch.Tensor:
    """Return the target's probabilities of some tokens, `[text, token, kept]`.

    ``output``: the rows of the target's output matrix for these tokens.
    """
    return (window.final @ output.T - window.log_sum[..., None]).exp()


def rotation_keys(config: Any) -> dict[str, Any]:
    """Return the target's RoPE settings under keys that all loaders of heads know."""
    stated = dict(getattr(config, "rope_parameters", None) or {})
    theta = stated.pop("rope_theta", None) or getattr(config, "rope_theta", 10_000.0)
    kind = stated.get("rope_type", "default")
    return {"rope_theta": theta} | ({} if kind == "default" else {"rope_scaling": stated})
