"""Two charts: the evidence that an output is wrong, and a head's acceptance by position."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from specviz.ui.widgets.chart_style import COLOURS, SERIES, figure
from specviz.values import Value

_HIGHEST = 12.0  # powers of ten; larger values, also infinite ones, are drawn here


class Evidence(Value):
    """A curve of the evidence that an output does not follow the target's distribution.

    ``log_e[i]`` is the natural logarithm of the largest e-value in the first ``runs[i]`` runs.
    """

    label: str
    runs: tuple[int, ...]
    log_e: tuple[float, ...]


class PositionCurve(Value):
    """The acceptance probability at each position of the round, as one curve of the chart."""

    label: str
    shares: tuple[float, ...]


def positions_chart(found: Sequence[PositionCurve]) -> go.Figure:
    """Draw acceptance by position in the round; the first curve is thicker and on top."""
    made = figure(x_title="position in the round", y_title="acceptance probability", height=320)
    for index, each in enumerate(found):
        made.add_scatter(
            x=list(range(1, len(each.shares) + 1)),
            y=list(each.shares),
            name=each.label,
            mode="lines+markers",
            line={"color": SERIES[index % len(SERIES)], "width": 3 if index == 0 else 1.5},
            zorder=len(found) - index,
            hovertemplate=f"position %{{x}}: %{{y:.3f}}<extra>{each.label}</extra>",
        )
    made.update_yaxes(range=[0, 1.02])
    made.update_xaxes(dtick=1)
    made.update_layout(showlegend=True)
    return made


def evidence_chart(found: Sequence[Evidence], level: float) -> go.Figure:
    """Draw log10 of the largest e-value so far against the number of runs; mark the threshold."""
    made = figure(x_title="short runs", y_title="evidence, powers of ten", height=340)
    for index, each in enumerate(found):
        made.add_scatter(
            x=[0, *each.runs],
            y=[0.0, *(min(_HIGHEST, value / math.log(10)) for value in each.log_e)],
            name=each.label,
            mode="lines",
            line={"color": SERIES[index % len(SERIES)], "shape": "hv"},
            hovertemplate=f"run %{{x}}: %{{y:.1f}}<extra>{each.label}</extra>",
        )
    alarm = -math.log10(level)
    made.add_hline(
        y=alarm, line={"color": COLOURS.rejected, "dash": "dash", "width": 1.5},
        annotation_text="alarm", annotation_position="top left",
    )  # fmt: skip
    highest = [value / math.log(10) for each in found for value in each.log_e]
    top = min(_HIGHEST, max([alarm * 1.5, *highest]))
    made.update_yaxes(range=[-0.1, top * 1.08])
    made.update_xaxes(rangemode="tozero")
    made.update_layout(showlegend=True)
    return made
