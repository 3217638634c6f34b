"""The player's data: what is on the stage now, as plain values. See assets/player/README.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from specviz.analysis import Metrics, metrics
from specviz.export.playback import lanes, round_items
from specviz.export.summary import summary
from specviz.throughput import (
    Outlook,
    ThroughputCurves,
    extrapolated_curves,
    foretold_curves,
)
from specviz.trace import RunConfig, Trace

Tour = Literal["ask", "force", "never"]
Plain = dict[str, Any]
# How the families that the engine knows write the end of a text.
_END_TEXTS = ["<|endoftext|>", "</s>", "<eos>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a run stands, in the player's words."""

    id: str
    state: str
    label: str
    detail: str = ""
    remedy: str = ""
    sentence: str | None = None  # while there is no verdict
    waiting: bool = False  # the stage still shows the run before


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A run on the throughput chart."""

    gamma: int
    rate: float
    label: str
    current: bool
    partial: bool  # the run was broken off


def payload(
    trace: Trace,
    status: Status,
    *,
    start: int = 0,
    curves: ThroughputCurves | None = None,
    points: Sequence[Point] = (),
    chosen: RunConfig | None = None,
    figures: Metrics | None = None,
    growing: bool = False,
    tour: Tour = "never",
) -> Plain:
    """Everything the player shows; of the rounds those from ``start`` on."""
    figures = figures or metrics(trace)
    return {
        "run": _run(trace, status),
        "prompt": list(trace.prompt.token_texts),
        "rounds": {
            "from": start,
            "items": round_items(trace.rounds[start:]),
            "total": len(trace.rounds),
        },
        "lanes": lanes(trace, noisy=bool(figures.noisy)),
        "summary": summary(trace, figures, sentence=status.sentence, growing=growing),
        "charts": {"throughput": _throughput(curves, points, trace, figures, chosen)},
        "end_texts": _END_TEXTS,
        "growing": growing,
        "tour": tour,
    }


def payload_of_trace(trace: Trace, *, run_id: str, state: str, label: str) -> Plain:
    """A whole trace at rest."""
    figures = metrics(trace)
    status = Status(id=run_id, state=state, label=label)
    curves = curves_of(trace, figures, None)
    points = [p for p in (point_of(trace, figures, current=True),) if p]
    return payload(trace, status, curves=curves, points=points, figures=figures)


def curves_of(trace: Trace, figures: Metrics, outlook: Outlook | None) -> ThroughputCurves | None:
    """What was foretold from other texts, else an extrapolation of this run."""
    costs = trace.step_costs
    if costs is None or (not costs.draft and trace.config.drafter == "model"):
        return None
    context = len(trace.prompt.token_ids) + trace.config.max_new_tokens / 2
    if outlook is not None:
        # At gamma 1 a round gives 1 + alpha tokens.
        return foretold_curves(costs, context, outlook.speedups, min(1.0, outlook.taus[0] - 1.0))
    if figures.alpha_expected is None:
        return None
    return extrapolated_curves(costs, context, figures.alpha_expected)


def point_of(trace: Trace, figures: Metrics, *, current: bool) -> Point | None:
    if figures.tokens_per_second is None:
        return None
    config = trace.config
    sampling = "greedy" if config.greedy else f"T {config.temperature:g}"
    return Point(
        gamma=config.gamma,
        rate=figures.tokens_per_second,
        label=f"γ {config.gamma}, {sampling}, {trace.prompt.kind or 'own words'}",
        current=current,
        partial=trace.finish == "stopped",
    )


def _run(trace: Trace, status: Status) -> Plain:
    config = trace.config
    return {
        "id": status.id,
        "state": status.state,
        "label": status.label,
        "detail": status.detail,
        "remedy": status.remedy,
        "waiting": status.waiting,
        "lossy": not config.lossless,
        "epsilon": config.epsilon,
        "residual": config.residual,
        "greedy": config.greedy,
        "gamma": config.gamma,
        "temperature": config.temperature,
    }


def _throughput(
    curves: ThroughputCurves | None,
    points: Sequence[Point],
    trace: Trace,
    figures: Metrics,
    chosen: RunConfig | None,
) -> Plain | None:
    if curves is None:
        return None
    return {
        "gammas": list(curves.gammas),
        "ideal": [round(rate, 2) for rate in curves.ideal],
        "forecast": [round(rate, 2) for rate in curves.forecast],
        "extrapolated": curves.extrapolated,
        "stale": chosen is not None and _sampled(chosen) != _sampled(trace.config),
        "target": round(curves.target, 2),
        "measured_target": figures.baseline_tokens_per_second,
        "noisy": trace.step_costs is not None and trace.step_costs.noisy,
        "chosen": chosen.gamma if chosen is not None else None,
        "points": [
            {
                "gamma": p.gamma,
                "rate": p.rate,
                "label": p.label,
                "current": p.current,
                "partial": p.partial,
            }
            for p in points
        ],
    }


def _sampled(config: RunConfig) -> tuple[float, int, float]:
    return config.temperature, config.top_k, config.top_p
