"""Charts of Tune: expected speedups, and how observed speedups differ from them.

Expected values are computed exactly from scored texts and measured step costs; measured values are
drawn over them as points. In these charts, a candidate is a draft or a method to choose from, and
a cell is a value of γ and a temperature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from specviz.figures.catalogue import TIMES_THE_TARGET
from specviz.figures.speedup_words import UNCERTAIN, shown_speedup
from specviz.figures.token_kinds import KindShare
from specviz.figures.waterfall import Waterfall
from specviz.record.numbers import MILLISECONDS_PER_TOKEN, PROBABILITY, RATIO, TOKENS
from specviz.tune.surface import Cell, Surface
from specviz.ui.widgets.chart_style import COLOURS, SERIES, TEXT_SIZE, figure, see_through
from specviz.ui.widgets.error_bars import error_bars
from specviz.values import Value

# Orange is slower than the target alone, grey equal, blue faster: colour-blind readers distinguish
# orange and blue. The scale is logarithmic: 0.5 is as strong as 2. Speedups that are shown as 1.00
# are grey; next to them the colour jumps, so that a small gain is visible.
_DEEPEST = math.log(2.5)
_EVEN = math.log(1.005) / (2 * _DEEPEST)
_SHADES = (
    (0.0, see_through(COLOURS.rejected, 0.7)),
    (0.5 - _EVEN, see_through(COLOURS.rejected, 0.25)),
    (0.5 - _EVEN, see_through(COLOURS.muted, 0.1)),
    (0.5 + _EVEN, see_through(COLOURS.muted, 0.1)),
    (0.5 + _EVEN, see_through(COLOURS.exact, 0.25)),
    (1.0, see_through(COLOURS.exact, 0.7)),
)
_ROW, _AROUND = 24, 84  # pixels: a row of the map, and the space above and below the rows
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star", "hexagon")


class RunPoint(Value):
    """A measured run; ``low`` and ``high`` are the ends of the speedup's interval."""

    label: str
    gamma: int
    temperature: float
    speedup: float
    low: float | None
    high: float | None


class LedgerPoint(Value):
    """A saved run: the speedup expected along the run's tokens, and the observed speedup."""

    label: str
    expected: float
    observed: float
    low: float | None
    high: float | None


def surface_map(
    found: Surface, runs: Sequence[RunPoint], *, temperature: float, ink: str
) -> go.Figure:
    """Draw a map of expected speedups, with a cell per temperature (x axis) and γ (y axis).

    Temperatures are columns, because they are few and the map must fit a phone. Cells can be
    selected. The browser marks selected cells, because a new figure would reset the selection.

    Args:
        runs: Measured runs, marked on their cells.
        temperature: The temperature whose best cell has an outline.
        ink: Colour of the numbers; must be legible on every shade.
    """
    columns, rows = len(found.temperatures), len(found.gammas)
    made = figure(
        x_title="temperature", y_title="candidates per round, γ", height=_ROW * rows + _AROUND
    )
    grid = _Grid(found)
    made.add_heatmap(
        z=[[_shade(each) for each in row] for row in grid.speedups], zmin=-_DEEPEST,
        zmax=_DEEPEST, colorscale=_SHADES, showscale=False, hoverinfo="skip", xgap=2, ygap=2,
    )  # fmt: skip
    cells = [each for each in found.cells if each.speedup is not None]
    made.add_scatter(
        **grid.positions(cells), mode="markers+text",
        customdata=[[each.gamma, each.temperature] for each in cells],
        text=[RATIO.bare(each.speedup or 0.0) for each in cells],
        hovertext=[_cell_tooltip(each) for each in cells],
        hovertemplate="%{hovertext}<extra></extra>",
        textfont={"size": TEXT_SIZE, "color": ink},
        marker={"size": _ROW, "symbol": "square", "color": "rgba(0, 0, 0, 0)"},
        selected={
            "marker": {"opacity": 1, "color": see_through(COLOURS.bonus, 0.5)},
            "textfont": {"color": ink},
        },
        unselected={"marker": {"opacity": 1}, "textfont": {"color": ink}},
        showlegend=False,
    )  # fmt: skip
    made.add_scatter(
        **grid.break_even(), mode="lines", name="break-even",
        line={"color": ink, "width": 2}, hoverinfo="skip",
    )  # fmt: skip
    if (best := found.best_at(temperature)) is not None:
        made.add_scatter(
            **grid.outline(best), name=f"best at T {temperature:g}", mode="lines", hoverinfo="skip",
            line={"color": ink, "width": 4},
        )  # fmt: skip
    measured = [cell for each in runs if (cell := found.cell(each.gamma, each.temperature))]
    if measured:
        made.add_scatter(
            **grid.positions(measured, right=0.36), name="measured", mode="markers",
            hoverinfo="skip", marker={"symbol": "diamond", "size": 9, "color": ink},
        )  # fmt: skip
    made.update_xaxes(**grid.axis(found.temperatures), range=[-0.52, columns - 0.48])
    made.update_yaxes(**grid.axis(found.gammas), range=[rows - 0.45, -0.55])  # γ grows downwards
    made.update_layout(showlegend=True, hoverdistance=100)  # hover anywhere in a cell
    return made


