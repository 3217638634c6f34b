"""Draws from many laws in constant time (Walker 1977; Vose 1991): one uniform number each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]
Uniforms = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AliasTable:
    """Every law as ``size`` boxes of equal width; at most two tokens share a box."""

    size: int
    share: Uniforms  # [num_laws * size], the part of the box that is its own token's
    other: Indices  # [num_laws * size], the token that has the rest of the box

    def draw(self, laws: Indices, rng: np.random.Generator) -> Indices:
        """A token from each of the laws, which are named by their index."""
        place = rng.random(len(laws), dtype=np.float32)
        place *= self.size
        box = place.astype(np.intp)
        place -= box
        flat = laws * self.size
        flat += box
        return np.where(place < self.share.take(flat), box, self.other.take(flat))


def alias_table(laws: NDArray[np.float64]) -> AliasTable:
    """The table of the laws ``[num_laws, size]``; the emptiest box is filled by the fullest."""
    size = laws.shape[-1]
    level = laws * size
    rows = np.arange(len(laws))
    share, other = np.ones(laws.shape), np.zeros(laws.shape, np.intp)
    open_ = np.ones(laws.shape, np.bool_)
    for _ in range(size):
        low = np.where(open_, level, np.inf).argmin(axis=1)
        high = np.where(open_, level, -np.inf).argmax(axis=1)
        share[rows, low] = level[rows, low]
        other[rows, low] = high
        level[rows, high] -= 1.0 - level[rows, low]
        open_[rows, low] = False
    return AliasTable(size=size, share=share.astype(np.float32).ravel(), other=other.ravel())
