"""Charts of a training: loss, acceptance on held-out texts, and the expected speedup."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from specviz.figures.catalogue import TIMES_THE_TARGET
from specviz.record.numbers import PROBABILITY, RATIO, TOKENS
from specviz.training.drafts.curves import LossPoint
from specviz.training.drafts.progress import Trained
from specviz.training.drafts.worth import Worth
from specviz.ui.widgets.chart_style import COLOURS, SERIES, figure
from specviz.values import Value

_HEIGHT = 300


class WorthPoint(Value):
    """The highest expected speedup after a training step, and the γ that gives it."""

    step: int
    gamma: int
    speedup: float


def loss_chart(points: Sequence[LossPoint]) -> go.Figure:
    made = figure(x_title="step", y_title="loss", height=_HEIGHT)
    made.add_scatter(
        x=[each.step for each in points], y=[each.loss for each in points], mode="lines",
        line={"color": COLOURS.exact}, hovertemplate="step %{x}: %{y:.3f}<extra></extra>",
        showlegend=False,
    )  # fmt: skip
    return made


def acceptance_chart(checks: Sequence[Trained], break_even: float | None) -> go.Figure:
    """Draw the acceptance at temperature 1 after each evaluation, with a line per position.

    Args:
        checks: The evaluations on held-out texts.
        break_even: The acceptance above which the best γ gives a speedup, if all positions have the
            same acceptance.
    """
    made = figure(x_title="step", y_title="acceptance probability", height=_HEIGHT)
    for place in range(max((len(each.accepted) for each in checks), default=0)):
        made.add_scatter(
            x=[each.step for each in checks], y=[each.accepted[place] for each in checks],
            name=f"position {place + 1}", mode="lines+markers",
            line={"color": SERIES[place % len(SERIES)]},
            hovertemplate=f"step %{{x}}: {PROBABILITY.hover()}<extra>position {place + 1}</extra>",
        )  # fmt: skip
    if break_even is not None:
        _add_line(made, break_even, "break-even", below=True)
    made.update_yaxes(range=[0, 1.02])
    made.update_layout(showlegend=True)
    return made


def worth_chart(points: Sequence[WorthPoint]) -> go.Figure:
    """Draw the expected speedup at the best γ after each evaluation; 1 is the target alone."""
    made = figure(x_title="step", y_title=f"expected speedup, {TIMES_THE_TARGET}", height=_HEIGHT)
    made.add_scatter(
        x=[each.step for each in points], y=[each.speedup for each in points],
        customdata=[each.gamma for each in points], mode="lines+markers",
        line={"color": COLOURS.exact}, showlegend=False,
        hovertemplate=f"step %{{x}}: {RATIO.hover()}, γ %{{customdata}}<extra></extra>",
    )  # fmt: skip
    _add_line(made, 1.0, "target alone", below=True)
    highest = max([1.0, *(each.speedup for each in points)])
    made.update_yaxes(range=[0, 1.15 * highest])
    return made


def gains_chart(found: Sequence[tuple[str, Worth]]) -> go.Figure:
    """Draw the expected speedup at each γ, with a line per temperature.

    An open circle marks a γ above the number of trained positions. The further positions are
    assumed to have the acceptance of the last trained position.
    """
    made = figure(
        x_title="candidates per round, γ", y_title=f"expected speedup, {TIMES_THE_TARGET}",
        height=_HEIGHT,
    )  # fmt: skip
    for index, (name, own) in enumerate(found):
        made.add_scatter(
            x=[each.gamma for each in own.gains], y=[each.speedup for each in own.gains],
            customdata=[each.tokens for each in own.gains], name=name, mode="lines+markers",
            line={"color": SERIES[index % len(SERIES)]},
            marker={
                "size": 8,
                "symbol": ["circle-open" if each.assumed else "circle" for each in own.gains],
            },
            hovertemplate=f"γ %{{x}}: {RATIO.hover()}, {TOKENS.hover('customdata')} tokens per "
            f"round<extra>{name}</extra>",
        )  # fmt: skip
    _add_line(made, 1.0, "target alone")
    highest = max([1.0, *(gain.speedup for _, own in found for gain in own.gains)])
    made.update_yaxes(range=[0, 1.15 * highest])
    made.update_xaxes(dtick=1)
    made.update_layout(showlegend=True)
    return made


def _add_line(made: go.Figure, value: float, name: str, *, below: bool = False) -> None:
    made.add_hline(
        y=value, line={"color": COLOURS.muted, "dash": "dot", "width": 1.5},
        annotation_text=name, annotation_position=f"{'bottom' if below else 'top'} right",
    )  # fmt: skip
