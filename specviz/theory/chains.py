"""A draft and a target as Markov chains over a few tokens, small enough for exact answers.

The distribution of a token depends only on the previous token and on the position in the text. So
acceptance can differ from token to token, and yet sums over all texts can be computed exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specviz.errors import TheoryError
from specviz.values import Value

Floats = NDArray[np.float64]


class Chains(Value, eq=False):
    """A draft and a target as Markov chains; token n is drawn from ``kernels[n, token n - 1]``.

    The prompt's last token precedes token 0 and is drawn from ``start``.
    """

    draft_kernels: Floats  # [horizon, size, size]; row: previous token
    target_kernels: Floats  # [horizon, size, size]
    start: Floats  # [size]

    @property
    def horizon(self) -> int:
        """The number of tokens in a text."""
        return self.draft_kernels.shape[0]

    @property
    def size(self) -> int:
        """The number of tokens in the vocabulary."""
        return self.draft_kernels.shape[1]


def random_chains(seed: int, size: int, horizon: int, stickiness: float = 0.0) -> Chains:
    """Return Markov chains with a uniform ``start`` and independent random rows per position.

    Figure 2 of Yin et al. 2024 uses such Markov chains (7 tokens, horizon 50). The paper does not
    publish its generator, so the Markov chains here are similar to the paper's, but not equal.

    ``stickiness`` s makes acceptance cluster. The tokens are split into an easy half and a hard
    half. Every row becomes a mixture: with probability s, the next token is in the half of the
    previous token. In rows after an easy token, the draft also moves towards the target: its new
    row is (1 - s) * draft + s * target.
    """
    _check_range("The seed", seed, 0, 2**32 - 1)
    _check_range("The number of tokens", size, 1, 1_000)
    _check_range("The horizon", horizon, 1, 100_000)
    _check_range("The stickiness", stickiness, 0.0, 1.0)
    source = np.random.RandomState(seed)  # the legacy generator keeps seeds reproducible
    draft = _normalised(source.rand(horizon, size, size))
    target = _normalised(source.rand(horizon, size, size))
    if stickiness > 0.0:
        easy = np.arange(size) < size // 2
        target = _staying(target, easy, stickiness)
        draft = _staying(draft, easy, stickiness)
        closer = (1.0 - stickiness) * draft + stickiness * target
        draft = np.where(easy[:, None], closer, draft)
    return Chains(draft_kernels=draft, target_kernels=target, start=np.full(size, 1.0 / size))


def _staying(kernels: Floats, easy: NDArray[np.bool_], share: float) -> Floats:
    inside = kernels * (easy[:, None] == easy[None, :])
    return (1.0 - share) * kernels + share * _normalised(inside)


def _normalised(rows: Floats) -> Floats:
    return rows / rows.sum(axis=-1, keepdims=True)


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise TheoryError(
            f"{name} is {value:g}.", remedy=f"Choose a number from {low:,} to {high:,}."
        )
