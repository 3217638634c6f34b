"""Chart of the expected tokens per round at each γ, for any draft and a target on a server."""

from __future__ import annotations

import plotly.graph_objects as go

from specviz.record.numbers import TOKENS
from specviz.tune.surface import Surface
from specviz.ui.widgets.chart_style import SERIES, figure


def tau_over_gamma(found: Surface) -> go.Figure:
    """Draw the expected tokens per round at each γ, with one line per temperature.

    This chart needs no step costs. A speedup chart would need them.
    """
    made = figure(x_title="candidates per round, γ", y_title="tokens per round, τ", height=330)
    for place, temperature in enumerate(found.temperatures):
        cells = [each for each in found.cells if each.temperature == temperature]
        made.add_scatter(
            x=[each.gamma for each in cells], y=[each.tau for each in cells],
            mode="lines+markers", name=f"temperature {temperature:g}",
            line={"color": SERIES[place % len(SERIES)]},
            hovertemplate=f"γ %{{x}}: {TOKENS.hover()}<extra>temperature {temperature:g}</extra>",
        )  # fmt: skip
    made.update_yaxes(rangemode="tozero")
    if found.gammas:
        made.update_xaxes(range=[min(found.gammas) - 0.5, max(found.gammas) + 0.5], dtick=1)
    made.update_layout(showlegend=True)
    return made
