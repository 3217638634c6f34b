"""One position: the chance of a rejection against the bias of what is emitted.

A rule is a vector ``accept``: the chance that each token, once drafted, is accepted. After a
rejection a token is drawn from the law ``recover``. Results are those of Yin et al. 2024,
theorems 4 and 5 (there p is the draft, q the target), unless a docstring says otherwise. A law
is a vector of chances that sums to 1; TV is half the sum of absolute differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specviz.errors import TheoryError

Law = NDArray[np.float64]
Chances = Sequence[float] | NDArray[np.float64]

SUM_SLACK = 1e-6  # chances printed to a few digits, or from float32
_ZERO = 1e-15  # what rounding leaves where nothing is left


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Areas:
    """What becomes of each token's chance. Rejected is the draft's; residual is the target's."""

    overlap: Law
    accepted: Law
    rejected: Law
    residual: Law


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optimum:
    """The least bias that a rule can have, and who attains it (theorem 4)."""

    wanted: Law | None  # A; None where nothing is ever rejected
    recover: Law  # the member that is A's positive part, normalised
    bias: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tally:
    """Counts of simulated positions."""

    trials: int
    rejected: int
    emitted: NDArray[np.int64]

    def joined(self, other: Tally) -> Tally:
        return Tally(
            trials=self.trials + other.trials,
            rejected=self.rejected + other.rejected,
            emitted=self.emitted + other.emitted,
        )


def law(chances: Chances, name: str) -> Law:
    """The chances as a law; small errors of rounding are divided out."""
    made = np.asarray(chances, dtype=np.float64)
    if made.ndim != 1 or made.size == 0:
        raise TheoryError(f"The {name} is no list of chances.", remedy="Give one for each token.")
    if not bool(np.all(np.isfinite(made) & (made >= 0.0))):
        raise TheoryError(
            f"The {name} holds a chance below 0 or none.", remedy="Give numbers from 0 to 1."
        )
    total = float(made.sum())
    if abs(total - 1.0) > SUM_SLACK:
        raise TheoryError(
            f"The {name} sums to {total:.6g}.", remedy="Divide its chances by their sum."
        )
    return made / total


def distribution_pair(draft: Chances, target: Chances) -> tuple[Law, Law]:
    """Both as laws over the same tokens, p and q of Yin et al. 2024."""
    made = law(draft, "draft"), law(target, "target")
    if made[0].size != made[1].size:
        raise TheoryError(
            f"The draft has {made[0].size} tokens, the target {made[1].size}.",
            remedy="Give both a chance for each token.",
        )
    return made


def total_variation(one: Chances, other: Chances) -> float:
    """TV: half the sum of absolute differences; of draft and target, Yin et al. 2024's rejections.

    The same as D_LK of Leviathan et al. 2023, definition 3.2.
    """
    first, second = distribution_pair(one, other)
    return 0.5 * float(np.abs(first - second).sum())


def leftover(draft: Chances, target: Chances) -> Law:
    """max(0, target - draft), normalised; the target itself where that is zero."""
    drafted, wanted = distribution_pair(draft, target)
    rest = np.maximum(wanted - drafted, 0.0)
    total = float(rest.sum())
    return rest / total if total > _ZERO else wanted


def lossless(draft: Chances, target: Chances) -> Law:
    """min(1, target / draft): the rule of Leviathan et al. 2023 and Chen et al. 2023."""
    return over_accept(draft, target, 0.0)


def over_accept(draft: Chances, target: Chances, epsilon: float) -> Law:
    """min(1, (target + epsilon) / draft), Yin et al. 2024, section 4.2."""
    if not epsilon >= 0.0:
        raise TheoryError(f"ε is {epsilon}.", remedy="Give 0 or more.")
    drafted, wanted = distribution_pair(draft, target)
    return _quotient(wanted + epsilon, drafted)


def lenient(draft: Chances, target: Chances, lenience: float) -> Law:
    """min(1, target / (lenience * draft)): Leviathan et al. 2023, appendix A.5."""
    if not 0.0 < lenience <= 1.0:
        raise TheoryError(f"The lenience is {lenience}.", remedy="Give one above 0, at most 1.")
    drafted, wanted = distribution_pair(draft, target)
    return _quotient(wanted / lenience, drafted)


def hard_threshold(draft: Chances, target: Chances, threshold: float) -> Law:
    """Accept exactly where the target gives a token at least ``threshold``."""
    if not 0.0 <= threshold <= 1.0:
        raise TheoryError(f"The threshold is {threshold}.", remedy="Give one from 0 to 1.")
    _, wanted = distribution_pair(draft, target)
    return (wanted >= threshold).astype(np.float64)


def typical(draft: Chances, target: Chances, epsilon: float, delta: float | None = None) -> Law:
    """Accept exactly where the target gives a token more than min(epsilon, delta exp(-entropy)).

    Typical acceptance of Medusa (Cai et al. 2024), whose ``delta`` is the root of epsilon.
    """
    if not epsilon >= 0.0:
        raise TheoryError(f"ε is {epsilon}.", remedy="Give 0 or more.")
    _, wanted = distribution_pair(draft, target)
    some = wanted[wanted > 0.0]
    typicality = float(np.exp((some * np.log(some)).sum()))
    least = min(epsilon, (epsilon**0.5 if delta is None else delta) * typicality)
    return (wanted > least).astype(np.float64)


