"""On the device, every rule, tree, drafter and head decodes the rounds of the CPU in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specviz.engine import speculate
from specviz.engine.decoding.costs import measure_step_costs
from specviz.engine.decoding.pipelined_run import PipelinedRun
from specviz.record.pairs import GRAPHED
from tests.engine.device_runs import (
    GRAPHED_METHODS,
    HEADS,
    STEPWISE_METHODS,
    forked_methods,
    head_rounds,
    pair_on,
    rounds_of,
)
from tests.engine.playing import PROMPT, config
from tests.engine.test_graphed_rounds import assert_same, decisions

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("method", GRAPHED_METHODS)
def test_graphs_of_every_rule_decode_the_rounds_of_the_cpu(device: str, method: str) -> None:
    chosen, pair = GRAPHED_METHODS[method], pair_on(device, GRAPHED)
    assert isinstance(speculate(pair, PROMPT, config(gamma=4, **chosen)), PipelinedRun)
    assert_same(rounds_of(pair, chosen), rounds_of(pair_on("cpu", GRAPHED), chosen))


def test_graphs_decode_forked_runs_as_the_cpu(device: str) -> None:
    for chosen in forked_methods(pair_on("cpu", GRAPHED)):
        known = rounds_of(pair_on("cpu", GRAPHED), chosen)
        assert_same(rounds_of(pair_on(device, GRAPHED), chosen), known)


@pytest.mark.parametrize("method", STEPWISE_METHODS)
@pytest.mark.parametrize("step", ["lean", "library"])
def test_rules_trees_and_drafters_decode_the_rounds_of_the_cpu(
    device: str, method: str, step: str
) -> None:
    chosen = STEPWISE_METHODS[method]
    known = rounds_of(pair_on("cpu", step), chosen)
    assert_same(rounds_of(pair_on(device, step), chosen), known)


@pytest.mark.parametrize("kind", HEADS)
def test_heads_and_their_trees_decode_the_rounds_of_the_cpu(
    device: str, kind: str, tmp_path: Path
) -> None:
    shapes: list[dict[str, Any]] = [{}, {"temperature": 0.0}, {"rule": "match"}, *HEADS[kind]]
    for chosen in shapes:
        found, known = (head_rounds(each, kind, tmp_path, **chosen) for each in (device, "cpu"))
        assert [decisions(each) for each in found] == [decisions(each) for each in known], chosen


@pytest.mark.parametrize("shape", [{}, {"branching": (3, 2, 1)}], ids=["chain", "tree"])
@pytest.mark.parametrize("step", [GRAPHED, "lean", "library"])
def test_step_costs_of_chains_and_trees_are_measured(
    device: str, step: str, shape: dict[str, Any]
) -> None:
    costs = measure_step_costs(pair_on(device, step), config(**shape), contexts=(20,), repeats=2)
    assert costs is not None
    assert min(costs.target[0]) > 0.0
    assert (costs.shape is not None) == bool(shape)
