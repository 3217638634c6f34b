"""The estimates of a speedup, and the words on whether they agree."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.figures.agreement import agreement, agreement_of_costs
from specviz.figures.metrics import metrics
from specviz.record.trace import Forecast, Trace
from tests.traces import full_trace


def with_estimates(*, draft_error: float = 0.02, shift: float = 1.0, low: float = 0.5) -> Trace:
    """A run whose costs have intervals; ``shift`` multiplies the costs of both models but plain."""
    trace = full_trace()
    costs = trace.step_costs
    assert costs is not None
    plain, *others = costs.target
    slower = (plain, *(tuple(shift * each for each in row) for row in others))
    return replace(
        trace,
        step_costs=replace(
            costs,
            target=slower,
            draft_errors=(draft_error,) * 3,
            target_errors=(draft_error,) * len(costs.target),
        ),
        forecast=Forecast(
            speedup=1.0, tau=2.0, kind="story", num_texts=6, low=low, high=3 * low, from_text=0.8
        ),
    )


def test_all_estimates_have_intervals_and_agree() -> None:
    figures = metrics(with_estimates(draft_error=0.5))
    found = agreement(figures)
    assert found is not None
    assert [each.source for each in found.estimates] == ["forecast", "step costs", "measured"]
    measured = found.estimates[-1]
    assert (measured.low, measured.high) == (figures.speedup_low, figures.speedup_high)
    assert found.words.count("agree") == 2


@pytest.mark.parametrize(("shift", "word"), [(20.0, "slower"), (0.02, "faster")])
def test_costs_of_another_machine_are_reported(shift: float, word: str) -> None:
    found = agreement(metrics(with_estimates(shift=shift)))
    assert found is not None
    assert f"should be {word}" in found.words


def test_a_forecast_that_misses_is_explained_by_the_text() -> None:
    trace = with_estimates(low=8.0)
    found = agreement(metrics(trace))
    assert found is not None
    tau = metrics(trace).tau
    assert tau is not None
    less = replace(trace, forecast=replace(trace.forecast, tau=tau + 1) if trace.forecast else None)
    explained = agreement(metrics(less))
    assert explained is not None
    assert "acceptance is lower on this text" in explained.words


def test_costs_fitted_to_the_run_are_no_estimate() -> None:
    trace = with_estimates()
    own = trace.step_costs and replace(trace.step_costs, of_this_run=True, runs=1)
    found = agreement(metrics(replace(trace, step_costs=own)))
    assert found is not None
    assert [each.source for each in found.estimates] == ["forecast", "measured"]
    assert agreement(metrics(replace(trace, step_costs=own, forecast=None))) is None


def test_measured_costs_are_compared_with_those_of_the_run() -> None:
    trace, costly = full_trace(), with_estimates(shift=1.5)
    assert trace.step_costs is not None
    assert costly.step_costs is not None
    (sentence,) = agreement_of_costs(trace, costly.step_costs, trace.step_costs)
    measured, timed = (metrics(each).steps.round_cost for each in (costly, trace))
    assert measured is not None
    assert timed is not None
    assert f"{measured:.2f} target steps in the measured table" in sentence
    own = replace(trace.step_costs, overhead=0.5)  # seconds; a table does not have them
    assert agreement_of_costs(trace, costly.step_costs, own) == (sentence,)
    assert f"{100 * (measured / timed - 1):+.1f} %" in sentence
    assert "+0.0 %" in agreement_of_costs(trace, trace.step_costs, trace.step_costs)[0]


def test_costs_without_a_draft_step_are_not_compared() -> None:
    trace = full_trace()
    assert trace.step_costs is not None
    without = replace(trace.step_costs, draft=(), draft_next=())
    assert agreement_of_costs(trace, trace.step_costs, without) == ()
