"""Exact expected rejections on Markov chains, with one draft or several.

Every round drafts to the end of the text, so only a rejection ends a round early. The number of
rejections then measures the number of target passes (Yin et al. 2024). Acceptance probabilities may
differ by position and need not be independent.

``num_drafts`` (M) is a whole number of at least 1, or ``math.inf``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from specviz.errors import TheoryError
from specviz.theory.chains import Chains, Floats
from specviz.theory.tradeoff import Chances, distribution_pair, total_variation

_SAME = 1e-12


def total_rejections(chains: Chains, num_drafts: float = 1) -> float:
    """Return the expected rejections in a text.

    Yin et al. 2024: theorem 1 for one draft, theorem 3 for several, proposition 1 for ``math.inf``.
    """
    return float(rejections_by_step(chains, num_drafts).sum())


def rejections_by_step(chains: Chains, num_drafts: float = 1) -> Floats:
    """Return the probability of a rejection at each token of a text, ``[horizon]``.

    Theorems 1 and 3 of Yin et al. 2024 sum these terms.
    """
    return _by_step(chains, [num_drafts])[0]


def scaling(chains: Chains, nums_drafts: Sequence[float]) -> Floats:
    """Return `total_rejections` for many numbers of drafts at once: Yin et al. 2024, theorem 3."""
    return _by_step(chains, nums_drafts).sum(axis=1)


def lower_bound(chains: Chains) -> float:
    """Return the fewest rejections to expect if a lossless algorithm verifies token by token.

    Theorem 2 of Yin et al. 2024. Such algorithms (class F there) have one draft, and the verdict
    on a token depends on this token and earlier ones, not on later ones. Algorithms with several
    drafts or block verification (Sun et al. 2024) are outside F and can have fewer rejections.
    """
    return total_rejections(chains, 1)


def batch_floor(expected_single: float) -> float:
    """Return a lower bound of expected rejections for any number of drafts (derived here).

    Several drafts are tried only for the first token of a round, so they can avoid only about half
    of the rejections. The bound is (E - 1) / 2, where E = ``expected_single`` is the expected
    number with one draft.
    """
    return max(0.0, (expected_single - 1.0) / 2.0)


def batch_improvement(draft: Chances, target: Chances, num_drafts: float) -> float:
    """Return by how much several drafts lower the rejection probability at one position.

    This is P(one draft is rejected) - P(all M drafts are rejected), with M = ``num_drafts``:
    r_1 - r_1 ... r_M, where r_m is the total variation between the draft and the residual after
    m - 1 rejections. See Yin et al. 2024, section 3.2; theorem 3 has this difference in brackets.
    """
    draft_probs, target_probs = distribution_pair(draft, target)
    unplaced = _unplaced(draft_probs[None], target_probs[None], [num_drafts])
    return max(0.0, total_variation(draft_probs, target_probs) - float(unplaced.sum()))


def bernoulli_improvement(draft_chance: float, target_chance: float, num_drafts: float) -> float:
    """Return `batch_improvement` for two-token distributions: Yin et al. 2024, section 3.2.

    u is the draft's and v the target's probability of the first token. The paper gives
    |u - v| (1 - u**(M - 1)) for u >= v; for u < v, 1 - u replaces u.
    """
    for chance in (draft_chance, target_chance):
        if not 0.0 <= chance <= 1.0:
            raise TheoryError(f"A probability is {chance:g}.", remedy="Choose one from 0 to 1.")
    _check_num(num_drafts)
    common = draft_chance if draft_chance >= target_chance else 1.0 - draft_chance
    return abs(draft_chance - target_chance) * (1.0 - common ** (num_drafts - 1))


def uniform_improvement(ratio: float, num_drafts: float) -> float:
    """Return `batch_improvement` for two uniform distributions: Yin et al. 2024, section 3.2.

    The draft has ``ratio`` times as many tokens as the target, including all tokens of the target.
    """
    if not (math.isfinite(ratio) and ratio >= 1.0):
        raise TheoryError(
            f"The ratio of the vocabularies is {ratio:g}.", remedy="Choose 1 or more."
        )
    _check_num(num_drafts)
    outside = 1.0 - 1.0 / ratio
    return outside - outside**num_drafts


def _by_step(chains: Chains, nums_drafts: Sequence[float]) -> Floats:
    """Return rejection probabilities ``[len(nums_drafts), horizon]`` by Yin et al. 2024, eq. 22.

    ``reached`` is the target's distribution of the previous token. ``rejected`` is the part of
    ``reached`` in which the previous token was recovered after a rejection, so that a new round
    begins. Initially, ``rejected`` equals ``reached``, because a round begins at the first token.
    The paper does not give this initial value.
    """
    residual = np.maximum(chains.target_kernels - chains.draft_kernels, 0.0)
    unplaced = _unplaced(chains.draft_kernels, chains.target_kernels, nums_drafts)
    distance, all_rejected = residual.sum(axis=-1), unplaced.sum(axis=-1)
    reached = chains.start
    rejected = np.tile(chains.start, (len(nums_drafts), 1))
    chances = np.empty((len(nums_drafts), chains.horizon))
    for step in range(chains.horizon):
        saved = (rejected * (distance[step] - all_rejected[:, step])).sum(axis=-1)
        chances[:, step] = reached @ distance[step] - saved
        inside = (reached - rejected) @ residual[step]
        rejected = inside + np.einsum("mx,mxy->my", rejected, unplaced[:, step])
        reached = reached @ chains.target_kernels[step]
    return chances


def _unplaced(draft: Floats, target: Floats, nums_drafts: Sequence[float]) -> Floats:
    """Return the residual after M rejected drafts, ``[len(nums_drafts), ..., size]``.

    The residual is not normalised: its values, here called mass, sum to r_1 ... r_M, the
    probability that all M drafts are rejected. Normalised, it is the distribution of the recovered
    token. Each draft lowers a token's mass by ``total * draft``, but not below 0; ``total`` is the
    sum of all masses before this draft. Until another token's mass reaches 0, the mass after k
    drafts has a closed form, so the loop jumps over these drafts at once. The draft at which a
    token's mass reaches 0 is a separate step. There are at most one jump and one such step per
    token, however large M is.
    """
    for num in nums_drafts:
        _check_num(num)
    shape = (len(nums_drafts), *target.shape)
    mass = np.broadcast_to(target, shape).copy()
    left = np.broadcast_to(
        np.asarray(nums_drafts, np.float64).reshape(-1, *[1] * target.ndim), (*shape[:-1], 1)
    )
    for _ in range(2 * target.shape[-1] + 2):
        jump = np.minimum(_steps_before_one_runs_out(mass, draft), left)
        mass = _after(mass, draft, jump)
        left = np.where(jump >= left, 0.0, left - np.where(jump >= left, 0.0, jump))
        step = np.minimum(left, 1.0)
        mass = np.maximum(mass - step * mass.sum(axis=-1, keepdims=True) * draft, 0.0)
        left = left - step
        if not np.any(left > 0.0):
            return mass
    raise AssertionError("more steps than tokens")


def _steps_before_one_runs_out(mass: Floats, draft: Floats) -> Floats:
    total = mass.sum(axis=-1, keepdims=True)
    alive = mass > 0.0
    share = (draft * alive).sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        worth = np.where(alive & (draft > 0.0), mass / (total * draft), np.inf)
        spent = worth.min(axis=-1, keepdims=True) * share
        # If the mass is proportional to the draft up to rounding, no token runs out before others.
        spent = np.where(spent > 1.0 - _SAME, 1.0, spent)
        steps = np.floor(np.log1p(-spent) / np.log1p(-share))
    # Share 0: the draft never draws a remaining token. Share 1: one step empties the mass.
    return np.where(share <= 0.0, np.inf, np.where(share >= 1.0, 0.0, steps))


def _after(mass: Floats, draft: Floats, steps: Floats) -> Floats:
    """Return each token's mass (see `_unplaced`) after ``steps`` more drafts.

    No token's mass may reach 0 before the last of these drafts.
    """
    total = mass.sum(axis=-1, keepdims=True)
    share = (draft * (mass > 0.0)).sum(axis=-1, keepdims=True)
    moves = (steps > 0.0) & (share > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gone = np.where(moves, -np.expm1(steps * np.log1p(-np.minimum(share, 1.0))), 0.0)
    return np.maximum(mass - total * gone * (draft / np.where(moves, share, 1.0)), 0.0)


def _check_num(num_drafts: float) -> None:
    if num_drafts < 1 or not (num_drafts == math.inf or float(num_drafts).is_integer()):
        raise TheoryError(
            f"The number of drafts is {num_drafts:g}.",
            remedy="Choose a whole number of at least 1.",
        )
