"""Stores step costs, for tests that are not about measuring them."""

from __future__ import annotations

from specviz.engine.model.pair import Pair
from specviz.measure.step_costs import costs_key
from specviz.record.trace import RunConfig
from specviz.store import save_value
from tests.traces import make_costs


def place_step_costs(pair: Pair, *drafters: str) -> None:
    """Store step costs for greedy and sampled runs in the current data folder."""
    for drafter in drafters or ("model",):
        for temperature in (0.0, 0.7):
            key = costs_key(pair, RunConfig(temperature=temperature, drafter=drafter))
            assert save_value("step-costs", key, make_costs())
