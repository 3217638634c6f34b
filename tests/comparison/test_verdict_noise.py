"""The verdict's statistics on simulated comparisons with the noise of real runs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from specviz.comparison import ComparisonVerdict, LaneResult, compare
from specviz.comparison.plan import SuiteItem
from specviz.comparison.verdict import verdict_of
from specviz.figures.paired import PromptRepeat
from tests.comparison.synthetic import make_plan, run_of, runs_of

COMPARISONS = 2000
NOISE = Path(__file__).with_name("lane_noise.json")
UNITS = {"seeds": 5, "prompts": 8}
SEEDS = 2  # per prompt, with several prompts
Rates = list[dict[PromptRepeat, float]]


class Noise:
    """Residuals of both lanes' log rates, `[prompts, seeds, 2]`."""

    def __init__(self, residuals: np.ndarray) -> None:
        self._whole = residuals - residuals.mean(axis=(0, 1))
        within = residuals - residuals.mean(axis=1, keepdims=True)
        self._within = within.reshape(-1, 2)  # variation between seeds only
        assert len(self._within) >= 40

    def seeds(self, chance: np.random.Generator) -> Rates:
        rows = self._within[chance.integers(len(self._within), size=UNITS["seeds"])]
        return [{(0, seed): row[lane] for seed, row in enumerate(rows)} for lane in (0, 1)]

    def prompts(self, chance: np.random.Generator) -> Rates:
        """Resample measured prompts, and seeds within each."""
        rates: Rates = [{}, {}]
        num_prompts, num_seeds, _ = self._whole.shape
        for item, prompt in enumerate(chance.integers(num_prompts, size=UNITS["prompts"])):
            for repeat, seed in enumerate(chance.integers(num_seeds, size=SEEDS)):
                for lane in (0, 1):
                    rates[lane][item, repeat] = self._whole[prompt, seed, lane]
        return rates


@pytest.fixture(scope="module")
def noise() -> Noise:
    return Noise(np.array(json.loads(NOISE.read_text())["residuals"]))


@pytest.fixture(scope="module")
def lanes() -> tuple[LaneResult, ...]:
    plan = make_plan(2, 8)
    return compare(plan, runs_of(plan, lambda _job: {})).lanes


def rates_of(noise: Noise, over: str, difference: float) -> Iterator[Rates]:
    """Yield log rates, with ``difference`` added to the first lane's."""
    chance = np.random.default_rng(5)
    while True:
        first, second = getattr(noise, over)(chance)
        yield [{place: rate + difference for place, rate in first.items()}, second]


def simulated(
    noise: Noise, lanes: tuple[LaneResult, ...], over: str, difference: float
) -> list[ComparisonVerdict]:
    drawn = islice(rates_of(noise, over, difference), COMPARISONS)
    return [verdict_of(lanes, rates) for rates in drawn]


@pytest.mark.parametrize("over", ["seeds", "prompts"])
def test_complete_comparisons_give_the_same_verdict_as_their_rates(
    noise: Noise, lanes: tuple[LaneResult, ...], over: str
) -> None:
    """The simulations below start from rates; here complete runs have the same rates."""
    items = [SuiteItem(prompt=f"{number}") for number in range(UNITS["prompts"])]
    plan = make_plan(2, 8, repeats=UNITS["seeds"])
    if over == "prompts":
        plan = make_plan(2, 8, items=items, repeats=SEEDS)
    for rates in islice(rates_of(noise, over, math.log(1.18)), 10):
        runs = [
            run_of(plan, job, seconds=0.02 / math.exp(rates[job.lane][job.item, job.repeat]))
            for job in plan.runs()
        ]
        found, wanted = compare(plan, runs).verdict, verdict_of(lanes, rates)
        assert (found.winner, found.ranking) == (wanted.winner, wanted.ranking)
        one, other = found.ratios[0, 1], wanted.ratios[0, 1]
        assert (one.over, one.count) == (other.over, other.count) == (over, UNITS[over])
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))


@pytest.mark.parametrize("over", ["seeds", pytest.param("prompts", marks=pytest.mark.thorough)])
def test_the_interval_covers_a_known_difference(
    noise: Noise, lanes: tuple[LaneResult, ...], over: str
) -> None:
    difference = math.log(1.18)
    covered = 0
    for each in simulated(noise, lanes, over, difference):
        found = each.ratios[0, 1]
        assert found.low is not None
        assert found.high is not None
        assert (found.over, found.count) == (over, UNITS[over])
        covered += found.low <= 1.18 <= found.high
    assert 0.93 <= covered / COMPARISONS <= 0.97


@pytest.mark.parametrize("over", ["seeds", "prompts"])
def test_equal_lanes_have_a_winner_in_five_percent_of_comparisons(
    noise: Noise, lanes: tuple[LaneResult, ...], over: str
) -> None:
    found = simulated(noise, lanes, over, 0.0)
    none = [each for each in found if re.match("γ [28]: (between|as fast as) ", each.text)]
    assert all((each.winner is None) == (each in none) for each in found[:100])
    assert 0.93 <= len(none) / COMPARISONS <= 0.97


def test_a_large_difference_is_found(noise: Noise, lanes: tuple[LaneResult, ...]) -> None:
    found = simulated(noise, lanes, "prompts", math.log(8))
    assert sum(each.winner == 0 for each in found) / COMPARISONS > 0.95
