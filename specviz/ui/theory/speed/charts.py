"""Charts of the speedup: at each gamma, at each alpha and c, and as measured in papers.

All curves are exact. Points are measured: in runs of this session, or by the authors of papers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from specviz.figures.catalogue import TIMES_THE_TARGET
from specviz.figures.stopping_reach import ReachOverRuns
from specviz.record.numbers import COST, PERCENT, PROBABILITY, RATIO, STEPS, TOKENS
from specviz.theory.speed import (
    best_gamma,
    best_gammas,
    expected_tokens,
    no_gamma_is_best,
    speedup,
)
from specviz.ui.widgets.chart_style import COLOURS, SERIES, TEXT_SIZE, add_diagonal, figure
from specviz.values import Value

MAP_COSTS = np.geomspace(0.005, 1.0, 60)
_FINE = 8  # boundaries between gammas need a finer grid than the cells
_MAP_ALPHAS = np.linspace(0.0, 1.0, 59 * _FINE + 1)
_LABELLED = 18  # the column of the map where the labels of the boundaries are drawn
_LEVELS = (2, 3, 5, 8, 13, 21)
_BRIGHTEST = 8.0
_TICKS = (1, 1.5, 2, 3, 5, 8)
_COST_TICKS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
_SHADES = ((0.0, "rgba(47, 127, 194, 0)"), (1.0, "rgba(47, 127, 194, 0.95)"))


class SpeedupPoint(Value):
    """A measured speedup with its alpha and c. A click on the point opens ``run_id``."""

    label: str
    alpha: float
    c: float
    speedup: float
    run_id: str
    expected: float | None = None  # the formula's value, as reported by the paper


def speedup_over_gamma(
    alpha: float, draft_cost: float, verify_cost: float, gamma: int, max_gamma: int = 24
) -> go.Figure:
    """Draw two speedups at each gamma: with v = ``verify_cost``, and the ideal one with v = 1.

    The best gamma of the drawn range is marked, unless longer drafts are always faster.

    Args:
        draft_cost: c, the time of a draft step divided by the time of a target step.
        gamma: The chosen gamma. It is also marked.
    """
    gammas = list(range(max_gamma + 1))
    made = figure(x_title="candidates per round, γ", y_title=TIMES_THE_TARGET)
    curves = (
        (f"verification at v {STEPS.bare(verify_cost)}", verify_cost, COLOURS.exact, "solid"),
        ("ideal, v 1", 1.0, COLOURS.muted, "dash"),
    )
    for name, cost, colour, dash in curves:
        values = [speedup(alpha, each, draft_cost, cost) for each in gammas]
        made.add_scatter(
            x=gammas,
            y=values,
            name=name,
            mode="lines+markers",
            line={"color": colour, "dash": dash},
            marker={"size": 5},
            hovertemplate=f"γ %{{x}}: {RATIO.hover()}<extra></extra>",
        )
    if not no_gamma_is_best(alpha, draft_cost, verify_cost):
        best, value = best_gamma(alpha, draft_cost, verify_cost, max_gamma)
        _mark(made, best, value, name=f"best, γ {best}", symbol="star", size=14)
    chosen = speedup(alpha, gamma, draft_cost, verify_cost)
    _mark(made, gamma, chosen, name=f"chosen, γ {gamma}", symbol="circle-open", size=13)
    made.add_hline(y=1.0, line={"color": COLOURS.ink, "width": 1, "dash": "dot"})
    return made


def speedup_map(
    verify_cost: float,
    here: tuple[float, float],
    papers: Sequence[SpeedupPoint] = (),
    runs: Sequence[SpeedupPoint] = (),
    max_gamma: int = 40,
) -> go.Figure:
    """Draw a map of the speedup at the best gamma, by c and alpha, with points of papers and runs.

    Lines separate regions by their best gamma. Cells where the target alone is fastest stay empty.

    Args:
        here: The alpha and c to mark.
    """
    gammas, values = best_gammas(_MAP_ALPHAS[:, None], MAP_COSTS[None], verify_cost, max_gamma)
    made = figure(x_title="cost of a draft step, c", y_title="acceptance, α", height=460)
    made.add_heatmap(
        x=MAP_COSTS,
        y=_MAP_ALPHAS[::_FINE],
        z=np.log(np.minimum(values[::_FINE], _BRIGHTEST)),
        zmin=0.0,
        zmax=float(np.log(_BRIGHTEST)),
        customdata=np.stack([gammas[::_FINE], values[::_FINE]], axis=-1),
        colorscale=_SHADES,
        colorbar=_bar(),
        hovertemplate=f"α {PROBABILITY.hover()}, c {COST.hover('x')}<br>"
        f"{RATIO.hover('customdata[1]')} at γ %{{customdata[0]}}<extra></extra>",
    )
    _add_boundaries(made, gammas)
    _add_points(made, papers, name="papers (reported)", colour=COLOURS.draft, symbol="circle")
    _add_points(made, runs, name="runs (measured)", colour=COLOURS.measured, symbol="diamond")
    alpha, cost = here
    _mark(made, _on_axis(cost), alpha, name="these settings", symbol="star", size=15)
    made.update_xaxes(type="log", range=np.log10(MAP_COSTS[[0, -1]]).tolist(), tickvals=_COST_TICKS)
    made.update_yaxes(range=[0, 1])
    return made


def tokens_over_gamma(alpha: float, gamma: int, max_gamma: int = 24) -> go.Figure:
    """Draw tokens per round at each gamma, with the limit 1 / (1 - alpha)."""
    gammas = list(range(max_gamma + 1))
    made = figure(x_title="candidates per round, γ", y_title="tokens per round, τ", height=300)
    made.add_bar(
        x=gammas,
        y=[expected_tokens(alpha, each) for each in gammas],
        name="tokens per round",
        marker={"color": [COLOURS.exact if each == gamma else COLOURS.muted for each in gammas]},
        hovertemplate=f"γ %{{x}}: {TOKENS.hover()} tokens<extra></extra>",
    )
    if alpha < 1.0:
        ceiling = 1.0 / (1.0 - alpha)
        if ceiling <= 3 * (max_gamma + 1):
            made.add_hline(
                y=ceiling,
                line={"color": COLOURS.exact, "dash": "dot"},
                annotation={"text": f"γ → ∞: {TOKENS.bare(ceiling)}", "yanchor": "bottom"},
            )
    made.update_layout(showlegend=False)
    return made


def expected_and_measured(points: Sequence[SpeedupPoint]) -> go.Figure:
    """Draw a paper's expected (x) and measured (y) speedups, with the line y = x."""
    known = [each for each in points if each.expected is not None]
    made = figure(x_title="expected by the formula", y_title="measured", height=320)
    top = max([1.0, *(max(each.expected or 0.0, each.speedup) for each in known)]) + 0.3
    add_diagonal(made, 1, top, "as expected")
    made.add_scatter(
        x=[each.expected for each in known],
        y=[each.speedup for each in known],
        text=[each.label for each in known],
        customdata=[[each.run_id] for each in known],
        mode="markers",
        name="papers (reported)",
        marker={"color": COLOURS.draft, "size": 10},
        hovertemplate=f"%{{text}}<br>expected {RATIO.hover('x')}, measured {RATIO.hover()}"
        "<extra></extra>",
    )
    return made