class _Grid:
    """Coordinates on the map: x is the index of the temperature, y is the index of γ."""

    def __init__(self, found: Surface) -> None:
        self._columns = {each: index for index, each in enumerate(found.temperatures)}
        self._rows = {gamma: index for index, gamma in enumerate(found.gammas)}
        self.speedups = [[_speedup(found.cell(g, t)) for t in self._columns] for g in self._rows]

    def positions(self, cells: Sequence[Cell], right: float = 0.0) -> dict[str, list[float]]:
        """Return the cells' midpoints, shifted by ``right`` cell widths to the right."""
        return {
            "x": [self._columns[each.temperature] + right for each in cells],
            "y": [self._rows[each.gamma] for each in cells],
        }

    def outline(self, cell: Cell) -> dict[str, list[float]]:
        x, y = self._columns[cell.temperature], self._rows[cell.gamma]
        return {
            "x": [x + side for side in (-0.5, 0.5, 0.5, -0.5, -0.5)],
            "y": [y + side for side in (-0.5, -0.5, 0.5, 0.5, -0.5)],
        }

    def axis(self, values: Sequence[float]) -> dict[str, Any]:
        return {
            "tickvals": list(range(len(values))),
            "ticktext": [f"{each:g}" for each in values],
            "showgrid": False,
        }

    def break_even(self) -> dict[str, list[float | None]]:
        """Return the segments of the line between speedups above 1 and speedups below 1."""
        x, y = list[float | None](), list[float | None]()
        for row in range(len(self._rows)):
            for column in range(len(self._columns)):
                if self._separates(row, column, row, column + 1):
                    x += [column + 0.5, column + 0.5, None]
                    y += [row - 0.5, row + 0.5, None]
                if self._separates(row, column, row + 1, column):
                    x += [column - 0.5, column + 0.5, None]
                    y += [row + 0.5, row + 0.5, None]
        return {"x": x, "y": y}

    def _separates(self, row: int, column: int, other_row: int, other_column: int) -> bool:
        if other_row >= len(self._rows) or other_column >= len(self._columns):
            return False
        one, other = self.speedups[row][column], self.speedups[other_row][other_column]
        return one is not None and other is not None and (one > 1) != (other > 1)


