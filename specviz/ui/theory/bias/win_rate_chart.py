"""Chart of the speed and the win rate of lossy rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from specviz.record.numbers import PERCENT, PROBABILITY, RATIO
from specviz.ui.widgets.chart_style import COLOURS, SERIES, figure, see_through
from specviz.ui.widgets.error_bars import Ends, error_bars
from specviz.values import Value

_SYMBOLS = ("square", "diamond", "triangle-up")
_LABELS = ("top left", "bottom right", "top right")  # of OPT and UNO, which are often close


class RulePoint(Value):
    """A rule's speed and win rate against the lossless rule, with intervals.

    ``won``: the win rate or, if the texts were not compared, the mean bias of a token.
    """

    name: str
    group: str
    epsilon: float
    speed: float
    speed_low: float | None
    speed_high: float | None
    won: float
    won_low: float | None
    won_high: float | None


def win_rate_chart(points: Sequence[RulePoint], *, of_bias: bool = False) -> go.Figure:
    """Draw a point per rule and ε: x is the speed, y is the win rate or the bias.

    A line connects the points of one rule with different ε. One point shows the lossless rule.
    """
    title, said = ("mean bias", "bias") if of_bias else ("wins against lossless", "wins")
    quantity = PROBABILITY if of_bias else PERCENT
    made = figure(x_title="speed over lossless", y_title=title, height=400)
    groups = dict.fromkeys(each.group for each in points)
    for group, colour, symbol, label in zip(groups, SERIES, _SYMBOLS, _LABELS, strict=False):
        own = [each for each in points if each.group == group]
        made.add_scatter(
            x=[each.speed for each in own],
            y=[each.won for each in own],
            error_x=_bars(((e.speed, e.speed_low, e.speed_high) for e in own), colour),
            error_y=_bars(((e.won, e.won_low, e.won_high) for e in own), colour),
            customdata=[[each.name] for each in own],
            hovertemplate=f"%{{customdata[0]}}: {RATIO.hover('x')}, {said} {quantity.hover()}"
            "<extra></extra>",
            mode="lines+markers+text",
            text=[f"{each.epsilon:g}" for each in own],
            textposition=label,
            textfont={"size": 11, "color": colour},
            line={"color": colour, "width": 1},
            marker={"size": 10, "symbol": symbol},
            name=group,
        )
    lossless = 0.0 if of_bias else 0.5
    made.add_scatter(
        x=[1.0], y=[lossless], mode="markers", name="lossless",
        marker={"size": 13, "symbol": "circle-open", "color": COLOURS.muted, "line": {"width": 3}},
        hovertemplate="lossless<extra></extra>",
    )  # fmt: skip
    made.add_hline(y=lossless, line={"color": COLOURS.muted, "dash": "dot", "width": 1})
    made.update_layout(xaxis={"ticksuffix": "×", "range": _speed_range(points)})
    if not of_bias:
        made.update_layout(yaxis={"tickformat": ".0%"})
    return made


def _speed_range(points: Sequence[RulePoint]) -> list[float]:
    """Return the range of the speed axis: all points, but not the ends of wide intervals."""
    speeds = [1.0, *(each.speed for each in points)]
    first, last = min(speeds), max(speeds)
    room = max(0.25, 0.5 * (last - first))
    lows = [each.speed_low for each in points if each.speed_low is not None]
    highs = [each.speed_high for each in points if each.speed_high is not None]
    return [
        max(first - room, min([first - 0.1, *lows])) - 0.05,
        min(last + room, max([last + 0.1, *highs])) + 0.05,
    ]


def _bars(ends: Iterable[Ends], colour: str) -> dict[str, object]:
    return error_bars(ends, see_through(colour, 0.5), thickness=1.5, width=0)
