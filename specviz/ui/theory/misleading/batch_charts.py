"""Charts of batches on one machine: measured and forecast speedups, costs, and experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import plotly.graph_objects as go

from specviz.figures.batch_forecast import MapPoint
from specviz.figures.catalogue import TIMES_THE_TARGET
from specviz.record.batch_costs import BatchCosts, BatchPoint, ExpertReads
from specviz.record.numbers import RATIO, STEPS, UNKNOWN
from specviz.ui.theory.misleading.charts import add_line
from specviz.ui.widgets.chart_style import COLOURS, SERIES, figure
from specviz.ui.widgets.error_bars import error_bars
from specviz.values import Value

_SEQUENCES = "sequences in the batch"


class EnginePoint(Value):
    """The speedup of a serving engine at a number of users, from a load sweep."""

    engine: str
    users: float
    speedup: float


def speedup_over_batch(
    points: Sequence[BatchPoint], engines: Sequence[EnginePoint] = ()
) -> go.Figure:
    """Draw forecast and measured speedups at each batch size, and speedups of serving engines."""
    made = figure(x_title=_SEQUENCES, y_title=TIMES_THE_TARGET)
    batches = [each.batch for each in points]
    forecasts = [each.forecast for each in points]
    add_line(made, batches, forecasts, "forecast", COLOURS.exact, dash="dash", symbol="circle")
    made.add_scatter(
        x=batches,
        y=[each.speedup for each in points],
        error_y=error_bars(
            ((each.speedup, each.low, each.high) for each in points), COLOURS.measured
        ),
        mode="lines+markers",
        name="measured, all sequences running",
        line={"color": COLOURS.measured},
        marker={"size": 9},
        hovertemplate=f"%{{x}} sequences: {RATIO.hover()}<extra>measured</extra>",
    )
    for name, values, colour, symbol in (
        ("whole batch, compact", [each.compact for each in points], SERIES[2], "diamond"),
        ("whole batch, padded", [each.padded for each in points], SERIES[1], "square"),
    ):
        add_line(made, batches, values, name, colour, dash="dot", symbol=symbol)
    for engine in dict.fromkeys(each.engine for each in engines):
        own = [each for each in engines if each.engine == engine]
        made.add_scatter(
            x=[each.users for each in own],
            y=[each.speedup for each in own],
            mode="markers",
            name=engine,
            marker={"symbol": "x", "size": 8, "color": COLOURS.muted},
            hovertemplate=f"%{{x}} users: {RATIO.hover()}<extra>{engine}</extra>",
        )
    _over_batches(made, [*batches, *(round(each.users) for each in engines)])
    made.add_hline(y=1.0, line={"color": COLOURS.ink, "width": 1, "dash": "dot"})
    made.update_yaxes(rangemode="tozero")
    return made


def speedup_map(rows: Sequence[Sequence[MapPoint]], gamma: int) -> go.Figure:
    """Draw a map of forecast speedups, by batch size (columns) and context length (rows).

    A cell shows its best γ and the speedup at this γ. A line marks where γ = ``gamma`` breaks even.
    """
    made = figure(x_title=_SEQUENCES, y_title="context, tokens", height=110 + 66 * len(rows))
    made.add_heatmap(
        x=list(range(len(rows[0]))),
        y=list(range(len(rows))),
        z=[[each.speedup for each in row] for row in rows],
        text=[[_cell(each) for each in row] for row in rows],
        texttemplate="%{text}",
        textfont={"size": 12},
        colorscale="RdBu",
        zmid=1.0,
        colorbar={"title": {"text": TIMES_THE_TARGET, "side": "right"}},
        customdata=[[f"{each.batch} × {each.context:,} tokens" for each in row] for row in rows],
        hovertemplate="%{customdata}: %{text}<extra>forecast</extra>",
        xgap=2,
        ygap=2,
    )
    xs, ys = _break_even_line(rows)
    made.add_scatter(
        x=xs,
        y=ys,
        mode="lines",
        line={"color": COLOURS.ink, "width": 3},
        name=f"break-even of γ {gamma}",
        hoverinfo="skip",
    )
    _name_places(made.update_xaxes, [str(each.batch) for each in rows[0]])
    _name_places(made.update_yaxes, [f"{row[0].context:,}" for row in rows])
    return made


def _name_places(update: Callable[..., object], names: Sequence[str]) -> None:
    update(tickvals=list(range(len(names))), ticktext=list(names), showgrid=False)


def _cell(point: MapPoint) -> str:
    if point.speedup is None or point.gamma is None:
        return UNKNOWN
    return "plain" if point.gamma == 0 else f"γ {point.gamma}<br>{RATIO.shown(point.speedup)}"


def _break_even_line(
    rows: Sequence[Sequence[MapPoint]],
) -> tuple[list[float | None], list[float | None]]:
    """Return x and y of the line that separates speedups above 1 from those below 1.

    Coordinates are cell indices. The speedups are the points' ``fixed``: forecasts at one fixed γ.
    """
    xs, ys = list[float | None](), list[float | None]()
    for y, row in enumerate(rows):
        fixed = [each.fixed for each in row]
        for x, (left, right) in enumerate(pairwise(fixed)):
            if left is not None and right is not None and (left >= 1.0) != (right >= 1.0):
                xs += [x + 0.5, x + 0.5, None]
                ys += [y - 0.5, y + 0.5, None]
    for y, (lower, upper) in enumerate(pairwise(rows)):
        for x, (one, other) in enumerate(zip(lower, upper, strict=True)):
            if one.fixed is None or other.fixed is None:
                continue
            if (one.fixed >= 1.0) != (other.fixed >= 1.0):
                xs += [x - 0.5, x + 0.5, None]
                ys += [y + 0.5, y + 0.5, None]
    return xs, ys


def verification_cost(costs: BatchCosts, gamma: int) -> go.Figure:
    """Draw v, the cost of verifying ``gamma`` candidates, by batch size and context length."""
    made = figure(x_title=_SEQUENCES, y_title="cost of a verification, v")
    for context, colour in zip(costs.contexts, SERIES, strict=False):
        batches = [each for each in costs.batches if costs.fits(each, context)]
        values = [costs.v(each, context, gamma) for each in batches]
        add_line(made, batches, values, f"{context:,} tokens", colour, symbol="circle")
    _over_batches(made, costs.batches)
    made.add_hline(
        y=gamma + 1.0,
        line={"color": COLOURS.muted, "dash": "dash"},
        annotation={"text": f"{gamma + 1}: no token is free"},
    )
    made.update_yaxes(rangemode="tozero")
    return made


def experts_over_rows(reads: ExpertReads) -> go.Figure:
    """Draw how many experts a pass reads and how long it takes, at each number of rows (tokens).

    Both are measured. A further line shows the number of experts under independent routing.
    """
    made = figure(x_title="rows of a pass", y_title=f"experts read, of {reads.experts}")
    rows = [each.rows for each in reads.points]
    experts = [each.experts for each in reads.points]
    add_line(made, rows, experts, "measured", COLOURS.measured, symbol="circle")
    independent = [each.independent for each in reads.points]
    add_line(
        made, rows, independent, "independent routing", COLOURS.exact, dash="dash", symbol="square"
    )
    made.add_scatter(
        x=rows,
        y=[each.seconds for each in reads.points],
        mode="lines+markers",
        name="time, in passes of one row",
        line={"color": COLOURS.rejected, "dash": "dot"},
        hovertemplate=f"%{{x}} rows: {STEPS.hover()} passes<extra>time</extra>",
    )
    made.update_yaxes(rangemode="tozero")
    return made


def _over_batches(made: go.Figure, batches: Sequence[int]) -> None:
    values = sorted(set(batches))
    made.update_xaxes(type="log", tickvals=values, ticktext=[str(each) for each in values])