def reported_by_task(speedups: Mapping[str, Mapping[str, float]]) -> go.Figure:
    """Draw the speedups of each drafter on each task as bars, grouped by task."""
    made = figure(x_title="task", y_title=TIMES_THE_TARGET, height=300)
    for (drafter, by_task), colour in zip(speedups.items(), SERIES, strict=False):
        made.add_bar(
            x=list(by_task),
            y=list(by_task.values()),
            name=f"{drafter} (reported)",
            marker={"color": colour},
            hovertemplate=f"%{{x}}: {RATIO.hover()}<extra>{drafter}</extra>",
        )
    made.add_hline(y=1.0, line={"color": COLOURS.ink, "width": 1, "dash": "dot"})
    return made


def reach_over_drafted(found: ReachOverRuns) -> go.Figure:
    """Draw the speed of each stopping criterion as a share of the oracle's speed.

    The speed is the number of tokens per unit of time. The oracle drafts exactly the candidates
    that will be accepted. The x axis is the number of candidates drafted per emitted token.
    """
    made = figure(x_title="candidates drafted per token", y_title="share of the oracle's rate")
    series = (
        ("fixed counts", found.counts, "lines+markers", COLOURS.exact, "circle", "γ "),
        ("until unsure, by threshold", found.unsure, "lines+markers", COLOURS.draft, "diamond", ""),
        (
            "runs with a stopping criterion",
            found.own,
            "markers+text",
            COLOURS.measured,
            "square",
            "",
        ),
    )
    for name, points, mode, colour, symbol, before in series:
        own = "text" in mode
        made.add_scatter(
            x=[each.drafted / each.tokens for each in points],
            y=[each.share for each in points],
            text=[f"{before}{each.name}" for each in points],
            mode=mode,
            name=name,
            textposition=["bottom right", "top right"] * len(points),
            textfont={"size": TEXT_SIZE},
            line={"color": colour},
            marker={"color": colour, "symbol": symbol, "size": 12 if own else 8},
            hovertemplate=f"%{{text}}: {PERCENT.hover()} of the oracle's rate<extra></extra>",
        )
    _mark(
        made, found.oracle.drafted / found.oracle.tokens, 1.0, name="oracle", symbol="star", size=14
    )
    made.add_hline(y=1.0, line={"color": COLOURS.ink, "width": 1, "dash": "dot"})
    made.update_yaxes(tickformat=".0%")
    made.update_xaxes(rangemode="tozero")
    return made


