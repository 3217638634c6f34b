"""The charts of Compare match the runs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from specviz.figures.catalogue import CATALOGUE
from specviz.figures.metrics import metrics
from specviz.figures.throughput import extrapolated_curves
from specviz.player.player_source import player_source
from specviz.player.racing import MOST_LANES
from specviz.record.trace import RunConfig, Trace
from specviz.ui.compare import charts
from specviz.ui.compare.charts import KindReadings, LaneRuns
from specviz.ui.widgets.error_bars import Reading
from tests.traces import Passes, make_costs, make_round, make_trace


def timed(*verdicts: str, config: RunConfig | None = None) -> Trace:
    rounds = [make_round(each) for each in verdicts]
    tokens = sum(len(each.emitted) for each in rounds)
    return make_trace(
        rounds,
        config=config or RunConfig(gamma=3),
        step_costs=make_costs(),
        baseline=Passes(
            target=([0.010] * tokens, [0.012] * tokens),
            speculative=([0.02] * len(rounds), [0.02] * len(rounds)),
        ),
    )


def lane_of(label: str, traces: tuple[Trace, ...], speedup: Reading | None = None) -> LaneRuns:
    figures = tuple(metrics(each, intervals=False) for each in traces)
    return LaneRuns(label=label, traces=traces, figures=figures, speedup=speedup)


ONE = lane_of(
    label="γ 3",
    traces=(timed("aar", "aaa"), timed("rdd")),
    speedup=Reading(value=1.3, low=1.2, high=1.5),
)
TWO = lane_of(
    label="prompt lookup",
    traces=(timed("a", "", config=RunConfig(gamma=3, drafter="prompt-lookup")),),
    speedup=Reading(value=0.9),
)
NONE = lane_of(label="nothing", traces=(make_trace([]),))


def named(made: Any, name: str) -> Any:
    (found,) = [each for each in made.data if each.name == name]
    return found


def test_acceptance_by_position_pools_the_runs_of_a_lane() -> None:
    made: Any = charts.alpha_by_position([ONE, TWO])
    line = named(made, "γ 3")
    assert list(line.x) == [1, 2, 3]
    assert list(line.y) == pytest.approx([2 / 3, 1.0, 1 / 2])
    assert list(line.customdata) == [3, 2, 2]
    assert list(named(made, "prompt lookup").y) == [1.0]
    alone: Any = charts.alpha_by_position([lane_of(label="one", traces=ONE.traces[:1])])
    known = [each for each in metrics(ONE.traces[0]).alpha_by_position if each is not None]
    assert list(alone.data[0].y) == pytest.approx(known)


def test_the_player_shows_a_lane_in_its_colour() -> None:
    _, style = player_source()
    shown = re.findall(r"\.lane\[data-index=\"\d\"\] \{ --lane: (#\w+)", style)
    drawn: Any = charts.alpha_by_position([ONE] * MOST_LANES)
    assert shown == [each.line.color for each in drawn.data]


def test_tokens_per_round_are_shares_of_whole_rounds_with_tau() -> None:
    made: Any = charts.tokens_per_round([ONE, TWO])
    bars = named(made, "γ 3: τ of all rounds 2.67")
    assert list(bars.y) == pytest.approx([1 / 3, 0.0, 1 / 3, 1 / 3])
    assert made.layout.shapes[0].x0 == pytest.approx(8 / 3)
    cut = lane_of(label="cut", traces=(make_trace([make_round("aa", cut="length")]),))
    drawn: Any = charts.tokens_per_round([cut])
    assert not drawn.data


def test_time_per_token_stacks_the_phases() -> None:
    made: Any = charts.time_per_token([ONE, TWO])
    per_round = {"draft": 2.0, "verify": 4.0, "other": 1.0}  # milliseconds, as rounds are made
    for phase, spent in per_round.items():
        assert list(named(made, phase).x) == pytest.approx([3 * spent / 8, 2 * spent / 3])
    assert list(named(made, "target alone").x) == pytest.approx([11.0])


def test_expected_curve_over_gamma_with_a_point_per_lane() -> None:
    made: Any = charts.speedup_over_gamma([ONE, TWO])
    curves = extrapolated_curves(make_costs(), 4 + 64, 0.5)
    curve = named(made, "γ 3, expected")
    assert list(curve.y) == pytest.approx([each / curves.target for each in curves.forecast])
    point = named(made, "γ 3")
    assert (list(point.x), list(point.y)) == ([3], [1.3])
    assert list(point.error_y.array) == pytest.approx([0.2])
    assert list(point.error_y.arrayminus) == pytest.approx([0.1])
    assert {each.name for each in made.data} == {"γ 3, expected", "γ 3", "prompt lookup"}


def test_kinds_keep_their_order_and_gaps() -> None:
    kinds = [
        KindReadings(kind="story", readings=(Reading(value=1.5, low=1.4, high=1.6), None)),
        KindReadings(kind="list", readings=(Reading(value=1.2), Reading(value=2.0))),
    ]
    made: Any = charts.by_kind(["one", "two"], kinds, CATALOGUE["speedup_observed"])
    assert list(made.data[0].x) == ["story", "list"]
    assert (list(made.data[1].x), list(made.data[1].y)) == (["list"], [2.0])
    assert list(made.layout.xaxis.categoryarray) == ["story", "list"]


def test_long_interval_does_not_flatten_the_other_kinds() -> None:
    wide = KindReadings(kind="list", readings=(Reading(value=2.0, low=0.0, high=5000.0),))
    near = KindReadings(kind="story", readings=(Reading(value=1.0, low=0.5, high=3.0),))
    both: Any = charts.by_kind(["one"], [wide, near], CATALOGUE["speedup_observed"])
    alone: Any = charts.by_kind(["one"], [near], CATALOGUE["speedup_observed"])
    assert both.layout.yaxis.range[1] == pytest.approx(6.3)
    assert alone.layout.yaxis.range[1] == pytest.approx(3.15)


def test_long_interval_does_not_flatten_the_curves_over_gamma() -> None:
    made: Any = charts.speedup_over_gamma([ONE])
    curve = named(made, "γ 3, expected")
    highest = max(*curve.y, 1.3)
    endless = replace(ONE, speedup=Reading(value=1.3, low=0.06, high=5000.0))
    cut: Any = charts.speedup_over_gamma([endless])
    assert cut.layout.yaxis.range == pytest.approx((0, 1.05 * 3 * highest))
    assert made.layout.yaxis.range == pytest.approx((0, 1.05 * max(*curve.y, 1.5)))


def test_lanes_without_rounds_draw_nothing() -> None:
    for draw in (
        charts.alpha_by_position,
        charts.tokens_per_round,
        charts.time_per_token,
        charts.speedup_over_gamma,
    ):
        made: Any = draw([NONE])
        assert not [x for each in made.data for x in (each.x or ())]


def test_lane_has_the_same_colour_and_symbol_in_every_chart() -> None:
    position: Any = charts.alpha_by_position([ONE, TWO])
    gamma: Any = charts.speedup_over_gamma([ONE, TWO])
    for label in ("γ 3", "prompt lookup"):
        assert named(position, label).marker.symbol == named(gamma, label).marker.symbol
        assert named(position, label).line.color == named(gamma, label).marker.color
