"""Pairs of distributions for hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Distribution = NDArray[np.float64]
Pair = tuple[Distribution, Distribution]  # draft and target


def _normalised(weights: list[float]) -> Distribution:
    made = np.asarray(weights) + 0.0
    return made / made.sum() if made.sum() > 0.0 else np.full(len(weights), 1.0 / len(weights))


@st.composite
def pairs(draw: st.DrawFn, smallest: int = 2, largest: int = 7) -> Pair:
    """Draft and target over the same few tokens; some tokens have probability 0."""
    size = draw(st.integers(smallest, largest))
    weight = st.one_of(st.just(0.0), st.floats(0.001, 1.0))
    weights = st.lists(weight, min_size=size, max_size=size).map(_normalised)
    return draw(weights), draw(weights)


def chances(size: int) -> st.SearchStrategy[Distribution]:
    return st.lists(st.floats(0.0, 1.0), min_size=size, max_size=size).map(np.asarray)
