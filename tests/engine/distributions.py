"""Distributions and uniforms for hypothesis to draw."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

LAST = 1.0 - 2.0**-24  # the largest uniform


def _normalised(weights: list[int]) -> np.ndarray:
    distribution = np.array(weights, dtype=np.float64)
    return distribution / distribution.sum()


def distributions(vocabulary: int) -> st.SearchStrategy[np.ndarray]:
    """Distributions, many with tokens of probability zero, some with tiny ones."""
    weight = st.one_of(st.just(0), st.integers(1, 20), st.integers(1, 10**9))
    many = st.lists(weight, min_size=vocabulary, max_size=vocabulary)
    return many.filter(any).map(_normalised)


UNIFORM = st.one_of(
    st.just(0.0), st.just(LAST), st.integers(0, 2**24 - 1).map(lambda k: k * 2.0**-24)
)
