"""Charts of rejections: simulated means and exact values, and the effect of more drafts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from specviz.theory.rejections import bernoulli_improvement, uniform_improvement
from specviz.theory.simulation import Estimate
from specviz.ui.widgets.chart_style import COLOURS, SERIES, figure, see_through
from specviz.values import Value

_DRAFTS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64)


class MeanCurve(Value):
    """The estimates of a mean after each batch of simulated texts, and the exact mean."""

    name: str
    exact: float
    estimates: Sequence[Estimate]


class MeasuredAndExpected(Value):
    """A measured and an expected value; ``half``: half the width of the expected value's band."""

    label: str
    measured: float
    expected: float
    half: float


def running_means(curves: Sequence[MeanCurve]) -> go.Figure:
    """Draw simulated means and their 95 % bands at each number of texts; exact means are dashed.

    A single curve uses the colours for simulated and exact values. Several curves have different
    colours, and the legend lists only the simulated means.
    """
    made = figure(x_title="texts simulated", y_title="rejections per text")
    alone = len(curves) == 1
    for curve, own in zip(curves, cycle(SERIES), strict=False):
        colour = COLOURS.simulated if alone else own
        _add_band(made, curve, colour)
        made.add_scatter(
            x=[each.count for each in curve.estimates],
            y=[each.mean for each in curve.estimates],
            name=f"{curve.name}, simulated",
            mode="lines+markers",
            line={"color": colour},
            marker={"size": 5},
            hovertemplate="%{x:,} texts: %{y:.3f}<extra></extra>",
        )
        made.add_scatter(
            x=[_first_count(curves), _last_count(curves)],
            y=[curve.exact] * 2,
            name=f"{curve.name}, exact {curve.exact:.3f}",
            mode="lines",
            line={"color": COLOURS.exact if alone else own, "dash": "dash", "width": 2.5},
            hovertemplate=f"exact {curve.exact:.5f}<extra></extra>",
            showlegend=alone,
        )
    made.update_xaxes(type="log", dtick=1, range=_log_range(curves))
    return made


def drafts_curve(
    nums_drafts: Sequence[float],
    counts: Sequence[float],
    *,
    limit: float,
    floor: float,
    simulated: Mapping[int, Estimate],
) -> go.Figure:
    """Draw the expected rejections per text at each number of drafts, exact and simulated.

    Lines mark the limit for many drafts, and the lower bound.
    """
    made = figure(x_title="drafts per round, M", y_title="rejections per text")
    made.add_scatter(
        x=list(nums_drafts),
        y=list(counts),
        name="exact (theorem 3)",
        mode="lines+markers",
        line={"color": COLOURS.exact},
        marker={"size": 5},
        hovertemplate="M %{x}: %{y:.3f}<extra></extra>",
    )
    if simulated:
        _add_estimates(made, list(simulated), list(simulated.values()))
    _add_level(made, limit, f"M → ∞: {limit:.2f}", COLOURS.exact, "dot")
    _add_level(
        made, floor, f"lower bound (E[N₁] − 1) / 2: {floor:.2f}", COLOURS.rejected, "dashdot"
    )
    made.update_xaxes(type="log", tickvals=[1, 2, 4, 8, 16, 32, 64, 128])
    made.update_yaxes(rangemode="tozero")
    return made


def measured_and_expected(points: Sequence[MeasuredAndExpected], y_title: str) -> go.Figure:
    """Draw measured values as diamonds, and the joint 99 % bands of the expected values."""
    made = figure(x_title="", y_title=y_title)
    labels = [each.label for each in points]
    made.add_scatter(
        x=labels,
        y=[each.expected for each in points],
        error_y={"type": "data", "array": [each.half for each in points], "width": 9},
        customdata=[each.half for each in points],
        mode="markers",
        name="expected, joint 99 %",
        marker={"color": COLOURS.exact, "symbol": "line-ew-open", "size": 22},
        hovertemplate="%{x}: %{y:.2f} ± %{customdata:.2f} expected<extra></extra>",
    )
    made.add_scatter(
        x=labels,
        y=[each.measured for each in points],
        mode="markers",
        name="measured",
        marker={"color": COLOURS.measured, "symbol": "diamond", "size": 10},
        hovertemplate="%{x}: %{y:.2f} measured<extra></extra>",
    )
    made.update_xaxes(type="category", range=[-0.5, len(points) - 0.5])
    return made


def coin_improvements(coins: Sequence[tuple[float, float]]) -> go.Figure:
    """Draw how much M drafts lower P(reject) compared with one draft, for two-token vocabularies.

    P(reject) is the probability of a rejection at one position.

    Args:
        coins: For each curve, the first token's probability under the draft and under the target.
    """
    made = figure(x_title="drafts, M", y_title="decrease of P(reject)")
    for (draft, target), colour in zip(coins, cycle(SERIES), strict=False):
        _add_improvement(
            made,
            f"draft {draft:g}, target {target:g}",
            [bernoulli_improvement(draft, target, each) for each in _DRAFTS],
            bernoulli_improvement(draft, target, math.inf),
            colour,
        )
    return _over_drafts(made)


