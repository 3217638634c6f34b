"""Whether speculation paid, and why, in sentences made of a run's figures."""

from __future__ import annotations

from specviz.record.metrics import Metrics
from specviz.record.trace import Trace


def verdict_sentence(metrics: Metrics, trace: Trace) -> str:
    """Whether speculation paid, in a sentence; without a sound measurement, why there is none."""
    speed, unsound = metrics.speedup_observed, _unsound(metrics, trace)
    if unsound or speed is None:
        return unsound or "No whole round was timed, so no verdict."
    if abs(speed - 1) < 0.005:
        return "As fast as the target alone."
    if speed > 1:
        return f"{_times(speed)} times as fast as the target alone."
    return f"Slower than the target alone ({_times(speed)} times){_reason(metrics)}."


def why_sentence(metrics: Metrics) -> str:
    """Where the time of a round goes and what comes out of it; empty where it is not known."""
    gamma, c, v, tau = metrics.gamma, metrics.c, metrics.v, metrics.tau
    if gamma is None or c is None or v is None or tau is None:
        return ""
    checking = f"checking {gamma + 1} cost {v:.2f}"
    if gamma * c == 0:
        costs = f"Drafting was free, {checking} target steps"
    else:
        tokens = "token" if gamma == 1 else "tokens"
        costs = f"Drafting {gamma} {tokens} cost {gamma * c:.2f} of a target step, {checking}"
    return f"{costs}; {tau:.1f} tokens came out of each round."


def _unsound(metrics: Metrics, trace: Trace) -> str | None:
    if trace.baseline is None:
        return "The target alone was not measured."
    if metrics.speedup_observed is not None and metrics.noisy is None:
        return "A lane was timed only once, so no verdict."
    if metrics.noisy and metrics.drift is not None:
        drift = f"{100 * metrics.drift:.0f} %"
        return f"Noisy machine: blocks of the same work drift by {drift}, so no verdict."
    return None


def _times(speed: float) -> str:
    return f"{speed:.1f}" if speed >= 1.095 else f"{speed:.2f}"


def _reason(metrics: Metrics) -> str:
    gamma, c, v, tau = metrics.gamma, metrics.c, metrics.v, metrics.tau
    if gamma is None or c is None or v is None or tau is None:
        return ""
    if tau >= gamma * c + v:
        return ", though by their step costs the two models should gain: the rest is overhead"
    drafting = f"drafting {gamma} tokens costs {gamma * c:.1f} target steps"
    verifying = f"verifying {gamma + 1} costs {v:.1f}"
    if not gamma * c:
        costs = f"verifying {gamma + 1} tokens costs {v:.1f} target steps"
    else:
        costs = drafting if v < 1.1 else f"{drafting}, {verifying},"
    return f", because {costs} and only {tau:.1f} tokens come out of a round"
