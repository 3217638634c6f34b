"""Step costs at one context: values from the table, and how their errors add up."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from specviz.figures.step_times import StepTimes, step_times
from specviz.record.trace import StepCosts

COSTS = StepCosts(
    contexts=(100, 300),
    draft=((1.0, 2.0), (1.5, 2.5)),
    target=tuple((10.0 + rows, 20.0 + rows) for rows in range(17)),
    draft_next=(0.5, 1.0),
    draft_errors=(0.02, 0.01, 0.04),
    target_errors=tuple(0.01 * (1 + rows) for rows in range(17)),
)
SHORT = replace(COSTS, target=COSTS.target[:4], target_errors=COSTS.target_errors[:4])


def test_a_draft_step_is_the_mean_over_a_phase_at_the_context() -> None:
    found = step_times(COSTS, 200, 4, drafts=True)
    assert found.draft == pytest.approx((1.5 + 3 * 0.75) / 4)
    assert (found.target, found.verification) == (15.0, 19.0)
    assert found.c == pytest.approx(0.9375 / 15)
    assert found.v == pytest.approx(19 / 15)
    assert found.round_cost == pytest.approx((4 * 0.9375 + 19) / 15)


def test_drafting_is_free_without_a_model() -> None:
    bare = replace(COSTS, draft=(), draft_next=(), draft_errors=())
    found = step_times(bare, 100, 4, drafts=False)
    assert (found.draft, found.draft_error, found.c) == (0.0, 0.0, 0.0)
    assert found.round_cost == found.v == 1.4
    assert found.round_cost_error == pytest.approx(math.hypot(0.05, 0.01))
    assert step_times(bare, 100, 4, drafts=True).draft is None
    assert step_times(bare, 100, 4, drafts=True).round_cost is None


def test_errors_come_from_the_rows_used() -> None:
    found = step_times(COSTS, 100, 4, drafts=True)
    assert (found.draft_error, found.target_error) == (0.04, 0.01)
    assert found.verification_error == pytest.approx(0.05)  # of five tokens
    assert found.c_error == pytest.approx(math.hypot(0.04, 0.01))
    assert found.v_error == pytest.approx(math.hypot(0.05, 0.01))
    drafting, verifying = 1.0 + 3 * 0.5, 14.0
    shares = math.hypot(drafting * 0.04, verifying * 0.05) / (drafting + verifying)
    assert found.round_cost_error == pytest.approx(math.hypot(shares, 0.01))


def test_values_missing_from_the_table_have_no_error() -> None:
    bare = replace(COSTS, draft_errors=(), target_errors=())
    found = step_times(bare, 100, 4, drafts=True)
    assert found.round_cost == pytest.approx((2.5 + 14) / 10)
    assert (found.c_error, found.v_error, found.round_cost_error) == (None, None, None)
    half = step_times(replace(COSTS, draft_errors=()), 100, 4, drafts=True)
    assert (half.c_error, half.round_cost_error) == (None, None)
    assert half.v_error is not None
    nothing = StepTimes()
    assert (nothing.c, nothing.v, nothing.round_cost, nothing.round_cost_error) == (None,) * 4


def test_only_a_long_table_is_extrapolated() -> None:
    """It continues the line through its 9th and its last row, with the error of the last."""
    beyond = step_times(COSTS, 100, 20, drafts=True)
    assert beyond.verification == pytest.approx(30.0)
    assert beyond.verification_error == pytest.approx(0.17)
    assert step_times(SHORT, 100, 3, drafts=True).verification == 13.0
    short = step_times(SHORT, 100, 4, drafts=True)
    assert (short.verification, short.v, short.round_cost_error) == (None, None, None)
