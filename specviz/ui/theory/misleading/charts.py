"""Charts of cases in which the formula misleads.

The cases are clustered acceptance, texts that need more rounds than most, large batches,
temperature and estimates of alpha. Only the estimates of alpha are measured; the other charts are
computed exactly from a model of the case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go

from specviz.figures.catalogue import TIMES_THE_TARGET
from specviz.record.numbers import PROBABILITY, TOKENS
from specviz.theory.clustering import StickyText, tokens_per_round
from specviz.theory.roofline import Gpu, Model, Serving, bytes_read, largest_batch
from specviz.theory.runtime import RoundsDistribution
from specviz.theory.speed import expected_tokens
from specviz.theory.temperature import DRAFT_TEMPERATURES, Logits, overlap, overlaps
from specviz.ui.widgets.chart_style import COLOURS, SERIES, figure
from specviz.ui.widgets.error_bars import error_bars
from specviz.values import Value

STICKINESS = tuple(float(each) for each in np.linspace(0.0, 1.0, 26))
BATCHES = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
TEMPERATURES = tuple(float(each) for each in np.geomspace(0.05, 5.0, 61))


class AlphaEstimate(Value):
    """An estimate of alpha. The ends of its interval are None if there is no interval."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


def tokens_over_stickiness(text: StickyText, gamma: int) -> go.Figure:
    """Plot tokens per round over stickiness: exact, and by the formula with the mean alpha.

    Each token of the text is easy or hard. Stickiness is the correlation between the states, easy
    or hard, of neighbouring tokens.
    """
    made = figure(x_title="stickiness of easy and hard stretches", y_title="tokens per round, τ")
    texts = [replace(text, stickiness=each) for each in STICKINESS]
    exact = [tokens_per_round(each, gamma) for each in texts]
    formula = expected_tokens(min(1.0, text.mean_alpha), gamma)
    add_line(made, STICKINESS, exact, name="exact", colour=COLOURS.exact)
    add_line(
        made,
        STICKINESS,
        [formula] * len(STICKINESS),
        name=f"formula at α {PROBABILITY.bare(text.mean_alpha)}",
        colour=COLOURS.rejected,
        dash="dash",
    )
    made.add_scatter(
        x=[text.stickiness],
        y=[tokens_per_round(text, gamma)],
        mode="markers",
        name="chosen",
        marker={"symbol": "star", "size": 13, "color": COLOURS.exact},
        hovertemplate="%{y:.3f}<extra>chosen</extra>",
    )
    made.update_yaxes(range=[min(1.0, *exact), formula * 1.08])
    return made


def mean_and_tail(
    distributions: Sequence[RoundsDistribution], draft_cost: float, verify_cost: float, gamma: int
) -> go.Figure:
    """Draw the speedup at each gamma for a text with the mean number of rounds, and for slow texts.

    The slow texts are at the 90th and at the 99th percentile of the number of rounds.
    """
    made = figure(x_title="candidates per round, γ", y_title=TIMES_THE_TARGET)
    gammas = [each.gamma for each in distributions]
    for name, counts, colour, symbol in (
        ("mean", [each.mean for each in distributions], COLOURS.exact, "circle"),
        ("1 text in 10 is slower", _percentiles(distributions, 0.9), SERIES[1], "square"),
        ("1 text in 100 is slower", _percentiles(distributions, 0.99), SERIES[4], "diamond"),
    ):
        values = [
            each.speedup(count, draft_cost, verify_cost)
            for each, count in zip(distributions, counts, strict=True)
        ]
        add_line(made, gammas, values, name=name, colour=colour, symbol=symbol)
        best = int(np.argmax(values))
        made.add_annotation(
            x=gammas[best], y=values[best], text=f"γ {gammas[best]}", showarrow=False, yshift=13
        )
    made.add_vline(x=gamma, line={"color": COLOURS.ink, "width": 1, "dash": "dot"})
    made.add_hline(y=1.0, line={"color": COLOURS.ink, "width": 1, "dash": "dot"})
    return made


def _percentiles(distributions: Sequence[RoundsDistribution], share: float) -> list[int]:
    return [each.percentile(share) for each in distributions]


def rounds_spread(rounds: RoundsDistribution) -> go.Figure:
    """Draw the distribution of the rounds that a text needs, with its mean and 99th percentile."""
    made = figure(
        x_title=f"rounds for {rounds.num_tokens} tokens", y_title="probability", height=280
    )
    shown = np.flatnonzero(rounds.chances > rounds.chances.max() / 500)
    first, last = int(shown[0]), int(shown[-1]) + 1
    made.add_bar(
        x=list(range(first, last)),
        y=rounds.chances[first:last],
        marker={"color": COLOURS.exact},
        hovertemplate="%{x} rounds: %{y:.4f}<extra></extra>",
    )
    for name, at, colour in (
        (f"mean {rounds.mean:.1f}", rounds.mean, COLOURS.ink),
        (f"99 % within {rounds.percentile(0.99)}", rounds.percentile(0.99), COLOURS.rejected),
    ):
        made.add_vline(x=at, line={"color": colour, "dash": "dash"}, annotation={"text": name})
    made.update_layout(showlegend=False)
    return made


