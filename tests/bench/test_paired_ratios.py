"""Ratios of paired repeats: the median, and the coverage of its interval."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from specviz.bench.paired_ratios import LaneRatio, PairedRatio, paired_ratio, paired_ratios


def test_ratio_is_the_median_over_pairs() -> None:
    over, under = [2.0, 9.0, 40.0], [1.0, 3.0, 10.0]
    assert paired_ratio(over, under) == PairedRatio(value=3.0, low=None, high=None)


def test_twenty_pairs_reach_from_the_sixth_smallest_to_the_sixth_largest() -> None:
    over = [float(value) for value in range(1, 21)]
    ratio = paired_ratio(over[::-1], [1.0] * 20)
    assert (ratio.value, ratio.low, ratio.high) == (10.5, 6.0, 15.0)


@pytest.mark.parametrize("count", [1, 5])
def test_few_pairs_have_no_interval(count: int) -> None:
    ratio = paired_ratio([2.0] * count, [1.0] * count)
    assert (ratio.value, ratio.low, ratio.high) == (2.0, None, None)


@pytest.mark.parametrize("count", [6, 7, 12, 20, 33])
def test_interval_is_the_narrowest_with_95_percent_coverage(count: int) -> None:
    ratio = paired_ratio([float(value) for value in range(1, count + 1)], [1.0] * count)
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low + ratio.high == count + 1

    def covered(rank: int) -> Fraction:
        return 1 - 2 * Fraction(sum(comb(count, k) for k in range(rank)), 2**count)

    assert covered(int(ratio.low)) >= Fraction(95, 100) > covered(int(ratio.low) + 1)


def test_interval_covers_the_median_of_skewed_noise() -> None:
    draws = np.random.default_rng(0).lognormal(size=(4000, 20))
    found = [paired_ratio(list(each), [1.0] * 20) for each in draws]
    covered = [each.low <= 1.0 <= each.high for each in found if each.low and each.high]
    assert np.mean(covered) == pytest.approx(0.9586, abs=0.012)


def test_no_ratio_without_a_lane() -> None:
    asked = (
        LaneRatio(name="known", over="theirs", under="ours"),
        LaneRatio(name="unknown", over="absent", under="ours"),
    )
    ratios = paired_ratios(asked, {"ours": [1.0], "theirs": [4.0]})
    assert ratios == {"known": PairedRatio(value=4.0, low=None, high=None), "unknown": None}
