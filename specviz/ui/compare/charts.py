"""Charts that compare lanes: acceptance, tokens, times, speedup, kinds of text.

A lane is a pair of models with its settings, measured in one or more runs.

All values are measured, with one exception: the expected speedup at each γ is computed from a
lane's step costs and acceptance. A lane has the same colour and symbol in every chart.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import plotly.graph_objects as go

from specviz.figures.catalogue import CATALOGUE, TIMES_THE_TARGET, Figure
from specviz.figures.metrics import Metrics
from specviz.figures.throughput import extrapolated_curves
from specviz.record.numbers import PERCENT, PROBABILITY, RATIO, TOKENS, Quantity
from specviz.record.pairs import pair_title
from specviz.record.trace import Round, Trace
from specviz.ui.widgets.chart_style import COLOURS, SERIES, figure
from specviz.ui.widgets.error_bars import Reading, error_bars
from specviz.values import Value

SYMBOLS = ("circle", "diamond", "square", "triangle-up")
_MOST_TIMES = 3  # longer intervals are cut off at this multiple of the highest value
_TIME = CATALOGUE["ms_a_token"]
_PHASES = {"draft": COLOURS.draft, "verify": COLOURS.target, "other": COLOURS.muted}


class LaneRuns(Value):
    """All runs of a lane (a pair with its settings), the runs' metrics, and the lane's speedup."""

    label: str
    traces: tuple[Trace, ...]
    figures: tuple[Metrics, ...]
    speedup: Reading | None = None

    @property
    def rounds(self) -> list[Round]:
        return [entry for trace in self.traces for entry in trace.rounds]

    @property
    def whole_rounds(self) -> list[Round]:
        return [entry for entry in self.rounds if entry.whole]


class KindReadings(Value):
    """One kind of text, with one value per lane; None for a lane without a value."""

    kind: str
    readings: tuple[Reading | None, ...]


def alpha_by_position(lanes: Sequence[LaneRuns]) -> go.Figure:
    """Draw, per lane, the share of tested candidates accepted at each position in the round."""
    made = figure(x_title="position", y_title=CATALOGUE["alpha_observed"].axis)
    for index, lane in enumerate(lanes):
        positions, shares, counts = _by_position(lane.rounds)
        made.add_scatter(
            x=positions,
            y=shares,
            customdata=counts,
            name=lane.label,
            mode="lines+markers",
            line={"color": _colour(index)},
            marker={"symbol": _symbol(index), "size": 8},
            hovertemplate=f"position %{{x}}: {PROBABILITY.hover()} accepted, %{{customdata}} tested"
            f"<extra>{lane.label}</extra>",
        )
    made.update_yaxes(range=[0, 1.03])
    made.update_xaxes(dtick=1, rangemode="tozero")
    made.update_layout(showlegend=True)
    return made


def tokens_per_round(lanes: Sequence[LaneRuns]) -> go.Figure:
    """Draw the distribution of tokens per whole round, with a dashed line at the mean.

    The line marks τ over all whole rounds of a lane. The table shows another value: the median of
    τ over the lane's runs.
    """
    made = figure(x_title="tokens per round", y_title="share of the rounds")
    for index, lane in enumerate(lanes):
        counts = [len(entry.emitted) for entry in lane.whole_rounds]
        if not counts:
            continue
        numbers = list(range(1, max(counts) + 1))
        made.add_bar(
            x=numbers,
            y=[counts.count(number) / len(counts) for number in numbers],
            name=f"{lane.label}: τ of all rounds {TOKENS.bare(statistics.fmean(counts))}",
            marker={"color": _colour(index), "pattern": {"shape": _PATTERNS[index]}},
            hovertemplate=f"%{{x}} tokens: {PERCENT.hover()}<extra>{lane.label}</extra>",
        )
        made.add_vline(
            x=statistics.fmean(counts), line={"color": _colour(index), "dash": "dash", "width": 1.5}
        )
    made.update_layout(barmode="group", bargap=0.25, showlegend=True)
    made.update_yaxes(tickformat=".0%")
    made.update_xaxes(dtick=1)
    return made


_PATTERNS = ("", "/", ".", "x")


def time_per_token(lanes: Sequence[LaneRuns]) -> go.Figure:
    """Draw the milliseconds per token: by phase for each lane, in total for the target alone."""
    rows = [(lane.label, _phases(lane.whole_rounds)) for lane in lanes]
    rows = [row for row in rows if row[1]]
    made = figure(x_title=f"{_TIME.label},{_TIME.quantity.unit}", y_title="")
    for phase, colour in _PHASES.items():
        made.add_bar(
            y=[label for label, _ in rows],
            x=[phases[phase] for _, phases in rows],
            name=phase,
            orientation="h",
            marker={"color": colour},
            hovertemplate=f"{_TIME.quantity.hover('x')}<extra>{phase}</extra>",
        )
    alone = _targets_alone(lanes)
    made.add_bar(
        y=list(alone),
        x=list(alone.values()),
        name="target alone",
        orientation="h",
        marker={"color": COLOURS.ink, "pattern": {"shape": "/"}},
        hovertemplate=f"{_TIME.quantity.hover('x')}<extra>target alone</extra>",
    )
    made.update_layout(barmode="stack", bargap=0.35, showlegend=True)
    made.update_layout(legend={"traceorder": "normal"})
    made.update_yaxes(autorange="reversed", automargin=True)
    return made


def speedup_over_gamma(lanes: Sequence[LaneRuns]) -> go.Figure:
    """Draw each lane's measured speedup as a point, and the expected speedup at each γ as a curve.

    The curve is computed from the lane's step costs. It assumes that every candidate has the same
    acceptance probability: the lane's mean expected acceptance.
    A lane without a fixed number of candidates, such as prompt lookup, has no curve.
    """
    made = figure(x_title="candidates per round, γ", y_title=TIMES_THE_TARGET)
    heights = [1.0]  # of the target alone and the curves
    for index, lane in enumerate(lanes):
        curve = _expected_curve(lane)
        if curve is not None:
            heights += curve[1]
            made.add_scatter(
                x=curve[0],
                y=curve[1],
                name=f"{lane.label}, expected",
                mode="lines",
                line={"color": _colour(index), "dash": "dot"},
                hovertemplate=f"γ %{{x}}: {RATIO.hover()}<extra>{lane.label}, expected</extra>",
            )
        if lane.speedup is not None:
            gammas = [lane.traces[0].config.gamma]
            _add_readings(made, index, lane.label, gammas, [lane.speedup], RATIO)
    made.add_hline(y=1.0, line={"color": COLOURS.ink, "width": 1, "dash": "dot"})
    made.update_yaxes(range=[0, _height([lane.speedup for lane in lanes], heights)])
    made.update_xaxes(dtick=2, tick0=2)
    made.update_layout(showlegend=True)
    return made


def by_kind(labels: Sequence[str], kinds: Sequence[KindReadings], read: Figure) -> go.Figure:
    """Draw the metric ``read`` of each lane, with its interval, for each kind of text."""
    made = figure(x_title="", y_title=read.axis)
    for index, label in enumerate(labels):
        there = [(each.kind, each.readings[index]) for each in kinds]
        known = [(kind, reading) for kind, reading in there if reading is not None]
        names, readings = map(list, zip(*known, strict=True)) if known else ([], [])
        _add_readings(made, index, label, names, readings, read.quantity)
    made.update_layout(scattermode="group", scattergap=0.6, showlegend=True)
    made.update_xaxes(type="category", categoryarray=[each.kind for each in kinds])
    made.update_yaxes(range=[0, _height([each for kind in kinds for each in kind.readings])])
    return made


def _height(readings: Sequence[Reading | None], heights: Sequence[float] = ()) -> float:
    """Return the end of a y axis that begins at 0.

    Very long intervals extend beyond the axis. ``heights`` are other values drawn in the chart.
    """
    known = [each for each in readings if each is not None]
    highest = max((*heights, *(each.value for each in known)), default=1.0)
    ends = [each.value if each.high is None else each.high for each in known]
    return 1.05 * min(max((*heights, *ends), default=1.0), _MOST_TIMES * highest)


def _add_readings(
    made: go.Figure,
    index: int,
    label: str,
    x: Sequence[object],
    readings: Sequence[Reading],
    quantity: Quantity,
) -> None:
    made.add_scatter(
        x=list(x),
        y=[each.value for each in readings],
        name=label,
        mode="markers",
        marker={"symbol": _symbol(index), "size": 12, "color": _colour(index)},
        error_y=error_bars((each.ends for each in readings), _colour(index)),
        hovertemplate=f"%{{x}}: {quantity.hover()}<extra>{label}</extra>",
    )


def _by_position(rounds: Sequence[Round]) -> tuple[list[int], list[float], list[int]]:
    """Return the positions in a round, and the acceptance rate and the number tested at each."""
    deepest = max((entry.num_tested for entry in rounds), default=0)
    tested = [sum(entry.num_tested > position for entry in rounds) for position in range(deepest)]
    accepted = [
        sum(entry.num_accepted > position for entry in rounds) for position in range(deepest)
    ]
    shares = [part / whole for part, whole in zip(accepted, tested, strict=True)]
    return list(range(1, deepest + 1)), shares, tested


def _phases(rounds: Sequence[Round]) -> dict[str, float]:
    """Return each phase's milliseconds per token, or an empty dict if the rounds have no tokens."""
    tokens = sum(len(entry.emitted) for entry in rounds)
    if not tokens:
        return {}
    return {
        phase: 1000 * sum(getattr(entry.times, phase) for entry in rounds) / tokens
        for phase in _PHASES
    }


