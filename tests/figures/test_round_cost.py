"""What a round costs and replaces: of a run, and predicted for another γ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.figures.metrics import Metrics, metrics
from specviz.figures.round_cost import (
    SimulatedSteps,
    at_simulated_size,
    predicted_round_cost,
    round_cost_of,
)
from specviz.figures.throughput import extrapolated_curves
from tests.changed_metrics import with_costs, with_tau, with_timing
from tests.paper_trace import paper_trace
from tests.traces import make_costs, make_trace


@pytest.fixture
def figures() -> Metrics:
    return with_tau(with_costs(metrics(paper_trace()), 5, 0.2, 1.7), 3.4)


def test_a_measured_round_explains_the_measured_speedup(figures: Metrics) -> None:
    cost = round_cost_of(with_timing(figures, 1.43, 1.36, 1.5))
    assert cost is not None
    assert cost.source == "measured"
    assert cost.tokens / cost.cost == pytest.approx(1.43)
    times = [entry.times for entry in figures.trace.rounds if entry.whole]
    drafted, verified = sum(each.draft for each in times), sum(each.verify for each in times)
    assert cost.drafting / cost.verification == pytest.approx(drafted / verified)


@pytest.mark.parametrize("timed", [False, True])
def test_without_a_usable_timing_the_step_costs_give_the_round(
    figures: Metrics, timed: bool
) -> None:
    found = with_timing(figures, 1.0, 0.1, 9.0) if timed else replace(figures, timing=None)
    cost = round_cost_of(found)
    assert cost is not None
    assert cost.source == "step costs"
    assert (cost.drafting, cost.verification, cost.tokens) == pytest.approx((1.0, 1.7, 3.4))
    assert cost.tokens / cost.cost == pytest.approx(figures.speedup_accounted)


def test_without_step_costs_there_is_no_round_cost() -> None:
    trace = make_trace(["aar"])
    assert round_cost_of(replace(metrics(trace), timing=None)) is None
    assert predicted_round_cost(trace, None, 4) is None


def test_the_prediction_follows_the_forecast_of_the_throughput() -> None:
    costs = make_costs()
    trace = replace(paper_trace(), step_costs=costs)
    context = len(trace.prompt.token_ids) + trace.config.max_new_tokens / 2
    curves = extrapolated_curves(costs, context, 0.8)
    for gamma in (1, 4, 12):
        cost = predicted_round_cost(trace, curves, gamma)
        assert cost is not None
        assert cost.source == "predicted"
        expected = sum(0.8**i for i in range(gamma + 1))  # tokens per round at this acceptance
        assert cost.tokens == pytest.approx(expected)
        assert cost.tokens / cost.cost == pytest.approx(curves.forecast[gamma - 1] / curves.target)
    assert predicted_round_cost(trace, curves, 99) is None


def test_a_larger_target_makes_drafting_cheap_and_verification_one_step(figures: Metrics) -> None:
    cost = round_cost_of(replace(figures, timing=None))
    assert cost is not None
    larger = SimulatedSteps(target=0.020, draft=None, size="target larger")
    found = at_simulated_size(cost, 0.002, larger)
    assert (found.drafting, found.verification) == pytest.approx((0.1 * cost.drafting, 1.0))
    assert (found.tokens, found.source, found.size) == (cost.tokens, "predicted", "target larger")

    draft_too = SimulatedSteps(target=0.020, draft=0.004, size="both larger")
    found = at_simulated_size(cost, 0.002, draft_too)
    assert (found.drafting, found.verification) == pytest.approx((5 * 0.2, 1.0))

    only_draft = SimulatedSteps(target=None, draft=0.001, size="draft larger")
    found = at_simulated_size(cost, 0.002, only_draft)
    assert (found.drafting, found.verification) == pytest.approx((5 * 0.5, cost.verification))
