"""The verdict's statistics on simulated comparisons whose noise is that of real runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from specviz.comparing import LaneResult, Verdict, compare
from specviz.comparing.verdict import verdict
from tests.comparing.synthetic import make_plan, runs_of

COMPARISONS = 2000
NOISE = Path(__file__).with_name("lane_noise.json")
UNITS = {"seeds": [(0, seed) for seed in range(5)], "prompts": [(item, 0) for item in range(8)]}


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    """[num_pairs, 2]: residuals of both lanes' log rates, one seed a row."""
    residuals = np.array(json.loads(NOISE.read_text())["residuals"])
    assert len(residuals) >= 40
    return residuals - residuals.mean(axis=0)


@pytest.fixture(scope="module")
def lanes() -> tuple[LaneResult, ...]:
    plan = make_plan(2, 8)
    return compare(plan, runs_of(plan, lambda _job: {})).lanes


def simulated(
    noise: np.ndarray, lanes: tuple[LaneResult, ...], over: str, difference: float
) -> list[Verdict]:
    """``difference`` is added to the first lane's log rates."""
    generator, places = np.random.default_rng(5), UNITS[over]
    found: list[Verdict] = []
    for rows in generator.integers(len(noise), size=(COMPARISONS, len(places))):
        first, second = noise[rows].T
        rates = [dict(zip(places, first + difference, strict=True))]
        rates.append(dict(zip(places, second, strict=True)))
        found.append(verdict(lanes, rates))
    return found


@pytest.mark.parametrize("over", ["seeds", "prompts"])
def test_the_interval_covers_a_known_difference(
    noise: np.ndarray, lanes: tuple[LaneResult, ...], over: str
) -> None:
    difference = math.log(1.18)
    covered = 0
    for each in simulated(noise, lanes, over, difference):
        found = each.ratios[0, 1]
        assert found.low is not None
        assert found.high is not None
        assert (found.over, found.count) == (over, len(UNITS[over]))
        covered += found.low <= 1.18 <= found.high
    assert 0.93 <= covered / COMPARISONS <= 0.97


@pytest.mark.parametrize("over", ["seeds", "prompts"])
def test_no_difference_is_called_that(
    noise: np.ndarray, lanes: tuple[LaneResult, ...], over: str
) -> None:
    found = simulated(noise, lanes, over, 0.0)
    none = [each for each in found if each.text.startswith("No difference that these runs can")]
    assert all((each.winner is None) == (each in none) for each in found[:100])
    assert 0.93 <= len(none) / COMPARISONS <= 0.97


def test_a_large_difference_is_found(noise: np.ndarray, lanes: tuple[LaneResult, ...]) -> None:
    found = simulated(noise, lanes, "prompts", math.log(8))
    assert sum(each.winner == 0 for each in found) / COMPARISONS > 0.95
