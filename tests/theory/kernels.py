"""Laws after every text of a few tokens, as kernels: what rounds are enumerated over."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from specviz.theory.rounds import Kernel

Law = NDArray[np.float64]
ROUNDING = 1e-12


def kernel(seed: int, side: int, vocabulary: int, depth: int, spread: float = 1.0) -> Kernel:
    """A law for each text of up to ``depth`` tokens; some tokens impossible."""
    rng = np.random.default_rng([seed, side, vocabulary])
    made: dict[tuple[int, ...], Law] = {}
    for length in range(depth + 1):
        for text in itertools.product(range(vocabulary), repeat=length):
            law = rng.dirichlet(np.full(vocabulary, spread))
            law[law < 0.1 / vocabulary] = 0.0
            made[text] = law / law.sum()
    return made.__getitem__


def steady(law: Law) -> Kernel:
    """The same law after every text."""
    return lambda text: law


# Seed, vocabulary 2 to 6, depth: few enough texts to count.
sizes = st.sampled_from([(2, 4), (3, 4), (4, 3), (5, 2), (6, 2)])
seeds = st.integers(0, 10_000)


def both(seed: int, vocabulary: int, depth: int) -> tuple[Kernel, Kernel]:
    """Of draft and target."""
    return kernel(seed, 0, vocabulary, depth), kernel(seed, 1, vocabulary, depth)
