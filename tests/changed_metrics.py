"""Metrics as if a run had other step costs, tokens per round or timing."""

from __future__ import annotations

from dataclasses import replace

from specviz.figures.metrics import Metrics
from specviz.figures.step_times import StepTimes
from specviz.figures.timing import Timing


def with_costs(
    figures: Metrics, gamma: int, c: float | None, v: float | None, error: float | None = None
) -> Metrics:
    """``error``: of the cost of a round, which comes from the target step alone."""
    others = None if error is None else 0.0
    steps = StepTimes(
        gamma=gamma, draft=c, target=1.0, verification=v,
        draft_error=others, target_error=error, verification_error=others,
    )  # fmt: skip
    return replace(figures, steps=steps)


def with_tau(figures: Metrics, tau: float) -> Metrics:
    return replace(figures, num_tokens=round(100 * tau), num_whole_rounds=100)


def with_timing(
    figures: Metrics,
    speedup: float,
    low: float | None,
    high: float | None,
    pairs: int = 12,
    needed: int | None = 12,
) -> Metrics:
    timing = Timing(
        speedup=speedup, low=low, high=high, pairs=pairs, needed=needed,
        target_seconds=speedup, speculative_seconds=1.0,
    )  # fmt: skip
    return replace(figures, timing=timing)
