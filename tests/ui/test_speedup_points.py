"""Runs and rows of papers as points on the map."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from specviz.figures.step_times import StepTimes
from specviz.theory.papers import CHINCHILLA, CHINCHILLA_GAMMA, LEVIATHAN
from specviz.theory.speed import speedup
from specviz.ui.session.history import History, recorded_run
from specviz.ui.theory.speed.speedup_points import (
    chinchilla_points,
    leviathan_points,
    run_points,
    session_runs,
)


def test_point_of_a_run_has_its_measured_values() -> None:
    shown = dataclasses.replace(recorded_run(), id="abcdef12")
    (point,) = run_points([shown])
    figures = shown.figures
    assert (point.alpha, point.c, point.speedup, point.run_id) == (
        figures.alpha_expected, figures.c, figures.speedup_observed, "abcdef12",
    )  # fmt: skip
    assert point.label.startswith("run abcdef: γ 5")


@pytest.mark.parametrize("missing", [{"steps": StepTimes()}, {"timing": None}])
def test_untimed_run_has_no_point(missing: dict[str, Any]) -> None:
    known = recorded_run()
    figures = dataclasses.replace(known.figures, **missing)
    assert run_points([dataclasses.replace(known, figures=figures)]) == []


def test_session_runs_fall_back_to_the_recorded_run() -> None:
    assert [each.id for each in session_runs(History())] == ["recorded"]


def test_points_of_papers_match_their_rows() -> None:
    assert [point.speedup for point in leviathan_points()] == [row.measured for row in LEVIATHAN]
    for point, row in zip(chinchilla_points(), CHINCHILLA, strict=True):
        assert speedup(point.alpha, CHINCHILLA_GAMMA, point.c) == pytest.approx(row.speedup)
