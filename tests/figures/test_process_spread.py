"""The interval of a cost for a new process, on simulated processes."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest

from specviz.figures.process_spread import (
    Cost,
    combined_cost,
    spread_of_drafting,
    usual_spread,
)
from specviz.record.step_costs import PhaseCost

_WITHIN = 0.008  # standard error of the cost of one process
_TRIES = 600


def cost_of(logarithm: float, error: float = _WITHIN) -> PhaseCost:
    cost = math.exp(logarithm)
    return PhaseCost(phase="verify", candidates=5, fed=0, cost=cost, error=1.96 * error)


def combined(logarithms: list[float], step: float, **each: float) -> Cost:
    costs = [(str(place), cost_of(value, **each)) for place, value in enumerate(logarithms)]
    return combined_cost(costs, usual_spread(step))


def covered(step: float, spread: float, processes: int) -> float:
    """Return the share of new processes whose cost is in the interval."""
    chance, inside = random.Random(processes), 0
    for _ in range(_TRIES):
        known = [chance.gauss(0, math.hypot(spread, _WITHIN)) for _ in range(processes)]
        found = combined(known, step)
        inside += abs(chance.gauss(0, spread) - math.log(found.cost)) <= found.error
    return inside / _TRIES


@pytest.mark.parametrize(("step", "spread"), [(0.001, 0.035), (0.02, 0.012), (0.02, 0.018)])
@pytest.mark.parametrize("processes", [1, 2, 3, 5, 8])
def test_it_covers_the_next_process(step: float, spread: float, processes: int) -> None:
    assert covered(step, spread, processes) > 0.92


def test_drafting_that_is_short_beside_the_target_varies_more() -> None:
    assert spread_of_drafting(0.01, cost=0.05) > 5 * spread_of_drafting(0.01, cost=1.5)


def test_processes_that_differ_more_than_usual_widen_it() -> None:
    shares = [covered(0.02, 0.1, processes) for processes in (1, 3, 8)]
    assert shares == sorted(shares)
    assert shares[-1] > shares[0] + 0.2


@pytest.mark.parametrize("processes", [3, 4, 8])
def test_the_middle_is_not_biased(processes: int) -> None:
    chance, spread = random.Random(processes), 0.05
    found = [
        math.log(combined([chance.gauss(0, spread) for _ in range(processes)], 0.02).cost)
        for _ in range(4 * _TRIES)
    ]
    assert abs(sum(found) / len(found)) < 0.08 * spread


def test_more_equal_processes_narrow_it_and_different_ones_widen_it() -> None:
    one, five = combined([0.0], 0.02), combined([0.0] * 5, 0.02)
    different = combined([-0.1, -0.05, 0.0, 0.05, 0.1], 0.02)
    assert five.error < 0.75 * one.error
    assert 0.04 < one.error < 0.06 < different.error


def test_runs_of_a_process_that_differ_by_more_than_their_errors_count_less() -> None:
    def error(values: list[float]) -> float:
        costs = [("one", cost_of(value, 0.001)) for value in values]
        return combined_cost(costs, 0.001).error

    calm, wild = error([0.0, 0.0, 0.0]), error([-0.2, 0.0, 0.2])
    assert calm < 0.01
    assert wild > 0.2


def test_one_process_in_another_state_does_not_shift_the_middle() -> None:
    values = [0.0, 0.01, -0.01, 0.005, 0.7]
    assert median(values) == pytest.approx(math.log(combined(values, 0.02).cost), abs=0.006)
