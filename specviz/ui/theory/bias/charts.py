"""Charts of bias against rejection, of block verification, and of several drafts.

In the bias-rejection plane, x is P(reject), and y is the bias: the total variation between the
emitted distribution and the target's. No rule lies in the triangle under the line from (TV, 0) to
(0, TV), where TV is the total variation between draft and target (Yin et al. 2024, theorem 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import plotly.graph_objects as go

from specviz.theory import blocks, multidraft
from specviz.theory.tradeoff import Areas, Chances
from specviz.ui.widgets.chart_style import (
    COLOURS,
    SERIES,
    TEXT_SIZE,
    add_diagonal,
    figure,
    see_through,
)
from specviz.values import Value

Side = Literal["middle right", "middle left", "top center", "top right", "bottom left"]

_ROOM = 1.22  # length of the axes / coordinate of the farthest point
_LEAST = 0.05  # least length of the axes
_RING = (0.03, 0.06)  # shares of the axes; points closer than this share a label
_FAR = 0.6  # share of the axis; a point beyond it has its name on the left
_DASHES = ("solid", "solid", "dash", "dot", "dashdot", "longdash")
_SYMBOLS = ("circle", "square", "diamond", "x", "triangle-up", "cross")


class ExactPoint(Value):
    """A named point of the bias-rejection plane with exact coordinates."""

    name: str
    reject: float
    bias: float
    side: Side = "middle right"


class SimulatedPoint(Value):
    """A simulated point, with the half-widths of its 95 % intervals."""

    name: str
    reject: float
    reject_width: float
    bias: float
    bias_width: float


class Dots(Value):
    """Points of the plane, one per tested token: P(reject), bias and tooltip."""

    reject: Sequence[float]
    bias: Sequence[float]
    tooltips: Sequence[str]


def areas_chart(labels: Sequence[str], areas: Areas) -> go.Figure:
    """Draw a stacked bar per token: the accepted and rejected draft probability, and the residual.

    The part of the accepted probability that exceeds the target probability is "accepted in
    excess". The total of "rejected" plus the total of "accepted in excess" is the TV between draft
    and target.
    """
    made = figure(x_title="token", y_title="probability", height=300)
    layers = (
        ("accepted, within the target", np.minimum(areas.accepted, areas.overlap), "accepted", ""),
        ("accepted in excess", np.maximum(areas.accepted - areas.overlap, 0.0), "bonus", "x"),
        ("rejected", areas.rejected, "rejected", "/"),
        ("residual of the target", areas.residual, "recovered", "\\"),
    )
    for name, heights, colour, hatch in layers:
        shade = getattr(COLOURS, colour)
        made.add_bar(
            x=list(range(len(labels))),
            y=heights,
            name=name,
            marker={"color": shade, "pattern": _hatch(hatch)},
            hovertemplate="%{x}: %{y:.3f}<extra>" + name + "</extra>",
        )
    made.update_layout(barmode="stack", bargap=0.35, legend={"traceorder": "normal"})
    return _named_tokens(made, labels)


def pareto_plane(
    distance: float,
    marks: Sequence[ExactPoint] = (),
    simulated: Sequence[SimulatedPoint] = (),
    dots: Dots | None = None,
    *,
    unit: str = "",
    height: int = 400,
) -> go.Figure:
    """Draw the Pareto front and the impossible triangle, with exact, simulated and measured points.

    Args:
        distance: TV between draft and target. The front meets both axes at this value.
        unit: Text appended to the axis titles.
    """
    made = figure(x_title=f"P(reject){unit}", y_title=f"bias: distance from the target{unit}")
    biases = [each.bias for each in marks] + list(dots.bias if dots else ())
    rejects = [each.reject for each in marks] + list(dots.reject if dots else ())
    across = max([distance, _LEAST, *rejects]) * _ROOM
    up = max([distance, _LEAST, *biases]) * _ROOM
    _add_front(made, distance)
    if dots is not None:
        _add_dots(made, dots)
    _add_simulated(made, simulated)
    ring = _RING[0] * across, _RING[1] * up
    _add_marks(made, [_turned(each, _FAR * across) for each in marks], ring)
    made.update_layout(
        height=height,
        margin={"t": 48},
        annotations=_notes(distance, marks, ring),
        xaxis={"range": [-0.03 * across, across]},
        yaxis={"range": [-0.1 * up, up]},
    )
    return made


def _add_front(made: go.Figure, distance: float) -> None:
    made.add_scatter(
        x=[0.0, distance, 0.0],
        y=[0.0, 0.0, distance],
        fill="toself",
        fillcolor=COLOURS.forbidden,
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        showlegend=distance > 0.0,
        name="impossible for any rule",
    )
    made.add_scatter(
        x=[distance, 0.0],
        y=[0.0, distance],
        mode="lines",
        line={"color": COLOURS.exact, "width": 2},
        name="Pareto front",
        hoverinfo="skip",
    )


def _notes(
    distance: float, marks: Sequence[ExactPoint], ring: tuple[float, float]
) -> list[dict[str, object]]:
    """Return annotations for the two ends of the Pareto front.

    An end near a named point gets no annotation.
    """
    if distance <= 0.0:
        return []
    notes = (
        (0.0, 1.0, "the draft alone", "left", 10),
        (1.0, 0.0, "lossless", "center", -16),
    )
    return [
        {
            "x": across * distance,
            "y": up * distance,
            "text": text,
            "xanchor": anchor,
            "yshift": shift,
            "showarrow": False,
            "font": {"color": COLOURS.ink, "size": TEXT_SIZE},
        }
        for across, up, text, anchor, shift in notes
        if not any(_within(ring, each, across * distance, up * distance) for each in marks)
    ]


def _add_marks(made: go.Figure, marks: Sequence[ExactPoint], ring: tuple[float, float]) -> None:
    made.add_scatter(
        x=[each.reject for each in marks],
        y=[each.bias for each in marks],
        text=_labels(marks, ring),
        customdata=[each.name for each in marks],
        textposition=[each.side for each in marks],
        mode="markers+text",
        marker={"color": COLOURS.exact, "size": 9},
        name="exact",
        cliponaxis=False,
        hovertemplate="%{customdata}<br>P(reject) %{x:.4f}<br>bias %{y:.4f}<extra>exact</extra>",
    )


def _turned(mark: ExactPoint, far: float) -> ExactPoint:
    """Put the point's label on the left instead of the right if P(reject) exceeds ``far``."""
    turn = mark.side == "middle right" and mark.reject > far
    return replace(mark, side="middle left") if turn else mark


