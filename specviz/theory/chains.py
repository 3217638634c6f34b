"""A draft and a target as Markov chains over a few tokens, small enough for exact answers.

The next token depends only on the previous token and its position in the text. Acceptance can
then differ from token to token, and sums over all texts stay feasible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specviz.errors import TheoryError
from specviz.theory.tradeoff import SUM_SLACK, Chances, distribution_pair

Floats = NDArray[np.float64]
_DOUBLE = 1e-12  # rounding of float64 sums, not normalised away
_NAMES = {
    "draft_kernels": "The draft's kernels",
    "target_kernels": "The target's kernels",
    "start": "The prompt's distribution",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chains:
    """A draft and a target chain. Token n is drawn from ``kernels[n, token n - 1]``.

    Float32 rounding errors are removed by normalising each row. The token before the first is the
    prompt's last: it follows ``start`` and is not generated.
    """

    draft_kernels: Floats  # [horizon, size, size], rows by the token before
    target_kernels: Floats  # [horizon, size, size]
    start: Floats  # [size]

    def __post_init__(self) -> None:
        shape = self.draft_kernels.shape
        if len(shape) != 3 or 0 in shape or shape[1] != shape[2]:
            raise TheoryError(
                f"The draft's kernels have the shape {shape}.",
                remedy="Give one square matrix for each token of the text.",
            )
        if self.target_kernels.shape != shape or self.start.shape != shape[1:2]:
            raise TheoryError(
                f"The draft has kernels of shape {shape}, the target {self.target_kernels.shape}, "
                f"the prompt's distribution {self.start.shape}.",
                remedy="Use the same vocabulary and the same horizon for all three.",
            )
        for field, name in _NAMES.items():
            object.__setattr__(self, field, _checked_rows(name, getattr(self, field)))

    @property
    def horizon(self) -> int:
        """Tokens in a text."""
        return self.draft_kernels.shape[0]

    @property
    def size(self) -> int:
        """Tokens in the vocabulary."""
        return self.draft_kernels.shape[1]


def _checked_rows(name: str, values: Floats) -> Floats:
    if not np.all(np.isfinite(values)) or bool(np.any(values < 0.0)):
        raise TheoryError(
            f"{name}: some probabilities are negative or not numbers.",
            remedy="Give values from 0 to 1.",
        )
    sums = values.sum(axis=-1).ravel()
    worst = float(sums[np.argmax(np.abs(sums - 1.0))])
    if abs(worst - 1.0) > SUM_SLACK:
        raise TheoryError(
            f"{name}: some probabilities sum to {worst:.9g} instead of 1.",
            remedy="Divide each row by its sum.",
        )
    return values if abs(worst - 1.0) <= _DOUBLE else _normalised(values)


def steady_chains(draft: ArrayLike, target: ArrayLike, horizon: int) -> Chains:
    """Return chains with the same kernels ``[size, size]`` at every step and a uniform prompt."""
    _check_range("The horizon", horizon, 1, 100_000)
    one: Floats = np.asarray(draft, np.float64)
    other: Floats = np.asarray(target, np.float64)
    return Chains(
        draft_kernels=np.repeat(one[None], horizon, axis=0),
        target_kernels=np.repeat(other[None], horizon, axis=0),
        start=_uniform(len(one)),
    )


def context_free_chains(draft: Chances, target: Chances, horizon: int) -> Chains:
    """Return chains of independent tokens, all drawn from the same distributions ``[size]``."""
    one, other = distribution_pair(draft, target)
    size = one.shape[0]
    return steady_chains(np.tile(one, (size, 1)), np.tile(other, (size, 1)), horizon)


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
    return Chains(draft_kernels=draft, target_kernels=target, start=_uniform(size))


def _staying(kernels: Floats, easy: NDArray[np.bool_], share: float) -> Floats:
    inside = kernels * (easy[:, None] == easy[None, :])
    return (1.0 - share) * kernels + share * _normalised(inside)


def _uniform(size: int) -> Floats:
    return np.full(size, 1.0 / size)


def _normalised(rows: Floats) -> Floats:
    return rows / rows.sum(axis=-1, keepdims=True)


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise TheoryError(
            f"{name} is {value:g}.", remedy=f"Choose a number from {low:,} to {high:,}."
        )