def over_batch(
    gpu: Gpu,
    target: Model,
    draft: Model,
    contexts: Sequence[int],
    alpha: float,
    gamma: int,
) -> tuple[go.Figure, go.Figure]:
    """Return charts of the cost of verification and of the speedup at each batch size.

    There is a line per context length; it ends where the KV caches no longer fit into memory. A
    horizontal line marks tau, which does not depend on the batch.
    """
    costs = figure(x_title="sequences in the batch", y_title="cost of a verification, v")
    speeds = figure(x_title="sequences in the batch", y_title=TIMES_THE_TARGET)
    for context, colour in zip(contexts, SERIES, strict=False):
        fits = largest_batch(gpu, target, draft, context)
        servings = [
            Serving(gpu=gpu, target=target, draft=draft, batch=batch, context=context)
            for batch in BATCHES
            if batch <= fits
        ]
        batches, name = [each.batch for each in servings], f"{context:,} tokens"
        symbol = "circle" if len(servings) == 1 else None  # a line of one point is invisible
        verify = [each.verify_cost(gamma) for each in servings]
        gains = [each.speedup(alpha, gamma) for each in servings]
        add_line(costs, batches, verify, name, colour, symbol=symbol)
        add_line(speeds, batches, gains, name, colour, symbol=symbol)
    tau = expected_tokens(alpha, gamma)
    edge = {"color": COLOURS.muted, "dash": "dash"}
    speeds.add_hline(
        y=tau, line=edge, annotation={"text": f"τ {TOKENS.bare(tau)} at every batch size"}
    )
    speeds.add_hline(y=1.0, line={"color": COLOURS.ink, "width": 1, "dash": "dot"})
    for made in (costs, speeds):
        made.update_xaxes(type="log", tickvals=[1, 4, 16, 64, 256], range=[-0.05, 2.75])
        made.update_yaxes(rangemode="tozero")
    return costs, speeds


def bytes_a_pass(target: Model, contexts: Sequence[int], batch: int) -> go.Figure:
    """Draw how many bytes a target pass reads, by batch size. A line marks 1 TB."""
    made = figure(x_title="sequences in the batch", y_title="GB read per pass", height=300)
    for context, colour in zip(contexts, SERIES, strict=False):
        read = [bytes_read(target, each, context) / 1e9 for each in BATCHES]
        add_line(made, BATCHES, read, f"{context:,} tokens", colour)
    edge = {"color": COLOURS.rejected, "dash": "dash"}
    made.add_hline(y=1000.0, line=edge)
    made.add_annotation(  # on a logarithmic axis, y is the exponent
        text="1 TB", xref="paper", x=1, xanchor="right", y=3, yanchor="bottom", showarrow=False
    )
    made.add_vline(x=batch, line={"color": COLOURS.ink, "width": 1, "dash": "dot"})
    made.update_xaxes(type="log", tickvals=[1, 4, 16, 64, 256], range=[-0.05, 2.75])
    made.update_yaxes(type="log", dtick=1)
    return made


def alpha_over_temperature(draft: Logits, target: Logits, temperature: float) -> go.Figure:
    """Draw alpha at each temperature of the target.

    In one curve, the draft has the target's temperature. In the other, the draft has the
    temperature that maximises alpha.
    """
    made = figure(x_title="temperature", y_title="acceptance, α")
    shared = [overlap(draft, target, each) for each in TEMPERATURES]
    found = overlaps(draft, target, DRAFT_TEMPERATURES, TEMPERATURES).max(axis=0)
    own = np.maximum(found, shared).tolist()
    add_line(made, TEMPERATURES, shared, name="the same for both", colour=COLOURS.exact)
    add_line(made, TEMPERATURES, own, name="draft at its best", colour=COLOURS.draft, dash="dash")
    made.add_scatter(
        x=[max(temperature, TEMPERATURES[0])],
        y=[overlap(draft, target, temperature)],
        mode="markers",
        name="chosen",
        marker={"symbol": "star", "size": 13, "color": COLOURS.exact},
        hovertemplate="%{y:.3f}<extra>chosen</extra>",
    )
    made.update_xaxes(type="log", tickvals=[0.05, 0.1, 0.2, 0.5, 1, 2, 5])
    made.update_yaxes(range=[0, 1.02])
    return made


def alpha_estimates(estimates: Sequence[AlphaEstimate]) -> go.Figure:
    """Draw estimates of alpha with their intervals, one per row."""
    made = figure(x_title="share", y_title="", height=90 + 46 * len(estimates))
    made.add_scatter(
        x=[each.value for each in estimates],
        y=[each.label for each in estimates],
        mode="markers",
        marker={"size": 12, "color": COLOURS.measured},
        error_x=error_bars(
            ((each.value, each.low, each.high) for each in estimates), COLOURS.measured
        ),
        hovertemplate="%{y}: %{x:.3f}<extra></extra>",
    )
    made.update_xaxes(range=[0, 1])
    made.update_yaxes(autorange="reversed")
    return made


def add_line(
    made: go.Figure,
    x: Sequence[float],
    y: Sequence[float],
    name: str,
    colour: str,
    *,
    dash: str = "solid",
    symbol: str | None = None,
) -> None:
    made.add_scatter(
        x=list(x),
        y=list(y),
        name=name,
        mode="lines+markers" if symbol else "lines",
        line={"color": colour, "dash": dash},
        marker={"symbol": symbol, "size": 6} if symbol else None,
        hovertemplate=f"%{{x:.3g}}: %{{y:.3f}}<extra>{name}</extra>",
    )