def _within(ring: tuple[float, float], mark: ExactPoint, reject: float, bias: float) -> bool:
    return abs(mark.reject - reject) <= ring[0] and abs(mark.bias - bias) <= ring[1]


def _labels(marks: Sequence[ExactPoint], ring: tuple[float, float]) -> list[str]:
    """Return a label per point.

    If points overlap, the first gets the names of all of them, and the other points get "".
    """
    firsts: dict[int, list[str]] = {}
    for at, mark in enumerate(marks):
        near = (first for first in firsts if _within(ring, marks[first], mark.reject, mark.bias))
        firsts.setdefault(next(near, at), []).append(mark.name)
    return [_apart(firsts[at], each.side) if at in firsts else "" for at, each in enumerate(marks)]


def _apart(names: Sequence[str], side: Side) -> str:
    """Join the names into a label, one rule per line, padded to keep clear of the point."""
    gap = "\u2003"
    before, after = gap * side.endswith("right"), gap * ("left" in side)
    return "<br>".join(f"{before}{line}{after}" for line in _joined(names))


def _joined(names: Sequence[str]) -> list[str]:
    """Merge names that differ only after the comma: “ε 1, OPT” and “ε 1, UNO” → “ε 1: OPT, UNO”."""
    rules: dict[str, list[str]] = {}
    for name in names:
        rule, _, recover = name.partition(", ")
        rules.setdefault(rule, []).append(recover)
    return [
        f"{rule}: {', '.join(each)}" if len(each) > 1 else ", ".join(filter(None, (rule, *each)))
        for rule, each in rules.items()
    ]


def _add_simulated(made: go.Figure, simulated: Sequence[SimulatedPoint]) -> None:
    if not simulated:
        return
    made.add_scatter(
        x=[each.reject for each in simulated],
        y=[each.bias for each in simulated],
        error_x={"array": [each.reject_width for each in simulated], "thickness": 1.4},
        error_y={"array": [each.bias_width for each in simulated], "thickness": 1.4},
        text=[each.name for each in simulated],
        mode="markers",
        marker={
            "color": COLOURS.simulated,
            "symbol": "circle-open",
            "size": 16,
            "line": {"width": 2},
        },
        name="simulated, 95 %",
        hovertemplate="%{text}<br>P(reject) %{x:.4f}<br>bias %{y:.4f}<extra>simulated</extra>",
    )


def _add_dots(made: go.Figure, dots: Dots) -> None:
    made.add_scatter(
        x=list(dots.reject),
        y=list(dots.bias),
        text=list(dots.tooltips),
        mode="markers",
        marker={"color": see_through(COLOURS.measured, 0.55), "size": 7},
        name="tokens of the run",
        hovertemplate="%{text}<extra>measured</extra>",
    )


def distribution_chart(
    labels: Sequence[str], target: Chances, emitted: Mapping[str, Chances]
) -> go.Figure:
    """Draw the distributions of the tokens that the rules emit, and the target's distribution."""
    made = figure(x_title="token", y_title="probability of being emitted", height=300)
    distributions = {"target": target, **emitted}
    shades = (COLOURS.target, COLOURS.accepted, COLOURS.rejected, COLOURS.muted)
    for (name, chances), shade, hatch in zip(
        distributions.items(), shades, ("", "/", "\\", "x"), strict=False
    ):
        made.add_bar(
            x=list(range(len(labels))),
            y=list(chances),
            name=name,
            marker={"color": shade, "pattern": _hatch(hatch)},
            hovertemplate="%{x}: %{y:.4f}<extra>" + name + "</extra>",
        )
    made.update_layout(barmode="group", bargap=0.3)
    return _named_tokens(made, labels)


