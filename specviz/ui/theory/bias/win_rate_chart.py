"""Chart of the win rate of lossy rules against their speed."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from specviz.record.numbers import PERCENT, RATIO
from specviz.ui.widgets.chart_style import COLOURS, SERIES, figure, see_through
from specviz.values import Value

_SYMBOLS = ("square", "diamond", "triangle-up")


class RulePoint(Value):
    """A rule's speed over the lossless rule, and its win rate against it, with intervals."""

    name: str
    group: str
    speed: float
    speed_low: float | None
    speed_high: float | None
    won: float
    won_low: float | None
    won_high: float | None


def win_rate_chart(points: Sequence[RulePoint]) -> go.Figure:
    """Draw win rate against speed, a line for each group of rules, and the lossless rule."""
    made = figure(x_title="speed over lossless", y_title="wins against lossless", height=400)
    groups = dict.fromkeys(each.group for each in points)
    for group, colour, symbol in zip(groups, SERIES, _SYMBOLS, strict=False):
        own = [each for each in points if each.group == group]
        made.add_scatter(
            x=[each.speed for each in own],
            y=[each.won for each in own],
            error_x=_error_bars([(e.speed, e.speed_low, e.speed_high) for e in own], colour),
            error_y=_error_bars([(e.won, e.won_low, e.won_high) for e in own], colour),
            customdata=[[each.name] for each in own],
            hovertemplate=f"%{{customdata[0]}}: {RATIO.hover('x')}, wins {PERCENT.hover()}"
            "<extra></extra>",
            mode="lines+markers",
            line={"color": colour, "width": 1},
            marker={"size": 10, "symbol": symbol},
            name=group,
        )
    made.add_scatter(
        x=[1.0], y=[0.5], mode="markers", name="lossless",
        marker={"size": 13, "symbol": "circle-open", "color": COLOURS.exact, "line": {"width": 3}},
        hovertemplate="lossless<extra></extra>",
    )  # fmt: skip
    made.add_hline(y=0.5, line={"color": COLOURS.muted, "dash": "dot", "width": 1})
    made.update_layout(yaxis={"tickformat": ".0%"}, xaxis={"ticksuffix": "×"})
    return made


def _error_bars(
    ends: Sequence[tuple[float, float | None, float | None]], colour: str
) -> dict[str, object]:
    """Return asymmetric error bars, of length 0 where there is no interval."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [0.0 if high is None else high - value for value, _, high in ends],
        "arrayminus": [0.0 if low is None else value - low for value, low, _ in ends],
        "color": see_through(colour, 0.5),
        "thickness": 1.5,
        "width": 0,
    }
