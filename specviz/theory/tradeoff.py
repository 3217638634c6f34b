"""The probability of a rejection and the bias of the emitted token, at one position.

A rule is a vector ``accept``: the probability that each token is accepted if drafted. After a
rejection a token is drawn from the distribution ``recover``. Unless a docstring says otherwise, the
formulas are from theorems 4 and 5 of Yin et al. 2024 (p: draft, q: target). A distribution is a
vector of probabilities that sums to 1; TV is total variation, half the sum of absolute differences.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specviz.errors import TheoryError
from specviz.theory.counts import Counts
from specviz.values import Value

Distribution = NDArray[np.float64]
Chances = Sequence[float] | NDArray[np.float64]

_SUM_SLACK = 1e-6  # for probabilities printed to a few digits, or from float32
_ZERO = 1e-15  # rounding error of an empty residual


class Areas(Value, eq=False):
    """Parts of the draft and target distributions under a rule, one value per token.

    ``overlap`` is min(draft, target). ``accepted`` and ``rejected`` add up to the draft.
    ``residual`` is max(0, target - draft), not normalised.
    """

    overlap: Distribution
    accepted: Distribution
    rejected: Distribution
    residual: Distribution


class Optimum(Value, eq=False):
    """The least bias that a rule allows, and a recovery distribution that attains it.

    Yin et al. 2024, theorem 4.
    """

    recover: Distribution  # the positive part of theorem 4's A, normalised
    bias: float


class Tally(Counts, eq=False):
    """Simulated positions: trials, rejections, and how often each token was emitted."""

    trials: int
    rejected: int
    emitted: NDArray[np.int64]


def as_distribution(chances: Chances, name: str) -> Distribution:
    """Return the probabilities divided by their sum, which may differ from 1 by rounding.

    Raises:
        TheoryError: ``chances`` is not a vector, has a negative or non-finite value, or does not
            sum to 1.
    """
    made = np.asarray(chances, dtype=np.float64)
    if made.ndim != 1 or made.size == 0:
        raise TheoryError(
            f"The {name} is not a list of probabilities.", remedy="Give a number per token."
        )
    if not bool(np.all(np.isfinite(made) & (made >= 0.0))):
        raise TheoryError(
            f"The {name} contains a negative or non-finite probability.",
            remedy="Give values from 0 to 1.",
        )
    total = float(made.sum())
    if abs(total - 1.0) > _SUM_SLACK:
        raise TheoryError(
            f"The {name} sums to {total:.6g}.", remedy="Divide its probabilities by their sum."
        )
    return made / total


def distribution_pair(draft: Chances, target: Chances) -> tuple[Distribution, Distribution]:
    """Return draft and target as distributions over the same tokens (p and q of Yin et al.)."""
    made = as_distribution(draft, "draft"), as_distribution(target, "target")
    if made[0].size != made[1].size:
        raise TheoryError(
            f"The draft has {made[0].size} tokens, the target {made[1].size}.",
            remedy="Use the same vocabulary for both.",
        )
    return made


def total_variation(one: Chances, other: Chances) -> float:
    """Return the total variation of two distributions.

    For draft and target, it is P(reject) of Yin et al. 2024 and D_LK of Leviathan et al. 2023,
    definition 3.2.
    """
    first, second = distribution_pair(one, other)
    return 0.5 * float(np.abs(first - second).sum())


def residual_distribution(draft: Chances, target: Chances) -> Distribution:
    """Return max(0, target - draft), normalised, or the target if the difference is zero."""
    draft_probs, target_probs = distribution_pair(draft, target)
    rest = np.maximum(target_probs - draft_probs, 0.0)
    total = float(rest.sum())
    return rest / total if total > _ZERO else target_probs


def lossless(draft: Chances, target: Chances) -> Distribution:
    """Return the acceptance probabilities of the lossless rule, min(1, target / draft).

    Leviathan et al. 2023 and Chen et al. 2023.
    """
    return over_accept(draft, target, 0.0)


def over_accept(draft: Chances, target: Chances, epsilon: float) -> Distribution:
    """Return the acceptance probabilities of a rule that accepts too often.

    They are min(1, (target + epsilon) / draft): Yin et al. 2024, section 4.2.
    """
    if not epsilon >= 0.0:
        raise TheoryError(f"ε is {epsilon}.", remedy="Give 0 or more.")
    draft_probs, target_probs = distribution_pair(draft, target)
    return _quotient(target_probs + epsilon, draft_probs)


def lenient(draft: Chances, target: Chances, lenience: float) -> Distribution:
    """Return the acceptance probabilities of the lenient rule, min(1, target / (lenience * draft)).

    Leviathan et al. 2023, appendix A.5.
    """
    if not 0.0 < lenience <= 1.0:
        raise TheoryError(f"The lenience is {lenience}.", remedy="Give a value in (0, 1].")
    draft_probs, target_probs = distribution_pair(draft, target)
    return _quotient(target_probs / lenience, draft_probs)


def hard_threshold(draft: Chances, target: Chances, threshold: float) -> Distribution:
    """Return 1 (accept) for tokens with target probability of at least ``threshold``, else 0."""
    if not 0.0 <= threshold <= 1.0:
        raise TheoryError(f"The threshold is {threshold}.", remedy="Give a value from 0 to 1.")
    _, target_probs = distribution_pair(draft, target)
    return (target_probs >= threshold).astype(np.float64)


def output_distribution(
    draft: Chances, target: Chances, accept: Chances, recover: Chances
) -> Distribution:
    """Return the distribution of the emitted token: accept * draft + P(reject) * recover."""
    draft_probs, _ = distribution_pair(draft, target)
    kept = _accept(accept, draft_probs.size) * draft_probs
    after = as_distribution(recover, "recovery distribution")
    return kept + max(0.0, 1.0 - float(kept.sum())) * after


def reject_chance(draft: Chances, accept: Chances) -> float:
    """Return P(reject) = 1 - sum accept * draft; for the lossless rule, TV(draft, target)."""
    draft_probs = as_distribution(draft, "draft")
    return max(0.0, 1.0 - float(_accept(accept, draft_probs.size) @ draft_probs))


def rejection_and_bias(
    draft: Chances, target: Chances, accept: Chances, recover: Chances | None = None
) -> tuple[float, float]:
    """Return P(reject), and the TV between the emitted distribution and the target's.

    Without ``recover``, the bias is the least that ``accept`` allows (theorem 4).
    """
    rejected = reject_chance(draft, accept)
    if recover is None:
        return rejected, optimum(draft, target, accept).bias
    return rejected, total_variation(output_distribution(draft, target, accept, recover), target)


def optimum(draft: Chances, target: Chances, accept: Chances) -> Optimum:
    """Return the least bias that the rule ``accept`` allows, and what attains it (theorem 4).

    The least bias is (sum |target - accept * draft| - P(reject)) / 2. The recovery distribution
    that attains it follows from A = (target - accept * draft) / P(reject).
    """
    draft_probs, target_probs = distribution_pair(draft, target)
    missing = target_probs - _accept(accept, draft_probs.size) * draft_probs
    rejected = reject_chance(draft_probs, accept)
    bias = max(0.0, 0.5 * float(np.abs(missing).sum()) - 0.5 * rejected)
    if rejected <= _ZERO:
        return Optimum(recover=target_probs, bias=bias)
    share = np.maximum(missing, 0.0)
    return Optimum(recover=share / share.sum(), bias=bias)


def areas(draft: Chances, target: Chances, accept: Chances | None = None) -> Areas:
    """Return the `Areas` of both distributions under a rule.

    ``accept`` defaults to the lossless rule.
    """
    draft_probs, target_probs = distribution_pair(draft, target)
    chance = (
        lossless(draft_probs, target_probs) if accept is None else _accept(accept, draft_probs.size)
    )
    return Areas(
        overlap=np.minimum(draft_probs, target_probs),
        accepted=chance * draft_probs,
        rejected=(1.0 - chance) * draft_probs,
        residual=np.maximum(target_probs - draft_probs, 0.0),
    )


def simulate(
    draft: Chances,
    target: Chances,
    accept: Chances,
    recover: Chances,
    *,
    trials: int,
    rng: np.random.Generator,
) -> Tally:
    """Simulate ``trials`` positions and return the counts.

    At each position a token is drawn from the draft and tested; after a rejection, a token is drawn
    from ``recover``.
    """
    draft_probs, _ = distribution_pair(draft, target)
    chance = _accept(accept, draft_probs.size)
    tokens = _draws(draft_probs, trials, rng)
    failed = rng.random(trials) >= chance[tokens]
    rejected = int(failed.sum())
    tokens[failed] = _draws(as_distribution(recover, "recovery distribution"), rejected, rng)
    emitted = np.bincount(tokens, minlength=draft_probs.size).astype(np.int64)
    return Tally(trials=trials, rejected=rejected, emitted=emitted)


def estimate(tally: Tally, target: Chances, exact: Chances) -> tuple[float, float, float, float]:
    """Return the simulated P(reject) and bias, each followed by its 95 % half-width.

    The bias is computed for the tokens whose probability is higher in ``exact``, the exact output
    distribution, than under the target: their simulated share minus their probability under the
    target. If the simulated shares chose the tokens, the estimate of the bias would be too high on
    average.
    """
    target_probs = as_distribution(target, "target")
    often = as_distribution(exact, "output distribution") > target_probs
    rejected = tally.rejected / tally.trials
    share = float(tally.emitted[often].sum()) / tally.trials
    widths = [1.96 * (each * (1.0 - each) / tally.trials) ** 0.5 for each in (rejected, share)]
    return rejected, widths[0], share - float(target_probs[often].sum()), widths[1]


def _draws(chances: Distribution, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    edges = np.cumsum(chances)
    edges[np.flatnonzero(chances)[-1] :] = np.inf  # rounding must not index past the last token
    return np.searchsorted(edges, rng.random(count), side="right").astype(np.int64)


def _quotient(above: Distribution, below: Distribution) -> Distribution:
    """Return min(1, above / below) for each token; 1 where ``below`` is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(below > 0.0, above / np.where(below > 0.0, below, 1.0), 1.0)
    return np.minimum(1.0, ratio)


def _accept(accept: Chances, size: int) -> Distribution:
    made = np.asarray(accept, dtype=np.float64)
    if made.shape != (size,) or not bool(np.all((made >= 0.0) & (made <= 1.0))):
        raise TheoryError(
            "The rule is not a list of probabilities.",
            remedy="Give a number from 0 to 1 per token.",
        )
    return made
