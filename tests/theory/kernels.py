"""Kernels with a distribution after every short text, for enumerating rounds."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from specviz.theory.rounds import Kernel

Distribution = NDArray[np.float64]
ROUNDING = 1e-12


def kernel(seed: int, side: int, vocabulary: int, depth: int, spread: float = 1.0) -> Kernel:
    """Return a distribution for each text of up to ``depth`` tokens; some tokens are impossible."""
    rng = np.random.default_rng([seed, side, vocabulary])
    made: dict[tuple[int, ...], Distribution] = {}
    for length in range(depth + 1):
        for text in itertools.product(range(vocabulary), repeat=length):
            probs = rng.dirichlet(np.full(vocabulary, spread))
            probs[probs < 0.1 / vocabulary] = 0.0
            made[text] = probs / probs.sum()
    return made.__getitem__


def steady(probs: Distribution) -> Kernel:
    """Return a kernel with the same distribution after every text."""
    return lambda text: probs


# Vocabulary 2 to 6 and depth, small enough to enumerate.
sizes = st.sampled_from([(2, 4), (3, 4), (4, 3), (5, 2), (6, 2)])
seeds = st.integers(0, 10_000)


def both(seed: int, vocabulary: int, depth: int) -> tuple[Kernel, Kernel]:
    """Return the kernels of draft and target."""
    return kernel(seed, 0, vocabulary, depth), kernel(seed, 1, vocabulary, depth)
