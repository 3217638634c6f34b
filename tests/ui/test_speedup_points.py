"""Runs and rows as points on the map."""

from __future__ import annotations

import dataclasses

import pytest

from specviz.theory.papers import CHINCHILLA, CHINCHILLA_GAMMA, LEVIATHAN
from specviz.theory.speed import speedup
from specviz.ui.session.history import History, recorded_run
from specviz.ui.theory.speed.speedup_points import (
    chinchilla_points,
    known_alpha,
    leviathan_points,
    run_points,
    session_runs,
)


def test_a_run_stands_where_it_was_measured() -> None:
    shown = dataclasses.replace(recorded_run(), id="abcdef12")
    (point,) = run_points([shown])
    figures = shown.figures
    assert (point.alpha, point.c, point.speedup, point.run_id) == (
        figures.alpha_expected, figures.c, figures.speedup_observed, "abcdef12",
    )  # fmt: skip
    assert point.label.startswith("run abcdef: γ 5")


@pytest.mark.parametrize("missing", ["c", "speedup_observed"])
def test_a_run_that_was_not_timed_has_no_point(missing: str) -> None:
    known = recorded_run()
    figures = dataclasses.replace(known.figures, **{missing: None})
    assert run_points([dataclasses.replace(known, figures=figures)]) == []


def test_without_odds_alpha_is_what_was_observed() -> None:
    known = recorded_run()
    figures = dataclasses.replace(known.figures, alpha_expected=None)
    assert known_alpha(dataclasses.replace(known, figures=figures)) == figures.alpha_observed


def test_without_runs_the_recorded_one_stands_in() -> None:
    assert [each.id for each in session_runs(History())] == ["recorded"]


def test_rows_of_papers() -> None:
    assert [point.speedup for point in leviathan_points()] == [row.measured for row in LEVIATHAN]
    for point, row in zip(chinchilla_points(), CHINCHILLA, strict=True):
        assert speedup(point.alpha, CHINCHILLA_GAMMA, point.c) == pytest.approx(row.speedup)
