"""Stores step costs or measures them roughly, for tests that are not about measuring them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from specviz.engine import load_pair
from specviz.engine.decoding import cost_columns, costs
from specviz.engine.model.pair import Pair
from specviz.measure.step_costs import costs_key
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.store import save_value
from tests.traces import make_costs


@pytest.fixture(scope="package", autouse=True)
def rough_costs() -> Iterator[None]:
    """Measure without warm-up and each cost only once; a tiny pair needs no more."""
    once = partial(costs.measure_step_costs, repeats=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost_columns, "_WARM_UP", 0.0)
        patch.setattr(costs, "measure_step_costs", once)
        yield


def home_with_step_costs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data folder with the step costs of the embedded pair."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(home))
        place_step_costs(
            load_pair(PairSpec(name="tinystories", threads=1)), "model", "prompt-lookup"
        )
    return home


def place_step_costs(pair: Pair, *drafters: str) -> None:
    """Store step costs for greedy and sampled runs in the current data folder."""
    for drafter in drafters or ("model",):
        for temperature in (0.0, 0.7):
            key = costs_key(pair, RunConfig(temperature=temperature, drafter=drafter))
            assert save_value("step-costs", key, make_costs())
