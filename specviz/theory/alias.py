"""The alias method (Walker 1977; Vose 1991): constant-time draws from many distributions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specviz.values import Value

Indices = NDArray[np.intp]
Uniforms = NDArray[np.float32]


class AliasTable(Value, eq=False):
    """Distributions over ``size`` tokens, in the form that the alias method draws from.

    Each distribution is split into ``size`` bins of equal probability; a bin holds at most two
    tokens.
    """

    size: int
    share: Uniforms  # [num_distributions * size], the part of bin i that token i fills
    other: Indices  # [num_distributions * size], the token that fills the rest of the bin

    def draw(self, rows: Indices, rng: np.random.Generator) -> Indices:
        """Draw and return one token per row index in ``rows``, from that row's distribution.

        A draw uses one uniform random number.
        """
        place = rng.random(len(rows), dtype=np.float32)
        place *= self.size
        box = place.astype(np.intp)
        place -= box
        flat = rows * self.size
        flat += box
        return np.where(place < self.share.take(flat), box, self.other.take(flat))


def alias_table(probs: NDArray[np.float64]) -> AliasTable:
    """Return the alias table of ``probs`` ``[num_distributions, size]``.

    The construction repeatedly takes the emptiest open bin, fills it with probability from the
    fullest bin, and closes it.
    """
    size = probs.shape[-1]
    level = probs * size
    rows = np.arange(len(probs))
    share, other = np.ones(probs.shape), np.zeros(probs.shape, np.intp)
    open_ = np.ones(probs.shape, np.bool_)
    for _ in range(size):
        low = np.where(open_, level, np.inf).argmin(axis=1)
        high = np.where(open_, level, -np.inf).argmax(axis=1)
        share[rows, low] = level[rows, low]
        other[rows, low] = high
        level[rows, high] -= 1.0 - level[rows, low]
        open_[rows, low] = False
    return AliasTable(size=size, share=share.astype(np.float32).ravel(), other=other.ravel())
