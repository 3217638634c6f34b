"""The break-even level: 200 sweeps by a known law, and the cases without one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specviz.figures.load_break_even import BreakEven, Curves, break_even

LEVELS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


def speedup(users: float) -> float:
    """A law that no cubic follows: the spare arithmetic is used up by and by."""
    return 2.2 / (1 + (users / 9.0) ** 0.9)


TRUE = 9.0 * 1.2 ** (1 / 0.9)  # where it is 1


def measured(noise: float, units: int, seed: int, levels: tuple[float, ...] = LEVELS) -> BreakEven:
    random = np.random.default_rng(seed)
    middle = np.log([speedup(each) for each in levels])
    rows = middle + random.normal(0.0, noise, size=(units, len(levels)))
    return break_even(Curves(levels=levels, rows=tuple(map(tuple, rows.tolist()))))


@pytest.mark.parametrize(("noise", "units"), [(0.02, 3), (0.05, 5), (0.1, 8)])
def test_the_interval_contains_the_true_level(noise: float, units: int) -> None:
    found = [measured(noise, units, seed) for seed in range(200)]
    assert sum(each.contains(TRUE) for each in found) >= 186
    widths = [math.log(each.high / each.low) for each in found if each.low and each.high]
    assert len(widths) > 150
    assert np.median(widths) < 3.0  # an interval over all levels would be log(32) = 3.5


def test_without_noise_the_level_is_found() -> None:
    found = measured(0.0, 3, 0)
    assert found.where == "between"
    assert found.value == pytest.approx(TRUE, rel=0.03)


@pytest.mark.parametrize(
    ("levels", "where"), [((1.0, 2.0, 4.0, 8.0), "above"), ((16.0, 20.0, 24.0, 32.0), "below")]
)
def test_a_level_outside_the_measured_ones_has_no_value(
    levels: tuple[float, ...], where: str
) -> None:
    found = measured(0.001, 3, 0, levels)
    assert (found.where, found.value) == (where, None)
    assert (found.low, found.high).count(None) >= 1


def test_a_single_unit_has_no_interval() -> None:
    assert not measured(0.0, 1, 0).has_interval
