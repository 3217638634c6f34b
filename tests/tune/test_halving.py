"""Races: their stages, and how often they find a fast lane with recorded timing noise."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from specviz.figures.timing import is_enough, timing_of
from specviz.record.trace import Baseline, Slice
from specviz.tune.halving import Stage, fastest, stages_of
from tests.traces import make_round

NOISE = Path(__file__).parent.parent / "measure" / "timing_noise.json"
KINDS: dict[str, list[list[float]]] = json.loads(NOISE.read_text())["kinds"]
SLICES = 12  # that fit into the timing of one run of a comparison
# Six lanes by their slowdown from the best; no other lane is within 2 % of it.
APART = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25)
CLOSE = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2)
RACES = 500
WHOLE = 12  # measurements of each lane in a full comparison
NEAR = 0.02


def test_stages_cost_the_same_and_halve_the_field() -> None:
    assert stages_of(6, 36) == (Stage(field=6, measurements=2), Stage(field=3, measurements=4),
                                Stage(field=2, measurements=6))  # fmt: skip
    assert stages_of(2, 12) == (Stage(field=2, measurements=6),)
    assert stages_of(3, 18) == (Stage(field=3, measurements=3), Stage(field=2, measurements=4))


@pytest.mark.parametrize("field", range(2, 17))
@pytest.mark.parametrize("runs", [1, 6, 12])
def test_race_stays_within_its_budget(field: int, runs: int) -> None:
    stages = stages_of(field, field * runs)
    assert stages[0].field == field
    for before, after in pairwise(stages):
        assert after.field == math.ceil(before.field / 2)
        assert after.measurements >= before.measurements
    assert math.ceil(stages[-1].field / 2) == 1
    assert all(each.measurements >= 1 for each in stages)
    made = sum(each.field * each.measurements for each in stages)
    assert made <= field * runs + sum(each.field for each in stages)


def test_keeps_the_highest_means_in_order() -> None:
    logs = [[0.1, 0.2], [0.5], [0.3, 0.3, 0.3], [-1.0]]
    assert fastest(logs, 1) == (1,)
    assert fastest(logs, 2) == (1, 2)
    assert fastest(logs, 3) == (0, 1, 2)
    assert fastest([[0.0], [0.0], [0.0]], 2) == (0, 1)


def test_one_stall_of_eight_measurements_decides_nothing() -> None:
    calm, stalled = [0.1] * 8, [0.2] * 7 + [-9.0]
    assert fastest([calm, stalled], 1) == (1,)
    assert fastest([calm[:7], stalled[-7:]], 1) == (0,)


def test_drops_candidates_without_measurements() -> None:
    assert fastest([[], [-3.0], []], 1) == (1,)
    assert fastest([[], []], 1) == (0,)


# How often a race finds the fast lane


@cache
def noise_of(kind: str) -> np.ndarray:
    """Return deviations of log speedups over all runs of SLICES consecutive recorded slices.

    Single slices scatter too much.
    """
    slices = [
        Slice(first=0, last=1, target=(a, d), speculative=(b, c))
        for a, b, c, d in np.exp(KINDS[kind]).tolist()
    ]
    rounds, logs = (make_round("ad"),), list[float]()
    for begin in range(len(slices) - SLICES + 1):
        run = slices[begin : begin + SLICES]
        while is_enough(run[:-1], rounds):
            run.pop()
        found = timing_of(Baseline(slices=tuple(run), prefill=0.1), rounds)
        assert found is not None
        logs.append(math.log(found.speedup))
    return np.array(logs) - np.mean(logs)


class Machine:
    """Measures lanes of given slowdowns, with the noise of real runs."""

    def __init__(self, kind: str, slower: Sequence[float]) -> None:
        self.noise, self.draws = noise_of(kind), np.random.default_rng(21)
        self.speeds = [math.log(1.0 - each) for each in slower]
        self.measured = 0

    def measure(self, lane: int, times: int) -> list[float]:
        self.measured += times
        return (self.speeds[lane] + self.draws.choice(self.noise, size=times)).tolist()


def raced(machine: Machine) -> int:
    """Return the winner of a race with half the runs of the full comparison."""
    field = len(machine.speeds)
    logs: list[list[float]] = [[] for _ in machine.speeds]
    left = tuple(machine.draws.permutation(field).tolist())
    for stage in stages_of(field, field * WHOLE // 2):
        for lane in left:
            logs[lane] += machine.measure(lane, stage.measurements)
        kept = fastest([logs[lane] for lane in left], math.ceil(stage.field / 2))
        left = tuple(left[place] for place in kept)
    (winner,) = left
    return winner


def full_comparison(machine: Machine) -> int:
    """Return the lane with the highest mean of a full comparison."""
    logs = [machine.measure(lane, WHOLE) for lane in range(len(machine.speeds))]
    return fastest(logs, 1)[0]


@pytest.mark.parametrize("slower", [APART, CLOSE], ids=["apart", "close"])
@pytest.mark.parametrize("kind", KINDS)
def test_race_finds_a_fast_lane_with_half_the_runs(
    kind: str, slower: tuple[float, ...], record_property: Callable[[str, object], None]
) -> None:
    """Nearly as often as the full comparison.

    How often that is depends on the lanes' distances relative to the noise, for any stages.
    """
    shares: list[float] = []
    for choose, runs in ((raced, 36), (full_comparison, 72)):
        machine = Machine(kind, slower)
        found = [slower[choose(machine)] <= NEAR for _ in range(RACES)]
        assert machine.measured == runs * RACES
        shares.append(float(np.mean(found)))
    race, whole = shares
    output = (
        f"{kind}, {slower[1]:.0%} apart: race {race:.1%}, full comparison {whole:.1%}, "
        f"runs scatter by {noise_of(kind).std():.1%}"
    )
    print(output)
    record_property("found", output)
    assert race >= whole - 0.08
    if kind == "as it is":
        assert race >= (0.95 if slower == APART else 0.85)
