"""Win rates against hand-computed values and a double loop, and the coverage of the interval."""

from __future__ import annotations

import itertools
import math
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.quality.win_rates import Outcomes, WinRate, outcomes_of, win_rate
from specviz.theory.student import t_quantile

FEW_SCORES = st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0]), min_size=1, max_size=6)


def rate_of(outcomes: Outcomes) -> WinRate:
    found = win_rate(outcomes)
    assert found is not None
    return found


@given(FEW_SCORES, FEW_SCORES)
def test_every_text_meets_every_other_and_a_tie_counts_one_half(
    first: list[float], second: list[float]
) -> None:
    expected = [(a > b) + 0.5 * (a == b) for a, b in itertools.product(first, second)]
    found = outcomes_of({0: first}, {0: second})[0]
    assert sorted(found) == sorted(expected)


def test_the_interval_is_students_over_prompts() -> None:
    found = rate_of({0: [1.0, 1.0], 1: [0.5, 0.0], 2: [1.0, 0.5]})
    middle = fmean([1.0, 0.25, 0.75])
    error = math.sqrt(sum((each - middle) ** 2 for each in (1.0, 0.25, 0.75)) / 2 / 3)
    half = t_quantile(0.975, 2) * error
    assert found.value == pytest.approx(middle)
    assert (found.low, found.high) == (max(0.0, middle - half), min(1.0, middle + half))
    assert (found.prompts, found.pairs) == (3, 6)
    assert found.ties == pytest.approx(2 / 6)


def test_prompts_that_agree_have_wilsons_interval() -> None:
    found = rate_of({0: [0.0], 1: [0.0], 2: [0.0]})
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(0.5615, abs=1e-4)  # z² / (3 + z²)
    ties = rate_of({0: [0.5], 1: [0.5]})
    assert ties.low is not None
    assert ties.low < 0.5 < (ties.high or 0)


def test_prompts_weigh_the_same_whatever_their_pairs() -> None:
    assert rate_of({0: [1.0], 1: [0.0] * 9}).value == 0.5


def test_one_prompt_has_no_interval() -> None:
    found = rate_of({0: [1.0, 0.0]})
    assert (found.low, found.high, found.differs) == (None, None, False)


def test_prompts_without_a_compared_pair_do_not_count() -> None:
    assert win_rate({0: []}) is None
    assert rate_of({0: [], 1: [1.0]}).prompts == 1
    assert outcomes_of({0: [1.0], 1: [1.0]}, {1: [0.0]}) == {1: [1.0]}


def test_the_control_covers_one_half() -> None:
    """200 repeated experiments: two groups of texts with the same distribution."""
    random = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        level = random.normal(0.0, 2.0, size=40)  # prompts differ in their typical score
        groups = [
            {at: list(random.normal(mean, 1.0, size=4)) for at, mean in enumerate(level)}
            for _ in range(2)
        ]
        covered += not rate_of(outcomes_of(*groups)).differs
    assert covered >= 186


def test_a_real_difference_is_found() -> None:
    random = np.random.default_rng(6)
    better, worse = (
        {at: list(random.normal(shift, 1.0, size=4)) for at in range(40)} for shift in (0.5, 0.0)
    )
    found = rate_of(outcomes_of(better, worse))
    exact = 0.5 * (1 + math.erf(0.5 / 2))  # P(X > Y) for unit normals half a unit apart
    assert found.low is not None
    assert found.high is not None
    assert found.low <= exact <= found.high
    assert found.differs
