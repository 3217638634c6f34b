"""A draft and a target as Markov chains over a few tokens, small enough for exact answers.

The next token depends only on the previous token and its position in the text. Acceptance can
then differ from token to token, and sums over all texts stay feasible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specviz.errors import TheoryError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chains:
    """A draft and a target chain. Token n is drawn from ``kernels[n, token n - 1]``.

    The token before the first is the prompt's last: it follows ``start`` and is not generated.
    """

    draft_kernels: Floats  # [horizon, size, size], rows by the token before
    target_kernels: Floats  # [horizon, size, size]
    start: Floats  # [size]

    @property
    def horizon(self) -> int:
        """Tokens in a text."""
        return self.draft_kernels.shape[0]

    @property
    def size(self) -> int:
        """Tokens in the vocabulary."""
        return self.draft_kernels.shape[1]


def random_chains(seed: int, size: int, horizon: int, stickiness: float = 0.0) -> Chains:
    """Return chains with random rows, drawn again at every step, and a uniform prompt.

    This is the family of Yin et al. 2024, figure 2 (7 tokens, horizon 50); their generator is not
    published, so seed 10 is typical of theirs, not identical. ``stickiness`` makes acceptance
    cluster. It splits the tokens into an easy half and a hard half; that share of the probability
    mass that would cross between the halves stays, and after easy tokens the draft moves by that
    share towards the target. At 0 it changes nothing.
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