def _targets_alone(lanes: Sequence[LaneRuns]) -> dict[str, float]:
    """Return the median milliseconds per token of each target alone, by its label in the chart."""
    rates: dict[str, list[float]] = {}
    for lane in lanes:
        for trace, figures in zip(lane.traces, lane.figures, strict=True):
            rate = figures.baseline_tokens_per_second
            if rate is not None:
                rates.setdefault(pair_title(trace.pair.target.name), []).append(rate)
    return {
        "target alone" if len(rates) == 1 else f"{name} alone": 1000 / statistics.median(each)
        for name, each in rates.items()
    }


def _expected_curve(lane: LaneRuns) -> tuple[list[int], list[float]] | None:
    trace = next((each for each in lane.traces if each.step_costs is not None), None)
    if trace is None or trace.step_costs is None or not trace.config.fixed_length:
        return None
    known = [each.alpha_expected for each in lane.figures if each.alpha_expected is not None]
    if not known or not trace.step_costs.draft:
        return None
    context = len(trace.prompt.token_ids) + trace.config.max_new_tokens / 2
    curves = extrapolated_curves(trace.step_costs, context, statistics.fmean(known))
    return list(curves.gammas), [rate / curves.target for rate in curves.forecast]


def _colour(index: int) -> str:
    return SERIES[index % len(SERIES)]


def _symbol(index: int) -> str:
    return SYMBOLS[index % len(SYMBOLS)]
