"""What a round costs and what it replaces, both in steps of the target.

A round replaces as many steps of the target alone as it gives tokens. If the speedup was measured,
the cost of a round follows from it, and the run's own times divide that cost into phases.
Otherwise the step costs give it. The tokens over the cost are the speedup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specviz.figures.metrics import Metrics
from specviz.figures.speedup_words import is_too_wide
from specviz.figures.step_times import step_times
from specviz.figures.throughput import ThroughputCurves
from specviz.record.trace import Trace

Source = Literal["measured", "step costs", "predicted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrade:
    """The phases of a round in target steps, and its tokens."""

    gamma: int
    drafting: float
    verification: float
    other: float = 0.0
    tokens: float
    source: Source  # "predicted" is for another γ than the run's

    @property
    def cost(self) -> float:
        return self.drafting + self.verification + self.other


def trade_of(figures: Metrics) -> RoundTrade | None:
    """Return a run's mean round; None if neither its timing nor its step costs are known."""
    return _measured(figures) or _by_step_costs(figures)


def _measured(figures: Metrics) -> RoundTrade | None:
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
    return RoundTrade(
        gamma=figures.trace.config.gamma,
        drafting=drafting,
        verification=verification,
        other=max(0.0, cost - drafting - verification),
        tokens=tau,
        source="measured",
    )


def _by_step_costs(figures: Metrics) -> RoundTrade | None:
    gamma, c, v, tau = figures.gamma, figures.c, figures.v, figures.tau
    if gamma is None or c is None or v is None or tau is None:
        return None
    return RoundTrade(
        gamma=gamma, drafting=gamma * c, verification=v, tokens=tau, source="step costs"
    )


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
        source="predicted",
    )  # fmt: skip
