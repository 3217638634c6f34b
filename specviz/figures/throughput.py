"""Tokens a second over gamma, from step costs and an acceptance that is not this run's.

The *ideal* curve is the textbook's: candidates accepted alike and independently, and a
verification that costs one step of the target. The *forecast* knows the measured price of a
verification, and acceptance along other texts where that was measured. Where it was not, it
assumes that law with a given acceptance, and is then an extrapolation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.record.trace import StepCosts
from specviz.theory.speed import speedup

GAMMAS = tuple(range(1, 17))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is expected on one prompt from other texts of its kind, by gamma.

    Without step costs there are no speedups.
    """

    gammas: tuple[int, ...]
    speedups: tuple[float, ...]
    taus: tuple[float, ...]
    kind: str
    num_texts: int

    @property
    def alpha(self) -> float:
        """At gamma 1 a round gives 1 + alpha tokens."""
        return min(1.0, self.taus[0] - 1.0)

    def tau(self, gamma: int) -> float | None:
        return dict(zip(self.gammas, self.taus, strict=True)).get(gamma)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputCurves:
    """Tokens a second at each of ``gammas``; ``target`` is the target alone."""

    gammas: tuple[int, ...]
    ideal: tuple[float, ...]
    forecast: tuple[float, ...]
    extrapolated: bool
    target: float


def predicted_curves(
    costs: StepCosts, context: float, speedups: Sequence[float], alpha: float
) -> ThroughputCurves:
    """From speedups foretold for gamma 1, 2, ..., and the acceptance on those other texts."""
    gammas = tuple(range(1, len(speedups) + 1))
    step = costs.target_step(context)
    return ThroughputCurves(
        gammas=gammas,
        ideal=tuple(_ideal(costs, context, alpha, gamma) / step for gamma in gammas),
        forecast=tuple(each / step for each in speedups),
        extrapolated=False,
        target=1.0 / step,
    )


def extrapolated_curves(costs: StepCosts, context: float, alpha: float) -> ThroughputCurves:
    """As if every candidate were accepted with chance ``alpha``, whatever its place."""
    step = costs.target_step(context)

    def with_costs(gamma: int) -> float:
        c = _draft_cost(costs, context, gamma)
        return speedup(alpha, gamma, c, costs.verify(context, gamma + 1) / step)

    return ThroughputCurves(
        gammas=GAMMAS,
        ideal=tuple(_ideal(costs, context, alpha, gamma) / step for gamma in GAMMAS),
        forecast=tuple(with_costs(gamma) / step for gamma in GAMMAS),
        extrapolated=True,
        target=1.0 / step,
    )


def _ideal(costs: StepCosts, context: float, alpha: float, gamma: int) -> float:
    return speedup(alpha, gamma, _draft_cost(costs, context, gamma))


def _draft_cost(costs: StepCosts, context: float, gamma: int) -> float:
    """A draft step in target steps; 0 if the drafter is no model."""
    if not costs.draft:
        return 0.0
    return costs.draft_phase(context, gamma) / gamma / costs.target_step(context)
