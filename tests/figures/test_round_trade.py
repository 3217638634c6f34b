"""What a round costs and replaces: of a run, and predicted for another γ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.figures.metrics import Metrics, metrics
from specviz.figures.round_trade import trade_at, trade_of
from specviz.figures.throughput import extrapolated_curves
from tests.changed_metrics import with_costs, with_tau, with_timing
from tests.paper_trace import paper_trace
from tests.traces import make_costs, make_trace


@pytest.fixture
def figures() -> Metrics:
    return with_tau(with_costs(metrics(paper_trace()), 5, 0.2, 1.7), 3.4)


def test_a_measured_round_explains_the_measured_speedup(figures: Metrics) -> None:
    trade = trade_of(with_timing(figures, 1.43, 1.36, 1.5))
    assert trade is not None
    assert trade.source == "measured"
    assert trade.tokens / trade.cost == pytest.approx(1.43)
    times = [entry.times for entry in figures.trace.rounds if entry.whole]
    drafted, verified = sum(each.draft for each in times), sum(each.verify for each in times)
    assert trade.drafting / trade.verification == pytest.approx(drafted / verified)


@pytest.mark.parametrize("timed", [False, True])
def test_without_a_usable_timing_the_step_costs_give_the_round(
    figures: Metrics, timed: bool
) -> None:
    found = with_timing(figures, 1.0, 0.1, 9.0) if timed else replace(figures, timing=None)
    trade = trade_of(found)
    assert trade is not None
    assert trade.source == "step costs"
    assert (trade.drafting, trade.verification, trade.tokens) == pytest.approx((1.0, 1.7, 3.4))
    assert trade.tokens / trade.cost == pytest.approx(figures.speedup_accounted)


def test_without_step_costs_there_is_no_trade() -> None:
    trace = make_trace(["aar"])
    assert trade_of(replace(metrics(trace), timing=None)) is None
    assert trade_at(trace, None, 4) is None


def test_the_prediction_follows_the_forecast_of_the_throughput() -> None:
    costs = make_costs()
    trace = replace(paper_trace(), step_costs=costs)
    context = len(trace.prompt.token_ids) + trace.config.max_new_tokens / 2
    curves = extrapolated_curves(costs, context, 0.8)
    for gamma in (1, 4, 12):
        trade = trade_at(trace, curves, gamma)
        assert trade is not None
        assert trade.source == "predicted"
        expected = sum(0.8**i for i in range(gamma + 1))  # tokens per round at this acceptance
        assert trade.tokens == pytest.approx(expected)
        assert trade.tokens / trade.cost == pytest.approx(
            curves.forecast[gamma - 1] / curves.target
        )
    assert trade_at(trace, curves, 99) is None
