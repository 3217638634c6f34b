"""What acceptance is worth, against the formulas for equal acceptance at all positions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.theory.speed import expected_tokens, speedup
from specviz.training.drafts.worth import (
    MORE,
    MOST_CANDIDATES,
    CurvePoint,
    RoundCosts,
    more_training,
    tokens_per_round,
    worth,
)

CHANCES = st.floats(0.0, 1.0)
POSITIONS = st.lists(CHANCES, min_size=1, max_size=6)
FREE = RoundCosts(c=0.05, verify=(1.0,) * MOST_CANDIDATES, measured=True)


@given(alpha=CHANCES, c=st.floats(0.0, 2.0), v=st.floats(0.5, 4.0), count=st.integers(1, 6))
def test_equal_acceptance_gives_the_formula(alpha: float, c: float, v: float, count: int) -> None:
    costs = RoundCosts(c=c, verify=(v,) * MOST_CANDIDATES, measured=True)
    found = worth([alpha] * count, costs, limited=False)
    assert [each.gamma for each in found.gains] == list(range(1, MOST_CANDIDATES + 1))
    for each in found.gains:
        assert each.tokens == pytest.approx(expected_tokens(alpha, each.gamma))
        assert each.speedup == pytest.approx(speedup(alpha, each.gamma, c, v))
        assert each.assumed == (each.gamma > count)
    assert found.best.speedup == max(each.speedup for each in found.gains)


@given(accepted=POSITIONS, gamma=st.integers(1, 8))
def test_tokens_grow_with_candidates_and_never_exceed_them(
    accepted: list[float], gamma: int
) -> None:
    tokens = tokens_per_round(accepted, gamma)
    assert tokens_per_round(accepted, gamma - 1) <= tokens <= 1 + gamma


@given(c=st.floats(0.001, 0.5), v=st.floats(1.0, 1.5))
def test_at_break_even_acceptance_the_speedup_is_one(c: float, v: float) -> None:
    costs = RoundCosts(c=c, verify=(v,) * 4, measured=True)
    for each in worth([0.5], costs, limited=False).gains:
        if each.break_even is not None:
            at = worth([each.break_even], costs, limited=False).gains[each.gamma - 1]
            assert at.speedup == pytest.approx(1.0)


def test_a_limited_draft_has_no_further_positions() -> None:
    found = worth([0.9, 0.8], FREE, limited=True)
    assert [(each.gamma, each.assumed) for each in found.gains] == [(1, False), (2, False)]


def along_logarithm(count: int, slope: float = 0.1) -> list[CurvePoint]:
    return [
        CurvePoint(tokens=1000 * step, accepted=(0.3 + slope * math.log(step),) * 3)
        for step in range(1, count + 1)
    ]


@pytest.mark.parametrize("slope", [0.02, 0.1])
def test_more_training_extrapolates_along_the_logarithm(slope: float) -> None:
    curve = along_logarithm(10, slope)
    last = curve[-1].accepted[0]
    now, later = (
        worth([value] * 3, FREE, limited=False).best.speedup
        for value in (last, last + slope * math.log(MORE))
    )
    assert more_training(curve, FREE, limited=False) == pytest.approx(later - now)


def test_a_falling_curve_promises_nothing() -> None:
    assert more_training(along_logarithm(10, -0.05), FREE, limited=False) == 0.0


@pytest.mark.parametrize(
    "curve",
    [[], along_logarithm(3), [CurvePoint(tokens=9000 + n, accepted=(0.5,)) for n in range(9)]],
    ids=["empty", "few points", "little growth"],
)
def test_a_short_curve_is_not_extrapolated(curve: list[CurvePoint]) -> None:
    assert more_training(curve, FREE, limited=False) is None


@given(rows=st.lists(POSITIONS.map(lambda row: (row + [0.5] * 6)[:3]), min_size=4, max_size=12))
def test_any_curve_gives_a_finite_gain(rows: list[list[float]]) -> None:
    curve = [
        CurvePoint(tokens=100 * (place + 1), accepted=tuple(row)) for place, row in enumerate(rows)
    ]
    gain = more_training(curve, FREE, limited=True)
    assert gain is not None
    assert 0.0 <= gain < 4.0