def output_distribution(draft: Chances, target: Chances, accept: Chances, recover: Chances) -> Law:
    """What one position emits: accept * draft + P(reject) * recover."""
    drafted, _ = distribution_pair(draft, target)
    kept = _accept(accept, drafted.size) * drafted
    after = law(recover, "law after a rejection")
    return kept + max(0.0, 1.0 - float(kept.sum())) * after


def reject_chance(draft: Chances, accept: Chances) -> float:
    """P(reject) = 1 - sum of accept * draft; TV for the lossless rule (Yin et al. 2024)."""
    drafted = law(draft, "draft")
    return max(0.0, 1.0 - float(_accept(accept, drafted.size) @ drafted))


def rejection_and_bias(
    draft: Chances, target: Chances, accept: Chances, recover: Chances | None = None
) -> tuple[float, float]:
    """P(reject), and the TV of what is emitted from the target.

    Without ``recover``, the bias is the least that this rule allows (theorem 4).
    """
    rejected = reject_chance(draft, accept)
    if recover is None:
        return rejected, optimum(draft, target, accept).bias
    return rejected, total_variation(output_distribution(draft, target, accept, recover), target)


def optimum(draft: Chances, target: Chances, accept: Chances) -> Optimum:
    """Theorem 4: A = (target - accept * draft) / P(reject), and the bias that is left.

    The bias is half of sum |target - accept * draft|, less half of P(reject).
    """
    drafted, wanted = distribution_pair(draft, target)
    missing = wanted - _accept(accept, drafted.size) * drafted
    rejected = reject_chance(drafted, accept)
    bias = max(0.0, 0.5 * float(np.abs(missing).sum()) - 0.5 * rejected)
    if rejected <= _ZERO:
        return Optimum(wanted=None, recover=wanted, bias=bias)
    share = np.maximum(missing, 0.0)
    return Optimum(wanted=missing / rejected, recover=share / share.sum(), bias=bias)


def is_optimal(
    draft: Chances, target: Chances, accept: Chances, recover: Chances, slack: float = 1e-9
) -> bool:
    """Theorem 4's set: zero where A is negative, at most A elsewhere."""
    wanted = optimum(draft, target, accept).wanted
    after = law(recover, "law after a rejection")
    return wanted is None or bool(np.all(after <= np.maximum(wanted, 0.0) + slack))


def front_bias(draft: Chances, target: Chances, reject: float) -> float:
    """Theorem 5: the least bias at this chance of a rejection, max(0, TV - reject).

    The front is a straight line, from plain speculative sampling (TV, 0) to the draft alone
    (0, TV). A rule lies on it exactly if min(1, target / draft) <= accept wherever drafted.
    """
    return max(0.0, total_variation(draft, target) - reject)


def areas(draft: Chances, target: Chances, accept: Chances | None = None) -> Areas:
    """Each token's overlap, and what a rule accepts and rejects; lossless without one."""
    drafted, wanted = distribution_pair(draft, target)
    chance = lossless(drafted, wanted) if accept is None else _accept(accept, drafted.size)
    return Areas(
        overlap=np.minimum(drafted, wanted),
        accepted=chance * drafted,
        rejected=(1.0 - chance) * drafted,
        residual=np.maximum(wanted - drafted, 0.0),
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
    """Draw, toss, and draw again after a rejection, ``trials`` times."""
    drafted, _ = distribution_pair(draft, target)
    chance = _accept(accept, drafted.size)
    tokens = _draws(drafted, trials, rng)
    failed = rng.random(trials) >= chance[tokens]
    rejected = int(failed.sum())
    tokens[failed] = _draws(law(recover, "law after a rejection"), rejected, rng)
    emitted = np.bincount(tokens, minlength=drafted.size).astype(np.int64)
    return Tally(trials=trials, rejected=rejected, emitted=emitted)


def estimate(tally: Tally, target: Chances, exact: Chances) -> tuple[float, float, float, float]:
    """P(reject) and the bias of a simulation, each followed by half its 95 % interval.

    TV is the excess over the target on the set of tokens that come too often. That set is taken
    from the exact output law, since the simulated one's own would make every bias too great.
    """
    wanted = law(target, "target")
    often = law(exact, "output law") > wanted
    rejected = tally.rejected / tally.trials
    share = float(tally.emitted[often].sum()) / tally.trials
    widths = [1.96 * (each * (1.0 - each) / tally.trials) ** 0.5 for each in (rejected, share)]
    return rejected, widths[0], share - float(wanted[often].sum()), widths[1]


def _draws(chances: Law, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    edges = np.cumsum(chances)
    edges[np.flatnonzero(chances)[-1] :] = np.inf  # rounding must not fall past the last token
    return np.searchsorted(edges, rng.random(count), side="right").astype(np.int64)


def _quotient(above: Law, below: Law) -> Law:
    """min(1, above / below); 1 where the token is never drafted."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(below > 0.0, above / np.where(below > 0.0, below, 1.0), 1.0)
    return np.minimum(1.0, ratio)


def _accept(accept: Chances, size: int) -> Law:
    made = np.asarray(accept, dtype=np.float64)
    if made.shape != (size,) or not bool(np.all((made >= 0.0) & (made <= 1.0))):
        raise TheoryError(
            "The rule is no list of chances.", remedy="Give one from 0 to 1 for each token."
        )
    return made
