"""What a round costs and what it replaces, both in steps of the target.

A round costs its drafting and its verification. It replaces as many steps of the target alone as
it gives tokens. The ratio of the two is the speedup that the step costs predict.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.figures.metrics import Metrics
from specviz.figures.step_times import step_times
from specviz.figures.throughput import ThroughputCurves
from specviz.record.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrade:
    """Costs in target steps; ``tokens`` per round."""

    gamma: int
    drafting: float
    verification: float
    tokens: float
    predicted: bool  # for another γ than the run's

    @property
    def cost(self) -> float:
        return self.drafting + self.verification


def trade_of(figures: Metrics) -> RoundTrade | None:
    """Return a run's mean round; None if its step costs or its rounds are unknown."""
    gamma, c, v, tau = figures.gamma, figures.c, figures.v, figures.tau
    if gamma is None or c is None or v is None or tau is None:
        return None
    return RoundTrade(gamma=gamma, drafting=gamma * c, verification=v, tokens=tau, predicted=False)


def trade_at(trace: Trace, curves: ThroughputCurves | None, gamma: int) -> RoundTrade | None:
    """Return the round predicted for another γ from the forecast of the throughput."""
    costs = trace.step_costs
    if curves is None or costs is None or gamma not in curves.gammas:
        return None
    context = len(trace.prompt.token_ids) + trace.config.max_new_tokens / 2
    times = step_times(costs, context, gamma, drafts=bool(costs.draft))
    c, v = times.c, times.v
    if c is None or v is None:
        return None
    speedup = curves.forecast[curves.gammas.index(gamma)] / curves.target
    return RoundTrade(
        gamma=gamma, drafting=gamma * c, verification=v, tokens=speedup * (gamma * c + v),
        predicted=True,
    )  # fmt: skip
