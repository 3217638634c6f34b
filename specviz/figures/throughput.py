"""Tokens per second as a function of γ, from step costs and the acceptance on other texts.

The *ideal* curve follows the textbook formula: candidates are accepted independently with the same
probability, and a verification costs one target step. The *forecast* uses the measured cost of a
verification and, if it was measured, the acceptance along other texts. Without measured acceptance,
the forecast is an extrapolation: it assumes independent acceptance with a given probability.
"""

from __future__ import annotations

from collections.abc import Sequence

from specviz.figures.step_times import covers_gamma, step_times
from specviz.record.trace import StepCosts
from specviz.theory.speed import speedup
from specviz.values import Value

GAMMAS = tuple(range(1, 17))


class Outlook(Value):
    """The predicted speedup and τ of a prompt at each gamma.

    The predictions come from other texts of the prompt's kind. ``speedups`` is empty without step
    costs.
    """

    gammas: tuple[int, ...]
    speedups: tuple[float, ...]
    taus: tuple[float, ...]
    kind: str
    num_texts: int

    @property
    def alpha(self) -> float:
        """The acceptance rate at gamma 1, where a round gives 1 + alpha tokens."""
        return min(1.0, self.taus[0] - 1.0)

    def tau(self, gamma: int) -> float | None:
        return dict(zip(self.gammas, self.taus, strict=True)).get(gamma)


class ThroughputCurves(Value):
    """Tokens per second at each of ``gammas``, and with the target alone (``target``)."""

    gammas: tuple[int, ...]
    ideal: tuple[float, ...]
    forecast: tuple[float, ...]
    extrapolated: bool
    target: float


def predicted_curves(
    costs: StepCosts, context: float, speedups: Sequence[float], alpha: float
) -> ThroughputCurves:
    """Return the forecast and the ideal curve for γ = 1, 2, ..., ``len(speedups)``.

    The forecast curve comes from ``speedups``, the ideal curve from ``alpha``.
    """
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
    """Return curves for candidates accepted independently with probability ``alpha``."""
    step = costs.target_step(context)

    def with_costs(gamma: int) -> float:
        c = _draft_cost(costs, context, gamma)
        round_seconds = costs.verify(context, gamma + 1) + costs.overhead_of(gamma)
        return speedup(alpha, gamma, c, round_seconds / step)

    gammas = tuple(gamma for gamma in GAMMAS if covers_gamma(costs, gamma))
    return ThroughputCurves(
        gammas=gammas,
        ideal=tuple(_ideal(costs, context, alpha, gamma) / step for gamma in gammas),
        forecast=tuple(with_costs(gamma) / step for gamma in gammas),
        extrapolated=True,
        target=1.0 / step,
    )


def _ideal(costs: StepCosts, context: float, alpha: float, gamma: int) -> float:
    return speedup(alpha, gamma, _draft_cost(costs, context, gamma))


def _draft_cost(costs: StepCosts, context: float, gamma: int) -> float:
    """Return the cost of a draft step in target steps; 0 if no model drafts."""
    return step_times(costs, context, gamma, drafts=bool(costs.draft)).c or 0.0
