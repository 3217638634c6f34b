"""Exact values for the simulators on small chains, and deviations from them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from specviz.theory.chains import Chains
from specviz.theory.simulation import Estimate, Simulated
from specviz.theory.tradeoff import distribution_pair


def deviation(measured: Estimate, exact: float) -> float:
    """Return the deviation in standard errors."""
    return abs(measured.mean - exact) / measured.standard_error


def worst_deviation(measured: Simulated, chains: Chains) -> float:
    """Return the greatest |z| of the pairs of adjacent tokens against the target's."""
    reached, worst = chains.start, 0.0
    for step, kernel in enumerate(chains.target_kernels):
        chance = reached[:, None] * kernel
        spread = np.sqrt(measured.texts * chance * (1 - chance))
        off = np.abs(measured.transitions[step] - measured.texts * chance)
        worst = max(worst, float(np.max(np.where(spread > 0, off / np.maximum(spread, 1), off))))
        reached = reached @ kernel
    return worst


def block_rejections(chains: Chains) -> float:
    """Return expected rejections of a text under block verification, over every block.

    A block has as many candidates as the text has tokens left. Of the texts whose block begins with
    some candidates, the share p_i accepts them all (Sun et al. 2024); the share that does not
    accept the next one too ends there.
    """

    def kernels_at(step: int, before: int) -> tuple[np.ndarray, np.ndarray]:
        return chains.draft_kernels[step, before], chains.target_kernels[step, before]

    @cache
    def from_here(step: int, before: int) -> float:
        return inside(step, 1.0, 1.0, before)

    def after(step: int, probs: np.ndarray) -> float:
        return sum(float(probs[y]) * from_here(step + 1, y) for y in range(chains.size))

    def inside(step: int, chance: float, weight: float, before: int) -> float:
        if step == chains.horizon:
            return 0.0
        draft, target = kernels_at(step, before)
        weights = np.minimum(1.0, weight * target / draft)
        ends = chance * (weight - float(draft @ weights))
        left = np.maximum(weight * target - draft, 0.0)
        value = ends * (1.0 + after(step, left / left.sum())) if ends > 1e-14 else 0.0
        return value + sum(
            inside(step + 1, chance * float(draft[y]), float(weights[y]), y)
            for y in range(chains.size)
        )

    return float(sum(chains.start[x] * from_here(0, x) for x in range(chains.size)))


def expected_rounds(odds: Sequence[float] | np.ndarray, gamma: int) -> float:
    """Return the exact expected number of rounds that emit a known text.

    ``odds`` holds min(1, draft / target) at every emitted token: given the text, the probability
    that this token was an accepted candidate, independent from token to token. A round ends at the
    first token that was not; after gamma acceptances the next token is the bonus, which is
    untested. Averaged over texts of the target, the result is the exact expected number of rounds
    (derived here, checked by enumeration; odds need not be equal).
    """
    chances = np.asarray(odds, dtype=np.float64)
    length = len(chances)
    rounds = [0.0] * (length + 1)  # rounds[i]: rounds left after i tokens
    values: list[float] = chances.tolist()
    for start in reversed(range(length)):
        left = rounds[min(start + gamma + 1, length)]
        for place in reversed(range(start, min(start + gamma, length))):
            left = values[place] * left + (1.0 - values[place]) * rounds[place + 1]
        rounds[start] = 1.0 + left
    return rounds[0]


def draft_chances(
    draft: Sequence[float] | np.ndarray, target: Sequence[float] | np.ndarray, num_drafts: int
) -> np.ndarray:
    """Return r_1 ... r_M: P(the m-th draft is rejected, given that the earlier ones were).

    r_m is the distance of the m-th residual from the draft (Yin et al. 2024, theorem 3). Once
    the residual is empty the rest are 0.
    """
    probs, mass = distribution_pair(draft, target)
    chances = np.zeros(num_drafts)
    for place in range(num_drafts):
        left = np.maximum(mass - mass.sum() * probs, 0.0)
        if (total := float(mass.sum())) <= 0.0:
            break
        chances[place], mass = left.sum() / total, left
    return chances
