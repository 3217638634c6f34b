"""Simulation of speculative decoding on Markov chains, so fast that averages visibly converge.

Many texts are simulated in parallel, one token at a time. A round drafts to the end of the text, as
in Yin et al. 2024, and ends with a rejection. The simulation does not draw candidates after a
rejection, since nothing depends on them. The results of several batches can be added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from specviz.errors import TheoryError
from specviz.theory.alias import Indices, alias_table
from specviz.theory.chains import Chains, Floats
from specviz.theory.counts import Counts
from specviz.values import Value

_LANES = 16_384  # texts simulated in parallel: their state fits the processor's cache
_MAX_DRAFTS = 1_024


class Estimate(Counts):
    """The mean of a count over independent texts, with its standard error."""

    count: int
    total: float
    squares: float

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def standard_error(self) -> float:
        if self.count < 2:
            return math.inf
        spread = max(0.0, self.squares - self.total**2 / self.count)
        return math.sqrt(spread / (self.count - 1) / self.count)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval, by the normal approximation."""
        half = 1.96 * self.standard_error
        return self.mean - half, self.mean + half


class Simulated(Counts, eq=False):
    """Counts of rejections and emitted tokens in simulated texts.

    The counts of two simulations on the same Markov chains can be added.
    """

    rejections: Estimate  # per text
    rejected_at: NDArray[np.int64]  # [horizon]
    transitions: NDArray[np.int64]  # [horizon, size, size], counts of (previous, emitted)

    @property
    def texts(self) -> int:
        return self.rejections.count

    @property
    def rejection_chances(self) -> Floats:
        return self.rejected_at / self.texts


class ChainRule(Value, eq=False):
    """The probabilities of a verification rule, at every step and for every previous token.

    The first position of a round, its root, has ``num_drafts`` candidates: candidate m is tested
    with ``accept[m]``. A later position has one candidate, tested with ``accept[0]``.
    """

    accept: Floats  # [num_drafts, horizon, size, size]; last axis: candidate
    recover: Floats  # [horizon, size, size], after a rejection
    recover_at_root: Floats  # [horizon, size, size], after all candidates at the root


def lossless_rule(chains: Chains, num_drafts: int = 1) -> ChainRule:
    """Return the rule that accepts with probability min(1, target / draft).

    After a rejection, a token is drawn from the residual (Leviathan et al. 2023, Chen et al. 2023).
    With several drafts, the next candidate is tested against the residual first, and a token is
    drawn only if all candidates are rejected (Yin et al. 2024, algorithm 4).
    """
    if not 1 <= num_drafts <= _MAX_DRAFTS:
        raise TheoryError(
            f"{num_drafts} drafts cannot be simulated.", remedy=f"Choose 1 to {_MAX_DRAFTS:,}."
        )
    residuals = [chains.target_kernels]
    for _ in range(num_drafts):
        residuals.append(_residual(chains.draft_kernels, residuals[-1]))
    return ChainRule(
        accept=np.stack([_odds(chains.draft_kernels, probs) for probs in residuals[:-1]]),
        recover=residuals[1],
        recover_at_root=residuals[-1],
    )


def over_accepting_rule(
    chains: Chains, epsilon: float, recovery: Literal["residual", "target"]
) -> ChainRule:
    """Return the biased rule that accepts with probability min(1, (target + epsilon) / draft).

    See Yin et al. 2024, section 4.2. With recovery from the ``residual`` of the lossless rule, this
    is the paper's Decoding-OPT. With recovery from the ``target``, it is the paper's Decoding-UNO.
    """
    if not epsilon >= 0.0:
        raise TheoryError(f"ε is {epsilon:g}.", remedy="Give 0 or more.")
    draft, target = chains.draft_kernels, chains.target_kernels
    recover = _residual(draft, target) if recovery == "residual" else target
    accept = _odds(draft, target + epsilon)
    return ChainRule(accept=accept[None], recover=recover, recover_at_root=recover)


def in_batches(texts: int, simulate: Callable[[int], Simulated]) -> Simulated:
    """Simulate ``texts`` texts in batches, and return the sum of the batches' counts."""
    if texts < 1:
        raise TheoryError(f"{texts} texts cannot be simulated.", remedy="Choose 1 or more.")
    sizes = [min(_LANES, texts - done) for done in range(0, texts, _LANES)]
    return reduce(add, map(simulate, sizes))


