"""The charts of Tune match their data."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from specviz.figures.token_kinds import KindShare
from specviz.figures.waterfall import Waterfall, WaterfallStep
from specviz.tune.surface import Cell, Surface
from specviz.ui.tune import charts
from specviz.ui.tune.charts import LedgerPoint, RunPoint
from specviz.ui.widgets.chart_style import COLOURS

INK = "#123456"
DRAW: Any = charts  # plotly's types are incomplete


def cell(gamma: int, temperature: float, speedup: float | None, **changes: Any) -> Cell:
    made = Cell(
        gamma=gamma, temperature=temperature, tau=2.5, speedup=speedup, low=None, high=None,
        num_texts=1,
    )  # fmt: skip
    return replace(made, **changes)


def surface_of(rows: dict[float, list[float | None]]) -> Surface:
    return Surface(
        cells=tuple(
            cell(gamma, temperature, speedup)
            for temperature, row in rows.items()
            for gamma, speedup in enumerate(row, 1)
        )
    )


def named(figure: Any, name: str) -> Any:
    return next(each for each in figure.data if each.name == name)


def point(**changes: Any) -> RunPoint:
    made = RunPoint(label="a", gamma=2, temperature=0.7, speedup=1.5, low=1.4, high=1.7)
    return replace(made, **changes)


# -- the map

MAP = surface_of({0.0: [1.4, 0.9, 0.5], 0.7: [1.2, 1.3, 0.8]})


def test_every_cell_has_its_number_and_setting() -> None:
    numbers = DRAW.surface_map(MAP, [], temperature=0.7, ink=INK).data[1]
    assert list(numbers.text) == ["1.40", "0.90", "0.50", "1.20", "1.30", "0.80"]
    assert [tuple(each) for each in numbers.customdata] == [
        (1, 0.0), (2, 0.0), (3, 0.0), (1, 0.7), (2, 0.7), (3, 0.7)
    ]  # fmt: skip
    assert list(zip(numbers.x, numbers.y, strict=True))[3:5] == [(1, 0), (1, 1)]
    assert numbers.textfont.color == INK
    assert numbers.hovertext[0] == "γ 1, temperature 0: 1.40×<br>2.50 tokens per round"


def test_cell_without_a_speedup_stays_empty() -> None:
    found = surface_of({0.0: [1.4, None], 0.7: [1.2, 1.1]})
    drawn = DRAW.surface_map(found, [], temperature=0.7, ink=INK)
    assert drawn.data[0].z[1][0] is None
    assert len(drawn.data[1].text) == 3
    alone = Surface(cells=found.cells[:1] + found.cells[2:])  # without that cell
    assert DRAW.surface_map(alone, [], temperature=0.7, ink=INK).data[0].z[1][0] is None


def test_twice_and_half_as_fast_have_opposite_shades() -> None:
    shades = DRAW.surface_map(
        surface_of({0.0: [2.0, 1.0, 0.5]}), [], temperature=0.7, ink=INK
    ).data[0]
    first, none, last = (row[0] for row in shades.z)
    assert (first, none) == (pytest.approx(-last), 0.0)
    assert shades.zmin == -shades.zmax


def test_a_small_gain_has_the_colour_of_a_gain() -> None:
    shades = DRAW.surface_map(
        surface_of({0.0: [1.05, 1.0, 0.95]}), [], temperature=0.7, ink=INK
    ).data[0]
    places = [0.5 + row[0] / (2 * shades.zmax) for row in shades.z]
    gain, none, loss = (shade_at(shades.colorscale, place) for place in places)
    assert gain == COLOURS.exact
    assert loss == COLOURS.rejected
    assert none == COLOURS.muted


def shade_at(colorscale: Any, place: float) -> str:
    """Return the colour of both ends of the part of a scale that contains ``place``."""
    ends = next(
        (one[1], other[1])
        for one, other in itertools.pairwise(colorscale)
        if one[0] < place < other[0]
    )
    (found,) = {each.rpartition(",")[0] for each in ends}
    return "#" + "".join(f"{int(each):02x}" for each in found.removeprefix("rgba(").split(","))


def test_break_even_runs_along_the_edges() -> None:
    """By hand: separates γ 1 from 2 at temperature 0, γ 2 from 3 at 0.7, and the rows at γ 2."""
    edge = named(DRAW.surface_map(MAP, [], temperature=0.7, ink=INK), "break-even")
    parts = list(zip(edge.x, edge.y, strict=True))
    assert parts == [
        (-0.5, 0.5), (0.5, 0.5), (None, None),
        (0.5, 0.5), (0.5, 1.5), (None, None),
        (0.5, 1.5), (1.5, 1.5), (None, None),
    ]  # fmt: skip


def test_no_break_even_line_if_all_cells_are_faster() -> None:
    edge = named(
        DRAW.surface_map(surface_of({0.0: [1.4, 1.2]}), [], temperature=0.7, ink=INK), "break-even"
    )
    assert not edge.x


def test_marks_the_best_the_measured_and_the_selected_cells() -> None:
    elsewhere = point(gamma=9)  # no cell of this map
    drawn = DRAW.surface_map(MAP, [point(), elsewhere], temperature=0.7, ink=INK)
    best = named(drawn, "best at T 0.7")  # not of all: at 0 the first cell is faster
    assert [(min(each), max(each)) for each in (best.x, best.y)] == [(0.5, 1.5), (0.5, 1.5)]
    assert drawn.data[1].selected.marker.color != drawn.data[1].marker.color
    mark = named(drawn, "measured")
    assert [(round(x), y) for x, y in zip(mark.x, mark.y, strict=True)] == [(1, 1)]
    names = {each.name for each in DRAW.surface_map(MAP, [], temperature=0.7, ink=INK).data}
    assert "measured" not in names


def test_unknown_surface_has_no_best_cell() -> None:
    drawn = DRAW.surface_map(surface_of({0.0: [None, None]}), [], temperature=0.7, ink=INK)
    assert "best at T 0.7" not in {each.name for each in drawn.data}


# -- over gamma


def test_one_temperature_with_band_and_runs() -> None:
    cells = [cell(gamma, 0.7, 1.0 + gamma / 10, low=1.0, high=2.0) for gamma in (1, 2, 3)]
    found = Surface(cells=(*cells, cell(1, 0.0, 9.0)))
    drawn = DRAW.speedup_over_gamma(found, 0.7, [point(), point(temperature=0.0)])
    assert list(named(drawn, "expected").y) == [pytest.approx(each) for each in (1.1, 1.2, 1.3)]
    band = named(drawn, "95 % interval")
    assert list(band.x) == [1, 2, 3, 3, 2, 1]
    assert list(band.y) == [2.0, 2.0, 2.0, 1.0, 1.0, 1.0]
    measured = named(drawn, "measured")
    assert list(measured.y) == [1.5]
    assert list(measured.error_y.array) == [pytest.approx(0.2)]
    assert list(measured.error_y.arrayminus) == [pytest.approx(0.1)]
    assert drawn.layout.xaxis.range == (0.5, 3.5)


def test_no_band_without_intervals() -> None:
    drawn = DRAW.speedup_over_gamma(MAP, 0.7, [point(low=None, high=None)])
    assert "95 % interval" not in {each.name for each in drawn.data}
    assert list(named(drawn, "measured").error_y.array) == [0.0]


def test_draws_a_temperature_without_cells() -> None:
    assert not DRAW.speedup_over_gamma(MAP, 1.9, []).data[-1].x


def test_escapes_names_of_candidates() -> None:
    drawn = DRAW.candidates_chart(["<b>one</b>", "two"], [MAP, MAP], 0.7)
    assert [each.name for each in drawn.data] == ["‹b>one‹/b>", "two"]
    assert list(drawn.data[0].y) == [1.2, 1.3, 0.8]
    assert len({each.line.color for each in drawn.data}) == 2
    assert len({each.marker.symbol for each in drawn.data}) == 2


# -- a run


def steps(*levels: float) -> Waterfall:
    names = ("textbook", "acceptance by position", "clustering along the text",
             "measured verification", "drafting's first step", "rest of the engine")  # fmt: skip
    before = [levels[0], *levels]
    made = [
        WaterfallStep(
            name=name, words="", speedup=level, change=level - was, ms_a_token=10 / level,
            change_ms=10 / level - 10 / was,
        )
        for name, level, was in zip(names, levels, before, strict=False)
    ]  # fmt: skip
    end = replace(made[-1], name="observed", change=0.0, change_ms=0.0)
    return Waterfall(steps=(*made, end))


def test_waterfall_adds_up() -> None:
    drawn = DRAW.waterfall_chart(steps(2.3, 2.05, 2.35, 1.92, 0.89, 1.36)).data[0]
    assert list(drawn.measure) == ["absolute", *["relative"] * 5, "total"]
    assert sum(drawn.x[:-1]) == pytest.approx(drawn.x[-1]) == pytest.approx(1.36)
    assert list(drawn.text) == ["2.30×", "−0.25", "+0.30", "−0.43", "−1.03", "+0.47", "1.36×"]
    assert drawn.customdata[0] == "4.35 ms"


def test_names_of_causes_are_beside_the_bars() -> None:
    """Below seven bars they would overlap on a phone."""
    drawn = DRAW.waterfall_chart(steps(2.3, 2.05, 2.35, 1.92, 0.89, 1.36))
    assert drawn.data[0].orientation == "h"
    assert drawn.data[0].y[2] == "clustering along<br>the text"
    assert drawn.layout.yaxis.autorange == "reversed"


def test_kinds_of_tokens_with_their_intervals() -> None:
    kinds = [
        KindShare(kind="word start", count=1200, odds=0.7, low=0.6, high=0.9),
        KindShare(kind="blank", count=2, odds=0.5, low=None, high=None),
    ]
    drawn = DRAW.kinds_chart(kinds).data[0]
    assert list(drawn.x) == ["word<br>start<br>1,200", "blank<br>2"]
    assert list(drawn.error_y.array) == [pytest.approx(0.2), 0.0]
    assert list(drawn.error_y.arrayminus) == [pytest.approx(0.1), 0.0]


# -- the ledger


def kept(**changes: Any) -> LedgerPoint:
    made = LedgerPoint(label="<i>x</i>", expected=1.5, observed=1.2, low=1.1, high=1.4)
    return replace(made, **changes)


def test_ledger_has_a_line_of_equality() -> None:
    drawn = DRAW.ledger_chart([kept(), kept(expected=2.0, observed=2.1, low=None, high=None)])
    line, runs = drawn.data
    assert list(line.x) == list(line.y) == [0, pytest.approx(2.31)]
    assert (list(runs.x), list(runs.y)) == ([1.5, 2.0], [1.2, 2.1])
    assert list(runs.error_y.array) == [pytest.approx(0.2), 0.0]
    assert runs.text[0] == "‹i>x‹/i>"
    assert drawn.layout.yaxis.scaleanchor == "x"  # so that the line rises by 45 degrees


def test_cuts_off_very_long_intervals() -> None:
    assert DRAW.ledger_chart([kept(high=2.0)]).layout.yaxis.range[1] == pytest.approx(2.2)
    assert DRAW.ledger_chart([kept(high=99.0)]).layout.yaxis.range[1] == pytest.approx(3.3)
    assert DRAW.ledger_chart([]).layout.yaxis.range[1] == pytest.approx(1.1)