def blocks_chart(curves: blocks.Curves) -> go.Figure:
    """Draw accepted candidates per round at each gamma, for two verifiers, and the upper bound."""
    made = figure(x_title="γ", y_title="candidates accepted per round")
    gammas = list(range(1, len(curves.token) + 1))
    rows = (
        ("token by token", curves.token, COLOURS.muted, "/"),
        ("block verification", curves.block, COLOURS.exact, ""),
    )
    for name, heights, shade, hatch in rows:
        made.add_bar(
            x=gammas,
            y=list(heights),
            name=name,
            marker={"color": shade, "pattern": _hatch(hatch)},
            hovertemplate="γ %{x}: %{y:.4f}<extra>" + name + "</extra>",
        )
    made.add_scatter(
        x=gammas,
        y=list(curves.bound),
        name="no verifier exceeds this",
        mode="lines+markers",
        line={"color": COLOURS.rejected, "dash": "dot"},
        marker={"symbol": "line-ew-open", "size": 18},
        hovertemplate="γ %{x}: %{y:.4f}<extra>bound</extra>",
    )
    made.update_layout(barmode="group", bargap=0.3, xaxis={"dtick": 1})
    return made


def rounds_by_both(rounds: Sequence[tuple[float, float]]) -> go.Figure:
    """Draw a dot per round: the number of candidates that two verifiers are expected to accept.

    Token-by-token verification is on the x axis, and block verification is on the y axis.
    """
    made = figure(x_title="token by token", y_title="as a block")
    top = max([1.0, *(block for _, block in rounds)])
    add_diagonal(made, 0, top, "equal")
    made.add_scatter(
        x=[token for token, _ in rounds],
        y=[block for _, block in rounds],
        mode="markers",
        name="a round",
        marker={"color": see_through(COLOURS.measured, 0.55), "size": 6},
        hovertemplate="token by token %{x:.3f}<br>as a block %{y:.3f}<extra></extra>",
    )
    return made


def accepted_means(bars: Sequence[tuple[str, float, bool]]) -> go.Figure:
    """Draw a bar per (name, mean accepted candidates per round, whether measured).

    Measured bars are hatched.
    """
    made = figure(x_title="candidates per round", y_title="")
    for measured, name, colour, hatch in (
        (False, "expected", COLOURS.exact, ""),
        (True, "measured", COLOURS.measured, "/"),
    ):
        own = [each for each in bars if each[2] == measured]
        made.add_bar(
            x=[each[1] for each in own],
            y=[each[0] for each in own],
            orientation="h",
            name=name,
            text=[f"{each[1]:.2f}" for each in own],
            textfont={"size": TEXT_SIZE},
            marker={"color": colour, "pattern": _hatch(hatch)},
            hovertemplate="%{y}: %{x:.3f}<extra></extra>",
        )
    made.update_layout(barmode="overlay", bargap=0.4)
    made.update_yaxes(
        categoryorder="array", categoryarray=[each[0] for each in bars], autorange="reversed"
    )
    return made


def drafts_chart(curves: multidraft.Curves) -> go.Figure:
    """Draw the probability that one of k candidates is accepted, by rule."""
    made = figure(x_title="drafts for one position, k", y_title="P(one is accepted)")
    rows = (
        ("upper bound", curves.optimal),
        ("without replacement", curves.without_replacement),
        ("K-SEQ", curves.k_sequential),
        ("recursive rejection", curves.recursive),
        ("draft's top k", curves.top),
        ("draw and compare", curves.naive),
    )
    for (name, chances), shade, dash, symbol in zip(rows, SERIES, _DASHES, _SYMBOLS, strict=True):
        made.add_scatter(
            x=list(range(1, len(chances) + 1)),
            y=list(chances),
            name=name,
            mode="lines+markers",
            line={"color": shade, "dash": dash},
            marker={"symbol": symbol, "size": 8},
            hovertemplate="k %{x}: %{y:.4f}<extra>" + name + "</extra>",
        )
    made.update_layout(xaxis={"dtick": 1}, yaxis={"range": [0, 1.04]})
    return made


def _hatch(shape: str) -> dict[str, object]:
    """Return a hatch pattern, which distinguishes bars without colour."""
    return {"shape": shape, "fillmode": "overlay", "fgcolor": "rgba(255,255,255,0.6)", "size": 6}


def _named_tokens(made: go.Figure, labels: Sequence[str]) -> go.Figure:
    """Label the numeric token axis with token names. A category axis would merge equal names."""
    made.update_xaxes(tickvals=list(range(len(labels))), ticktext=list(labels))
    return made