def _on_axis(cost: float) -> float:
    """Clip the cost to the range of the map's logarithmic axis."""
    return float(np.clip(cost, MAP_COSTS[0], MAP_COSTS[-1]))


def _add_boundaries(made: go.Figure, gammas: np.ndarray) -> None:
    """Draw the line alpha = c, and one line for each level of gamma.

    On and above a level's line, the best gamma is at least the level. Level 1 is break-even.
    """
    labels: list[dict[str, object]] = []
    for level in (1, *_LEVELS):
        reached = gammas >= level  # [num_alphas, num_costs]
        least = np.where(reached.any(axis=0), _MAP_ALPHAS[reached.argmax(axis=0)], np.nan)
        made.add_scatter(
            x=MAP_COSTS,
            y=least,
            mode="lines",
            line={"color": COLOURS.ink, "width": 2.4 if level == 1 else 1},
            name="break-even" if level == 1 else "best γ reaches …",
            showlegend=level <= _LEVELS[0],
            legendgroup=str(min(level, 2)),
            hoverinfo="skip",
        )
        if level > 1 and reached[:, _LABELLED].any():
            labels.append(_label(f"γ {level}", float(least[_LABELLED])))
    made.update_layout(annotations=labels)
    made.add_scatter(
        x=MAP_COSTS,
        y=MAP_COSTS,
        mode="lines",
        name="α = c",
        line={"color": COLOURS.rejected, "dash": "dash", "width": 2},
        hoverinfo="skip",
    )


def _label(text: str, alpha: float) -> dict[str, object]:
    """Return an annotation with dark text on white, which is legible on any cell."""
    return {
        "x": float(np.log10(MAP_COSTS[_LABELLED])),
        "y": alpha,
        "text": text,
        "showarrow": False,
        "bgcolor": "rgba(255, 255, 255, 0.8)",
        "font": {"size": TEXT_SIZE, "color": "#2b3038"},
    }


def _add_points(
    made: go.Figure, points: Sequence[SpeedupPoint], *, name: str, colour: str, symbol: str
) -> None:
    if not points:
        return
    made.add_scatter(
        x=[_on_axis(each.c) for each in points],
        y=[each.alpha for each in points],
        text=[each.label for each in points],
        customdata=[[each.run_id, each.speedup, each.c] for each in points],
        mode="markers",
        name=name,
        cliponaxis=False,
        marker={
            "color": colour,
            "symbol": symbol,
            "size": 11,
            "line": {"color": "white", "width": 1},
        },
        unselected={"marker": {"opacity": 1}},
        hovertemplate=f"%{{text}}<br>α {PROBABILITY.hover()}, c {COST.hover('customdata[2]')}: "
        f"{RATIO.hover('customdata[1]')} measured<extra></extra>",
    )


def _mark(made: go.Figure, x: float, y: float, *, name: str, symbol: str, size: int) -> None:
    made.add_scatter(
        x=[x],
        y=[y],
        mode="markers",
        name=name,
        marker={
            "symbol": symbol,
            "size": size,
            "color": COLOURS.rejected,
            "line": {"color": COLOURS.rejected if "open" in symbol else "white", "width": 1.5},
        },
        unselected={"marker": {"opacity": 1}},
        hovertemplate=f"{name}: %{{y:.3f}}<extra></extra>",
    )


def _bar() -> dict[str, object]:
    return {
        "title": {"text": "×", "font": {"size": TEXT_SIZE}},
        "tickfont": {"size": TEXT_SIZE},
        "tickvals": np.log(_TICKS).tolist(),
        "ticktext": [f"{each:g}" for each in _TICKS],
        "thickness": 10,
        "outlinewidth": 0,
    }
