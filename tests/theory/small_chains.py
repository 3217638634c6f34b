"""Chains with the same distributions at every step."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from specviz.theory.chains import Chains, Floats
from specviz.theory.tradeoff import Chances, distribution_pair


def steady_chains(draft: ArrayLike, target: ArrayLike, horizon: int) -> Chains:
    """Return chains with the same kernels ``[size, size]`` at every step and a uniform prompt."""
    one: Floats = np.asarray(draft, np.float64)
    other: Floats = np.asarray(target, np.float64)
    return Chains(
        draft_kernels=np.repeat(one[None], horizon, axis=0),
        target_kernels=np.repeat(other[None], horizon, axis=0),
        start=np.full(len(one), 1.0 / len(one)),
    )


def context_free_chains(draft: Chances, target: Chances, horizon: int) -> Chains:
    """Return chains of independent tokens, all drawn from the same distributions ``[size]``."""
    one, other = distribution_pair(draft, target)
    size = one.shape[0]
    return steady_chains(np.tile(one, (size, 1)), np.tile(other, (size, 1)), horizon)
