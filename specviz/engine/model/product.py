"""The matrix products of a lean step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A matrix product with an optional bias."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def any(self) -> bool:
        """Return whether any weight of the matrix may differ from zero."""
        return bool(self.weight.any())

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)
