"""Compare the measured speedup of a run with its predictions, and report wrong predictions."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from specviz.figures.metrics import Metrics, metrics
from specviz.figures.speedup_words import is_too_wide
from specviz.figures.step_times import StepTimes
from specviz.record.numbers import PERCENT, STEPS, TOKENS
from specviz.record.step_costs import StepCosts
from specviz.record.trace import Trace
from specviz.values import Value

Source = Literal["forecast", "step costs", "measured"]


class Estimate(Value):
    """A speedup with its 95 % interval."""

    source: Source
    value: float
    low: float
    high: float


class Agreement(Value):
    """The measured speedup of a run, its predictions, and sentences on whether they agree."""

    estimates: tuple[Estimate, ...]
    words: str


def agreement_of_costs(trace: Trace, table: StepCosts, own: StepCosts) -> tuple[str, ...]:
    """Return a sentence that compares the step costs in a table with the costs timed in a run.

    A table does not contain the overhead of a round, so only drafting and verification are
    compared. The result is empty if the costs of a round are unknown.

    Args:
        table: The step costs that were measured directly.
        own: The step costs timed in the run.
    """
    measured, timed = (
        _model_cost(metrics(replace(trace, step_costs=each), intervals=False).steps)
        for each in (table, own)
    )
    if measured is None or not timed:
        return ()
    return (
        f"Drafting and verification of a round cost {STEPS.bare(measured)} target steps in the "
        f"measured table, and {STEPS.bare(timed)} in this run: a difference of "
        f"{PERCENT.signed(measured / timed - 1)}.",
    )


def _model_cost(steps: StepTimes) -> float | None:
    cost = steps.round_cost
    return None if cost is None else cost - steps.overhead_cost


def agreement(figures: Metrics) -> Agreement | None:
    """Compare the measured speedup with the forecast and with the speedup from the step costs.

    Return None if the speedup was not measured, or if both predictions are missing.
    """
    made, costs = figures.trace.forecast, figures.trace.step_costs
    ends = (made.low, made.high) if made else None
    is_test = costs is not None and not costs.of_this_run
    forecast = _estimate("forecast", figures.speedup_forecast, ends)
    accounted = _estimate(
        "step costs", figures.speedup_accounted, figures.accounted_interval if is_test else None
    )
    measured = _estimate("measured", figures.speedup_observed, figures.speedup_interval)
    if measured is None or not (forecast or accounted):
        return None
    source = "the runs that gave the costs" if costs and costs.runs else "the measured table"
    words = [
        _words_on_costs(accounted, measured, source),
        _words_on_forecast(figures, forecast, measured),
    ]
    return Agreement(
        estimates=tuple(each for each in (forecast, accounted, measured) if each),
        words=" ".join(each for each in words if each),
    )


def _estimate(
    source: Source, value: float | None, ends: tuple[float | None, float | None] | None
) -> Estimate | None:
    low, high = ends or (None, None)
    if value is None or low is None or high is None or is_too_wide(low, high):
        return None
    return Estimate(source=source, value=value, low=low, high=high)


def _side(one: Estimate, other: Estimate) -> int:
    """Return 1 if ``one`` is above ``other``, -1 if it is below, 0 if their intervals overlap."""
    return int(one.low > other.high) - int(one.high < other.low)


def _words_on_costs(accounted: Estimate | None, measured: Estimate, source: str) -> str:
    if accounted is None:
        return ""
    side = _side(accounted, measured)
    if side == 0:
        return "The speedup by the step costs agrees with the measured speedup."
    return (
        "According to the step costs, the run should be "
        f"{'faster' if side > 0 else 'slower'} than it was. In this run, steps took "
        f"{'longer' if side > 0 else 'less time'} than in {source}."
    )


def _words_on_forecast(figures: Metrics, forecast: Estimate | None, measured: Estimate) -> str:
    made = figures.trace.forecast
    if made is None or forecast is None or figures.tau is None:
        return ""
    side = _side(measured, forecast)
    if side == 0:
        return "The forecast agrees with the measured speedup."
    more = figures.tau > made.tau
    if more != (side > 0):
        return "The forecast is off, because the step costs have changed."
    return (
        f"The forecast is off, because acceptance is {'higher' if more else 'lower'} on this text "
        f"than on the texts of the forecast: τ is {TOKENS.bare(figures.tau)}, not "
        f"{TOKENS.bare(made.tau)}."
    )
