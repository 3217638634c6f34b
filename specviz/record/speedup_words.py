"""Whether speculation paid, and why, in sentences made of a run's figures."""

from __future__ import annotations

from specviz.record.metrics import Metrics
from specviz.record.numbers import PERCENT, RATIO, STEPS, TOKENS, times
from specviz.record.trace import Trace


def speedup_sentence(metrics: Metrics, trace: Trace) -> str:
    """Whether speculation paid, in a sentence; without a sound measurement, why there is none."""
    speed, unsound = metrics.speedup_observed, _unsound(metrics, trace)
    if unsound or speed is None:
        return unsound or "No whole round was timed, so no verdict."
    if RATIO.bare(speed) == RATIO.bare(1):
        return "As fast as the target alone."
    if speed > 1:
        return f"{times(speed)} as fast as the target alone."
    return f"Slower than the target alone ({times(speed)}){_reason(metrics)}."


def why_sentence(metrics: Metrics) -> str:
    """Where the time of a round goes and what comes out of it; empty where it is not known."""
    gamma, c, v, tau = metrics.gamma, metrics.c, metrics.v, metrics.tau
    if gamma is None or c is None or v is None or tau is None:
        return ""
    checking = f"checking {gamma + 1} cost {STEPS.bare(v)}"
    if gamma * c == 0:
        costs = f"Drafting was free, {checking} target steps"
    else:
        tokens = "token" if gamma == 1 else "tokens"
        costs = (
            f"Drafting {gamma} {tokens} cost {STEPS.bare(gamma * c)} of a target step, {checking}"
        )
    return f"{costs}; {TOKENS.bare(tau)} tokens came out of each round."


def _unsound(metrics: Metrics, trace: Trace) -> str | None:
    if trace.baseline is None:
        return "The target alone was not measured."
    if metrics.speedup_observed is not None and metrics.noisy is None:
        return "A lane was timed only once, so no verdict."
    if metrics.noisy and metrics.drift is not None:
        drift = PERCENT.shown(metrics.drift)
        return f"Noisy machine: blocks of the same work drift by {drift}, so no verdict."
    return None


def _reason(metrics: Metrics) -> str:
    gamma, c, v, tau = metrics.gamma, metrics.c, metrics.v, metrics.tau
    if gamma is None or c is None or v is None or tau is None:
        return ""
    if tau >= gamma * c + v:
        return ", though by their step costs the two models should gain: the rest is overhead"
    drafting = f"drafting {gamma} tokens costs {STEPS.bare(gamma * c)} target steps"
    verifying = f"verifying {gamma + 1} costs {STEPS.bare(v)}"
    if not gamma * c:
        costs = f"verifying {gamma + 1} tokens costs {STEPS.bare(v)} target steps"
    else:
        costs = drafting if v < 1.1 else f"{drafting}, {verifying},"
    return f", because {costs} and only {TOKENS.bare(tau)} tokens come out of a round"