class Simulator:
    """A simulator of one rule on a pair of Markov chains; builds its sampling tables once."""

    def __init__(self, chains: Chains, rule: ChainRule) -> None:
        self._horizon, self._size = chains.horizon, chains.size
        self._start = alias_table(chains.start[None])
        self._draft = alias_table(chains.draft_kernels.reshape(-1, chains.size))
        # Last token of a round: 0 recovered at a later position, 1 recovered at the root.
        ends = np.concatenate([rule.recover, rule.recover_at_root], axis=1)
        self._ends = alias_table(ends.reshape(-1, chains.size))
        tries = rule.accept.reshape(len(rule.accept), chains.horizon, -1)
        self._accept = np.ascontiguousarray(tries.swapaxes(0, 1), dtype=np.float32)

    def run(self, texts: int, rng: np.random.Generator) -> Simulated:
        """Simulate ``texts`` texts and return the counts."""
        return in_batches(texts, lambda size: self._side_by_side(size, rng))

    def _side_by_side(self, texts: int, rng: np.random.Generator) -> Simulated:
        before = self._start.draw(np.zeros(texts, np.intp), rng)
        accepted = np.zeros(texts, np.int32)  # in the current round
        rejections = np.zeros(texts, np.int32)
        rejected_at = np.zeros(self._horizon, np.int64)
        transitions = np.zeros((self._horizon, self._size**2), np.int64)
        for step in range(self._horizon):
            token, rejected = self._step(step, before, accepted, rng)
            accepted += 1
            accepted[rejected] = 0
            rejections[rejected] += 1
            rejected_at[step] = len(rejected)
            edge = before * self._size + token
            transitions[step] = np.bincount(edge, minlength=self._size**2)
            before = token
        return Simulated(
            rejections=estimate(rejections),
            rejected_at=rejected_at,
            transitions=transitions.reshape(-1, self._size, self._size),
        )

    def _step(
        self, step: int, before: Indices, accepted: NDArray[np.int32], rng: np.random.Generator
    ) -> tuple[Indices, Indices]:
        """Draw the next token of every text; return the tokens, and which texts had a rejection."""
        token = self._draft.draw(before + step * self._size, rng)
        rejected = np.flatnonzero(self._failed(step, 0, before, token, rng))
        if self._accept.shape[1] == 1:
            token[rejected] = self._after(step, 0, before[rejected], rng)
            return token, rejected
        fresh = accepted[rejected] == 0
        further, root = rejected[~fresh], rejected[fresh]
        token[further] = self._after(step, 0, before[further], rng)
        root = self._try_others(step, root, before, token, rng)
        token[root] = self._after(step, 1, before[root], rng)
        return token, np.concatenate([further, root])

    def _try_others(
        self, step: int, root: Indices, before: Indices, token: Indices, rng: np.random.Generator
    ) -> Indices:
        """Test further candidates in the texts ``root``, whose first candidate was rejected.

        Stores in ``token`` the candidate that was tested last. Returns the texts in which all
        candidates were rejected.
        """
        for layer in range(1, self._accept.shape[1]):
            if not len(root):
                break
            candidate = self._draft.draw(before[root] + step * self._size, rng)
            failed = self._failed(step, layer, before[root], candidate, rng)
            token[root] = candidate  # if rejected, overwritten by a later one
            root = root[failed]
        return root

    def _failed(
        self, step: int, layer: int, before: Indices, token: Indices, rng: np.random.Generator
    ) -> NDArray[np.bool_]:
        odds = self._accept[step, layer].take(before * self._size + token)
        return rng.random(len(token), dtype=np.float32) >= odds

    def _after(self, step: int, kind: int, before: Indices, rng: np.random.Generator) -> Indices:
        return self._ends.draw(before + (2 * step + kind) * self._size, rng)


def estimate(values: NDArray[np.int32]) -> Estimate:
    """Return the `Estimate` of a count, given its value in each text."""
    numbers = values.astype(np.float64)
    return Estimate(
        count=len(numbers), total=float(numbers.sum()), squares=float(numbers @ numbers)
    )


def _residual(draft: Floats, probs: Floats) -> Floats:
    """Return the residual: max(0, probs - draft), normalised.

    Where the difference is zero for all tokens, return ``probs``.
    """
    left = np.maximum(probs - draft, 0.0)
    total = left.sum(axis=-1, keepdims=True)
    return np.where(total > 1e-12, left / np.where(total > 1e-12, total, 1.0), probs)


def _odds(draft: Floats, probs: Floats) -> Floats:
    """Return each candidate's acceptance probability, min(1, probs / draft); 1 if draft is 0."""
    drafted = draft > 0.0
    return np.where(drafted, np.minimum(1.0, probs / np.where(drafted, draft, 1.0)), 1.0)
