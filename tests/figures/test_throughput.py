"""Curves of tokens per second, against values by hand from made-up step costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.figures.throughput import GAMMAS, extrapolated_curves, predicted_curves
from specviz.theory.speed import expected_tokens
from tests.traces import make_costs

# A draft step of 1 ms, a target step of 10 ms, verification of n tokens 10 + n - 1 ms.
COSTS = replace(make_costs(), draft=((0.001,) * 3,) * 2, draft_next=(0.001,) * 3)


def test_the_target_alone_gives_one_token_per_step() -> None:
    assert extrapolated_curves(COSTS, 100, 0.5).target == pytest.approx(100.0)


def test_the_extrapolation_includes_drafts_and_verification() -> None:
    curves = extrapolated_curves(COSTS, 100, 0.8)
    assert curves.extrapolated
    assert curves.gammas == GAMMAS
    for gamma, rate in zip(curves.gammas, curves.forecast, strict=True):
        seconds = gamma * 0.001 + 0.010 + gamma * 0.001
        assert rate == pytest.approx(expected_tokens(0.8, gamma) / seconds)


def test_the_ideal_assumes_a_verification_of_one_step() -> None:
    curves = extrapolated_curves(COSTS, 100, 0.8)
    for gamma, rate in zip(curves.gammas, curves.ideal, strict=True):
        assert rate == pytest.approx(expected_tokens(0.8, gamma) / (gamma * 0.001 + 0.010))


def test_predicted_speedups_are_used_unchanged() -> None:
    curves = predicted_curves(COSTS, 100, (1.2, 1.5, 1.4), alpha=0.6)
    assert not curves.extrapolated
    assert curves.gammas == (1, 2, 3)
    assert curves.forecast == pytest.approx((120.0, 150.0, 140.0))
    assert curves.ideal[0] == pytest.approx(1.6 / 0.011)


def test_drafting_without_a_model_is_free() -> None:
    costs = replace(COSTS, draft=(), draft_next=())
    curves = extrapolated_curves(costs, 100, 0.5)
    assert curves.forecast[1] == pytest.approx(1.75 / 0.012)
