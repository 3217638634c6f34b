"""The cost of a round in target steps, and the tokens that it emits.

The target alone needs one step per token, so the speedup is tokens / cost. If the speedup was
measured, the cost is tokens / speedup, divided into phases in proportion to the run's times.
Otherwise the cost comes from the step costs.

The round is also predicted for the settings of the next run. The prediction for another γ comes
from the throughput forecast. The prediction for another simulated size comes from the expected time
of a step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from specviz.figures.metrics import Metrics
from specviz.figures.speedup_words import is_too_wide
from specviz.figures.step_times import step_times
from specviz.figures.throughput import ThroughputCurves
from specviz.record.trace import Trace
from specviz.values import Value

Source = Literal["measured", "step costs", "predicted"]


class RoundCost(Value):
    """The cost of each phase of a round in target steps, and the round's tokens."""

    gamma: int
    drafting: float
    verification: float
    other: float = 0.0
    tokens: float
    source: Source  # "predicted" is for other settings than the run's
    size: str = ""  # the simulated size of a prediction, in words

    @property
    def cost(self) -> float:
        return self.drafting + self.verification + self.other


class SimulatedSteps(Value):
    """Expected seconds of a step at newly chosen simulated sizes; None for an unchanged model."""

    target: float | None
    draft: float | None
    size: str  # in words


def round_cost_of(figures: Metrics) -> RoundCost | None:
    """Return the mean cost of a run's rounds; None if neither timing nor step costs are known."""
    return _measured(figures) or _by_step_costs(figures)


def _measured(figures: Metrics) -> RoundCost | None:
    speedup, tau = figures.speedup_observed, figures.tau
    seconds = figures.decode_seconds
    if not speedup or not tau or not seconds:
        return None
    if is_too_wide(figures.speedup_low, figures.speedup_high):
        return None
    cost = tau / speedup
    times = [entry.times for entry in figures.trace.rounds if entry.whole]
    drafting = cost * sum(each.draft for each in times) / seconds
    verification = cost * sum(each.verify for each in times) / seconds
    return RoundCost(
        gamma=figures.trace.config.gamma,
        drafting=drafting,
        verification=verification,
        other=max(0.0, cost - drafting - verification),
        tokens=tau,
        source="measured",
    )


def _by_step_costs(figures: Metrics) -> RoundCost | None:
    gamma, c, v, tau = figures.gamma, figures.c, figures.v, figures.tau
    if gamma is None or c is None or v is None or tau is None:
        return None
    return RoundCost(
        gamma=gamma,
        drafting=gamma * c,
        verification=v,
        other=figures.steps.overhead_cost,
        tokens=tau,
        source="step costs",
    )


def predicted_round_cost(
    trace: Trace, curves: ThroughputCurves | None, gamma: int
) -> RoundCost | None:
    """Return the predicted cost of a round with another γ.

    None if the throughput forecast lacks this γ, or if step costs are missing.
    """
    costs = trace.step_costs
    if curves is None or costs is None or gamma not in curves.gammas:
        return None
    context = len(trace.prompt.token_ids) + trace.config.max_new_tokens / 2
    times = step_times(costs, context, gamma, drafts=bool(costs.draft))
    c, v = times.c, times.v
    if c is None or v is None:
        return None
    speedup = curves.forecast[curves.gammas.index(gamma)] / curves.target
    other = times.overhead_cost
    return RoundCost(
        gamma=gamma, drafting=gamma * c, verification=v, other=other,
        tokens=speedup * (gamma * c + v + other), source="predicted",
    )  # fmt: skip


def at_simulated_size(cost: RoundCost, target_step: float, steps: SimulatedSteps) -> RoundCost:
    """Return the round predicted for other simulated sizes; its number of tokens does not change.

    A pass of a large target reads all weights once, for one token or for several tokens. Therefore
    verification is expected to take as long as one step.

    Args:
        target_step: Seconds of a target step at the current size.
    """
    shorter = 1.0 if steps.target is None else target_step / steps.target
    drafting = cost.drafting * shorter
    if steps.draft is not None:
        drafting = cost.gamma * steps.draft / (steps.target or target_step)
    return replace(
        cost, drafting=drafting, other=cost.other * shorter, source="predicted", size=steps.size,
        verification=cost.verification if steps.target is None else 1.0,
    )  # fmt: skip
