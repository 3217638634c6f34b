"""Charts of load sweeps: throughput against latency; speedup and tokens per round at each load.

A lane is one way to serve the model: with a certain kind of speculation, or the target alone. A
level is one load: a number of users, or a number of requests per second.

A second sweep, shown for comparison, has dashed lines and open marks. Results of other tools have
diamonds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import plotly.graph_objects as go

from specviz.record.numbers import MILLISECONDS, RATE, RATIO, TOKENS, Quantity
from specviz.ui.widgets.chart_style import COLOURS, TEXT_SIZE, figure, see_through
from specviz.ui.widgets.error_bars import Reading, error_bars
from specviz.values import Value

LANE_COLOURS = ("#1a9c76", "#d1932f", "#a163c7", "#d9622b", "#8a93a0")
ALONE_COLOUR = COLOURS.target
Source = Literal["this", "other", "foreign"]
_MARKS: dict[Source, str] = {"this": "circle", "other": "circle-open", "foreign": "diamond"}
_DASHES: dict[Source, str] = {"this": "solid", "other": "dash", "foreign": "dot"}
_SHADE = 0.13
_HEIGHT = 330


class LoadPoint(Value):
    """A point of a lane at one load, ``level``; ``level_text`` is the load with its unit."""

    level: float
    level_text: str
    y: Reading
    x: Reading | None = None  # the latency; None if the load is on the x axis


class LoadSeries(Value):
    """A line of a chart: an engine, with or without speculation, with a point per load."""

    name: str
    colour: str
    source: Source = "this"
    points: tuple[LoadPoint, ...]


class BreakEvenSpan(Value):
    """The load at which speculation is as fast as the target alone, with its interval.

    If ``has_interval`` is False, there is no interval. Otherwise, a ``low`` or ``high`` of None
    means that the interval ends beyond the measured loads.
    """

    name: str
    colour: str
    level: float | None
    low: float | None
    high: float | None
    has_interval: bool


def throughput_chart(lanes: Sequence[LoadSeries]) -> go.Figure:
    """Draw total throughput against time per output token, with one point per load."""
    made = figure(x_title="time per output token, ms", y_title="output tokens/s", height=400)
    for lane in lanes:
        points = [each for each in lane.points if each.x is not None]
        ends = [each.x for each in points if each.x is not None]
        made.add_scatter(
            **_style(lane),
            mode="lines+markers+text",
            x=[each.value for each in ends],
            y=[each.y.value for each in points],
            error_x=_error_bars(ends, lane.colour),
            error_y=_error_bars([each.y for each in points], lane.colour),
            text=[f"{each.level:g}" for each in points],
            textposition="top left" if lane.source == "this" else "bottom right",
            textfont={"size": TEXT_SIZE, "color": lane.colour},
            customdata=[[each.level_text] for each in points],
            hovertemplate=f"%{{customdata[0]}}: {RATE.hover()} tokens/s, "
            f"{MILLISECONDS.hover('x')} per token<extra>{lane.name}</extra>",
            cliponaxis=False,
        )
    points = [each for lane in lanes for each in lane.points]
    made.update_xaxes(range=[0, _highest([each.x for each in points if each.x is not None])])
    made.update_yaxes(range=[0, _highest([each.y for each in points])])
    return _with_legend(made)


def speedup_chart(
    lanes: Sequence[LoadSeries], break_evens: Sequence[BreakEvenSpan], *, x_title: str
) -> go.Figure:
    """Draw the speedup at each load, and the break-even load with its interval as a shaded area."""
    made = _over_load(lanes, x_title=x_title, y_title="speedup", quantity=RATIO)
    levels = _levels(lanes)
    made.add_hline(y=1, line={"color": COLOURS.muted, "dash": "dash", "width": 1.5})
    for place, each in enumerate(break_evens):
        _add_break_even(made, each, levels, place)
    ends = [Reading(value=1.0), *(each.y for lane in lanes for each in lane.points)]
    made.update_yaxes(ticksuffix="×", range=[0, _highest(ends)])
    return made


def acceptance_chart(lanes: Sequence[LoadSeries], *, x_title: str) -> go.Figure:
    """Draw the tokens per round at each load."""
    made = _over_load(lanes, x_title=x_title, y_title="tokens per round, τ", quantity=TOKENS)
    made.update_yaxes(range=[0, _highest([each.y for lane in lanes for each in lane.points])])
    return made


def _over_load(
    lanes: Sequence[LoadSeries], *, x_title: str, y_title: str, quantity: Quantity
) -> go.Figure:
    made = figure(x_title=x_title, y_title=y_title, height=_HEIGHT)
    for lane in lanes:
        made.add_scatter(
            **_style(lane),
            mode="lines+markers",
            x=[each.level for each in lane.points],
            y=[each.y.value for each in lane.points],
            error_y=_error_bars([each.y for each in lane.points], lane.colour),
            customdata=[[each.level_text, _interval(each.y, quantity)] for each in lane.points],
            hovertemplate=f"%{{customdata[0]}}: {quantity.hover()}%{{customdata[1]}}"
            f"<extra>{lane.name}</extra>",
        )
    levels = _levels(lanes)
    made.update_xaxes(type="log", tickvals=levels, ticktext=[f"{each:g}" for each in levels])
    return _with_legend(made)


def _add_break_even(
    made: go.Figure, span: BreakEvenSpan, levels: Sequence[float], place: int
) -> None:
    """Shade the interval of the break-even load, and draw a line with its value."""
    if span.has_interval and levels:
        made.add_vrect(
            x0=levels[0] if span.low is None else span.low,
            x1=levels[-1] if span.high is None else span.high,
            fillcolor=see_through(span.colour, _SHADE), line_width=0, layer="below",
        )  # fmt: skip
    if span.level is not None:
        made.add_vline(x=span.level, line={"color": span.colour, "dash": "dot", "width": 2})
        on_right = bool(levels) and span.level**2 > levels[0] * levels[-1]
        made.add_annotation(
            x=math.log10(span.level), y=1 - 0.08 * place, yref="paper", yanchor="top",
            xanchor="right" if on_right else "left", xshift=-4 if on_right else 4,
            showarrow=False, text=f"break-even {span.level:.3g}",
            font={"size": TEXT_SIZE, "color": span.colour},
        )  # fmt: skip


def _highest(ends: Sequence[Reading]) -> float:
    """Return the upper end of an axis that starts at 0.

    Wide intervals may extend beyond the axis. A longer axis would squeeze the values together.
    """
    values = max((each.value for each in ends), default=1.0)
    bars = max((each.high for each in ends if each.high is not None), default=values)
    return 1.08 * min(max(values, bars), 1.5 * values) or 1.0


def _levels(lanes: Iterable[LoadSeries]) -> list[float]:
    return sorted({each.level for lane in lanes for each in lane.points})


def _style(lane: LoadSeries) -> dict[str, Any]:
    return {
        "name": lane.name,
        "line": {"color": lane.colour, "width": 2, "dash": _DASHES[lane.source]},
        "marker": {
            "size": 9,
            "symbol": _MARKS[lane.source],
            "color": lane.colour,
            "line": {"width": 2, "color": lane.colour},
        },
    }


def _with_legend(made: go.Figure) -> go.Figure:
    made.update_layout(showlegend=True)
    return made


def _interval(end: Reading, quantity: Quantity) -> str:
    if end.low is None or end.high is None:
        return ", no interval"
    return f" ({quantity.span(end.low, end.high)})"


def _error_bars(ends: Iterable[Reading], colour: str) -> dict[str, object]:
    faint = see_through(colour, 0.55)
    return error_bars((each.ends for each in ends), faint, thickness=1.5, width=3)