def uniform_improvements(ratios: Sequence[float]) -> go.Figure:
    """Draw how much M drafts lower P(reject) compared with one draft, for uniform distributions.

    P(reject) is the probability of a rejection at one position.

    Args:
        ratios: For each curve, the draft's number of tokens divided by the target's number (r).
    """
    made = figure(x_title="drafts, M", y_title="decrease of P(reject)")
    for ratio, colour in zip(ratios, cycle(SERIES), strict=False):
        _add_improvement(
            made,
            f"r = {ratio:g}",
            [uniform_improvement(ratio, each) for each in _DRAFTS],
            uniform_improvement(ratio, math.inf),
            colour,
        )
    return _over_drafts(made)


def rejection_by_step(
    exact: Mapping[str, NDArray[np.float64]], simulated: Mapping[str, NDArray[np.float64]]
) -> go.Figure:
    """Draw P(reject) at each token of a text. Lines are exact values, circles simulated values."""
    made = figure(x_title="token of the text", y_title="P(reject)")
    for (name, chances), colour in zip(exact.items(), cycle(SERIES), strict=False):
        steps = np.arange(1, len(chances) + 1)
        made.add_scatter(
            x=steps,
            y=chances,
            name=f"{name}, exact",
            mode="lines",
            line={"color": colour},
            hovertemplate="token %{x}: %{y:.4f}<extra></extra>",
        )
        if name in simulated:
            made.add_scatter(
                x=steps,
                y=simulated[name],
                name=f"{name}, simulated",
                mode="markers",
                marker={"color": colour, "symbol": "circle-open", "size": 6},
                hovertemplate="token %{x}: %{y:.4f} simulated<extra></extra>",
            )
    made.update_yaxes(rangemode="tozero")
    return made


def rejections_and_bound(bound: float, rules: Mapping[str, Estimate]) -> go.Figure:
    """Draw the simulated rejections per text of several rules, and the bound of theorem 2."""
    made = figure(x_title="rejections per text", y_title="", height=250)
    made.add_vrect(
        x0=0,
        x1=bound,
        fillcolor=COLOURS.forbidden,
        line_width=0,
        layer="below",
        annotation={"text": "only rules outside theorem 2"},
        annotation_position="top left",
    )
    made.add_vline(
        x=bound,
        line={"color": COLOURS.exact, "dash": "dash", "width": 2.5},
        annotation={"text": f"theorem 2: {bound:.3f}"},
        annotation_position="top",
    )
    made.add_scatter(
        x=[each.mean for each in rules.values()],
        y=list(rules),
        error_x={"type": "data", "array": [1.96 * each.standard_error for each in rules.values()]},
        mode="markers",
        name="simulated, 95 %",
        marker={"color": COLOURS.simulated, "size": 11},
        hovertemplate="%{y}: %{x:.3f}<extra></extra>",
    )
    most = max([bound, *(each.mean for each in rules.values())])
    made.update_xaxes(range=[0, max(1.0, 1.15 * most)])
    made.update_yaxes(autorange="reversed", automargin=True)
    made.update_layout(showlegend=False)
    return made


def _add_band(made: go.Figure, curve: MeanCurve, colour: str) -> None:
    known = [each for each in curve.estimates if math.isfinite(each.standard_error)]
    counts = [each.count for each in known]
    low, high = [each.interval[0] for each in known], [each.interval[1] for each in known]
    made.add_scatter(
        x=counts + counts[::-1],
        y=high + low[::-1],
        fill="toself",
        fillcolor=see_through(colour, 0.18),
        line={"width": 0},
        mode="lines",
        name=f"{curve.name}, 95 % interval",
        hoverinfo="skip",
        showlegend=False,
    )


def _add_estimates(made: go.Figure, nums_drafts: list[int], estimates: list[Estimate]) -> None:
    made.add_scatter(
        x=nums_drafts,
        y=[each.mean for each in estimates],
        error_y={"type": "data", "array": [1.96 * each.standard_error for each in estimates]},
        name="simulated, 95 %",
        mode="markers",
        marker={"color": COLOURS.simulated, "symbol": "diamond", "size": 10},
        hovertemplate="M %{x}: %{y:.3f} simulated<extra></extra>",
    )


def _add_level(made: go.Figure, value: float, label: str, colour: str, dash: str) -> None:
    made.add_hline(
        y=value,
        line={"color": colour, "dash": dash},
        annotation={"text": label},
        annotation_position="bottom right",
    )


def _add_improvement(
    made: go.Figure, name: str, values: list[float], limit: float, colour: str
) -> None:
    made.add_scatter(
        x=list(_DRAFTS),
        y=values,
        name=name,
        mode="lines+markers",
        line={"color": colour},
        marker={"size": 4},
        hovertemplate=f"{name}<br>M %{{x}}: %{{y:.4f}}, at most {limit:.4f}<extra></extra>",
    )


def _over_drafts(made: go.Figure) -> go.Figure:
    made.update_xaxes(type="log", tickvals=[1, 2, 4, 8, 16, 32, 64])
    made.update_yaxes(range=[0, 1])
    return made


def _first_count(curves: Sequence[MeanCurve]) -> int:
    return min((each.estimates[0].count for each in curves if each.estimates), default=10)


def _last_count(curves: Sequence[MeanCurve]) -> int:
    """Return the end of the x axis: the largest number of texts, but at least 30,000.

    The minimum keeps the axis from changing while there are few texts.
    """
    counts = [each.estimates[-1].count for each in curves if each.estimates]
    return max([30_000, *counts])


def _log_range(curves: Sequence[MeanCurve]) -> list[float]:
    return [math.log10(_first_count(curves)), math.log10(_last_count(curves))]
