"""The break-even level: its interval contains the true one, and open ends are said."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from specviz.figures.load_break_even import Curves, break_even
from specviz.figures.load_words import break_even_words

LEVELS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SWEEPS = 200
Law = Callable[[float, float], float]  # the log-speedup at a level, given the break-even


def hyperbolic(level: float, crossing: float) -> float:
    """Return the law of a round whose time grows linearly with the load."""
    return math.log(2.0) - math.log1p(level / crossing)


def power(level: float, crossing: float) -> float:
    return 0.35 * (math.log(crossing) - math.log(level))


def bent(level: float, crossing: float) -> float:
    """Return the law of a step that is bound by memory first and by arithmetic then."""
    return min(0.5, 0.5 + math.log(crossing / 2) - math.log(level) + math.log(2) - 0.5)


def curves(draws: np.random.Generator, law: Law, truth: float, units: int, noise: float) -> Curves:
    rows = [[law(each, truth) + draws.normal(0, noise) for each in LEVELS] for _ in range(units)]
    return Curves(levels=LEVELS, rows=tuple(map(tuple, rows)))


@pytest.mark.parametrize("law", [hyperbolic, power, bent])
@pytest.mark.parametrize(("units", "noise"), [(3, 0.03), (6, 0.06)])
def test_the_interval_contains_the_true_break_even(law: Law, units: int, noise: float) -> None:
    draws, hits, narrow = np.random.default_rng(units), 0, 0
    for truth in np.exp(draws.uniform(math.log(1.5), math.log(28), SWEEPS)):
        found = break_even(curves(draws, law, truth, units, noise))
        hits += found.contains(truth)
        narrow += (found.high or 32.0) / (found.low or 1.0) < 4
    assert hits >= 0.93 * SWEEPS
    assert narrow > 0.4 * SWEEPS  # an interval of all loads would always contain it


def test_the_interval_over_starts_covers_what_the_levels_of_a_start_share() -> None:
    draws, hits = np.random.default_rng(3), 0
    for truth in np.exp(draws.uniform(math.log(1.5), math.log(28), SWEEPS)):
        shared = draws.normal(0, 0.08, 4)
        rows = tuple(
            tuple(power(each, truth) + start + draws.normal(0, 0.01) for each in LEVELS)
            for start in shared
        )
        hits += break_even(Curves(levels=LEVELS, rows=rows)).contains(truth)
    assert hits >= 0.93 * SWEEPS


def rows_of(*logs: float) -> Curves:
    rows = tuple(tuple(each + shift for each in logs) for shift in (-0.01, 0.0, 0.01))
    return Curves(levels=LEVELS[: len(logs)], rows=rows)


def test_no_break_even_and_already_below() -> None:
    above = break_even(rows_of(0.6, 0.55, 0.5, 0.45))
    assert (above.where, above.value, above.high) == ("above", None, None)
    assert above.low == pytest.approx(8)  # the highest level
    below = break_even(rows_of(-0.5, -0.55, -0.6, -0.65))
    assert (below.where, below.value, below.low) == ("below", None, None)
    assert below.high == pytest.approx(1)


def test_noise_leaves_both_ends_open() -> None:
    noisy = Curves(levels=LEVELS[:4], rows=((0.3, 0.3, 0.2, 0.1), (-0.4, -0.4, -0.5, -0.5)))
    found = break_even(noisy)
    assert (found.where, found.low, found.high) == ("below", None, None)
    assert "may already be slower" in break_even_words(found, "closed")
    sure = break_even(rows_of(-0.5, -0.55, -0.6, -0.65))
    assert "is already slower" in break_even_words(sure, "closed")


def test_a_single_row_has_a_value_and_no_interval() -> None:
    found = break_even(Curves(levels=(1.0, 4.0), rows=((math.log(2), -math.log(2)),)))
    assert found.value == pytest.approx(2)
    assert not found.has_interval


def test_a_speedup_that_returns_is_noted() -> None:
    assert break_even(rows_of(0.3, -0.3, -0.3, 0.4)).returns
    assert not break_even(rows_of(0.3, 0.1, -0.3, -0.4)).returns