def speedup_over_gamma(found: Surface, temperature: float, runs: Sequence[RunPoint]) -> go.Figure:
    """Draw expected speedups, with intervals, and measured runs at each γ for one temperature."""
    made = figure(x_title="candidates per round, γ", y_title=TIMES_THE_TARGET, height=330)
    cells = [each for each in found.cells if each.temperature == temperature and each.speedup]
    gammas = [each.gamma for each in cells]
    if all(each.low is not None for each in cells):
        made.add_scatter(
            x=[*gammas, *gammas[::-1]],
            y=[*(each.high for each in cells), *(each.low for each in cells[::-1])],
            fill="toself", fillcolor=see_through(COLOURS.exact, 0.14), line={"width": 0},
            name="95 % interval", hoverinfo="skip",
        )  # fmt: skip
    made.add_scatter(
        x=gammas, y=[each.speedup for each in cells], mode="lines+markers", name="expected",
        line={"color": COLOURS.exact}, text=[_cell_tooltip(each) for each in cells],
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip
    own = [each for each in runs if each.temperature == temperature]
    if own:
        _add_points(made, own)
    made.add_hline(y=1.0, line={"color": COLOURS.ink, "width": 1, "dash": "dot"})
    _scale_over_gamma(made, gammas)
    return made


def _scale_over_gamma(made: go.Figure, gammas: Sequence[int]) -> None:
    """Start the y axis at 0, give every γ a tick, and end the x axis after the last γ."""
    made.update_yaxes(rangemode="tozero")
    made.update_xaxes(dtick=1)
    if gammas:
        made.update_xaxes(range=[min(gammas) - 0.5, max(gammas) + 0.5])
    made.update_layout(showlegend=True)


def _add_points(made: go.Figure, runs: Sequence[RunPoint]) -> None:
    made.add_scatter(
        x=[each.gamma for each in runs],
        y=[each.speedup for each in runs],
        mode="markers",
        name="measured",
        marker={"color": COLOURS.measured, "size": 10, "symbol": "diamond"},
        error_y=error_bars(
            ((each.speedup, each.low, each.high) for each in runs), COLOURS.measured
        ),
        text=[each.label for each in runs],
        hovertemplate=f"%{{text}}: {RATIO.hover()}<extra>measured</extra>",
    )  # fmt: skip


def candidates_chart(
    labels: Sequence[str], surfaces: Sequence[Surface], temperature: float
) -> go.Figure:
    """Draw the speedup at each γ for one temperature, with a line per draft or method."""
    made = figure(x_title="candidates per round, γ", y_title=TIMES_THE_TARGET, height=340)
    for index, (label, found) in enumerate(zip(labels, surfaces, strict=True)):
        cells = [each for each in found.cells if each.temperature == temperature and each.speedup]
        made.add_scatter(
            x=[each.gamma for each in cells], y=[each.speedup for each in cells],
            mode="lines+markers", name=_plain(label),
            line={"color": SERIES[index % len(SERIES)]},
            marker={"symbol": _SYMBOLS[index % len(_SYMBOLS)], "size": 8},
            text=[_cell_tooltip(each) for each in cells],
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip
    made.add_hline(y=1.0, line={"color": COLOURS.ink, "width": 1, "dash": "dot"})
    _scale_over_gamma(made, [gamma for each in surfaces for gamma in each.gammas])
    return made


def waterfall_chart(found: Waterfall) -> go.Figure:
    """Draw the textbook speedup, the observed speedup, and a bar per cause of the difference.

    Bars are horizontal, so that their names on the left are legible on a phone.
    """
    made = figure(x_title=TIMES_THE_TARGET, y_title="", height=400)
    steps, last = found.steps, len(found.steps) - 1
    made.add_waterfall(
        orientation="h",
        y=[_wrapped(each.name) for each in steps],
        x=[each.speedup if each.is_level else each.change for each in steps],
        measure=["absolute", *["relative"] * (last - 1), "total"],
        text=[
            RATIO.shown(each.speedup) if each.is_level else _signed(each.change) for each in steps
        ],
        textposition="outside",
        textfont={"size": TEXT_SIZE},
        customdata=[MILLISECONDS_PER_TOKEN.shown(each.ms_a_token) for each in steps],
        hovertemplate="%{y}: %{text}<br>then %{customdata} per token<extra></extra>",
        connector={"line": {"color": COLOURS.muted, "width": 1}},
        increasing={"marker": {"color": COLOURS.accepted}},
        decreasing={"marker": {"color": COLOURS.rejected}},
        totals={"marker": {"color": COLOURS.target}},
        cliponaxis=False,
    )
    made.add_vline(x=1.0, line={"color": COLOURS.ink, "width": 1, "dash": "dot"})
    ends = [each.speedup for each in steps]
    made.update_xaxes(range=[min(0.0, *ends), 1.22 * max(ends)])  # room for the numbers
    made.update_yaxes(autorange="reversed", showgrid=False)
    return made


def kinds_chart(kinds: Sequence[KindShare]) -> go.Figure:
    """Draw the mean acceptance probability of each kind of token, for example of punctuation."""
    made = figure(x_title="", y_title="acceptance probability", height=300)
    made.add_scatter(
        x=[f"{_wrapped(each.kind, 1)}<br>{each.count:,}" for each in kinds],
        y=[each.odds for each in kinds],
        mode="markers",
        marker={"size": 12, "color": COLOURS.exact},
        error_y=error_bars(((each.odds, each.low, each.high) for each in kinds), COLOURS.exact),
        hovertemplate=f"%{{x}}: {PROBABILITY.hover()}<extra></extra>",
    )  # fmt: skip
    made.update_yaxes(range=[0, 1.05])
    made.update_xaxes(tickangle=0)
    made.update_layout(margin_b=66, margin_t=12)
    return made


def ledger_chart(points: Sequence[LedgerPoint]) -> go.Figure:
    """Draw observed (y) against expected speedups (x): a point per run, and the line y = x."""
    made = figure(x_title="expected along the run's tokens", y_title="observed", height=420)
    values = [value for each in points for value in (each.expected, each.observed)]
    highest = max(values, default=1.0)
    ends = [each.high for each in points if each.high is not None]
    top = 1.1 * min(2 * highest, max([highest, *ends]))  # cuts off very long intervals
    made.add_scatter(
        x=[0, top], y=[0, top], mode="lines", name="as expected", hoverinfo="skip",
        line={"color": COLOURS.ink, "dash": "dot", "width": 1},
    )  # fmt: skip
    made.add_scatter(
        x=[each.expected for each in points],
        y=[each.observed for each in points],
        mode="markers", name="a run",
        marker={"color": COLOURS.measured, "size": 9},
        error_y=error_bars(
            ((each.observed, each.low, each.high) for each in points),
            see_through(COLOURS.measured, 0.5), thickness=1,
        ),
        text=[_plain(each.label) for each in points],
        hovertemplate=f"%{{text}}<br>expected {RATIO.hover('x')}, observed {RATIO.hover()}"
        "<extra></extra>",
    )  # fmt: skip
    made.update_xaxes(range=[0, top], constrain="domain", constraintoward="left")
    made.update_yaxes(range=[0, top], constrain="domain", scaleanchor="x")
    made.update_layout(showlegend=True)
    return made


def _speedup(cell: Cell | None) -> float | None:
    return None if cell is None else cell.speedup


def _shade(speedup: float | None) -> float | None:
    return None if speedup is None else math.log(speedup)


def _cell_tooltip(cell: Cell) -> str:
    tokens = f"{TOKENS.bare(cell.tau)} tokens per round"
    head = f"γ {cell.gamma}, temperature {cell.temperature:g}"
    return f"{head}: {shown_speedup(cell.speedup, cell.low, cell.high, UNCERTAIN)}<br>{tokens}"


def _plain(label: str) -> str:
    """Replace "<" in a label, because Plotly renders markup."""
    return label.replace("<", "‹")


def _signed(change: float) -> str:
    return f"{'−' if change < 0 else '+'}{RATIO.bare(abs(change))}"


def _wrapped(name: str, most: int = 2) -> str:
    """Break a name into lines of at most ``most`` words."""
    words = name.split()
    return "<br>".join(" ".join(words[at : at + most]) for at in range(0, len(words), most))
