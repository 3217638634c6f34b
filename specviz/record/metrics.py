"""What a trace says: its figures, each defined once, and its tables.

Counts, alpha and acceptance by position use every round. Tau, tokens, times and all that
follows from them leave out the cut rounds, together. A figure that cannot be known is None;
nothing is estimated in its stead. Pure: a trace in, values out.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from specviz.record.intervals import (
    Interval,
    Intervals,
    coins_interval,
    kind_interval,
    prompt_interval,
)
from specviz.record.trace import NOISE_LIMIT, Baseline, Candidate, Round, Trace
from specviz.theory.speed import speedup

__all__ = [
    "Interval",
    "Intervals",
    "Metrics",
    "candidates_frame",
    "kind_interval",
    "metrics",
    "rounds_frame",
    "speedup_limit",
    "verdict_sentence",
    "why_sentence",
]

_CANDIDATE_COLUMNS = (
    "token_id", "text", "verdict", "tested", "draft_prob", "target_prob", "uniform", "odds",
    "expected_acceptance",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The figures of one run. Shares and rates are fractions; times as their names say."""

    num_rounds: int
    num_whole_rounds: int
    num_drafted: int
    num_tested: int
    num_accepted: int
    num_emitted: int
    alpha_observed: float | None  # accepted / tested
    alpha_expected: float | None  # mean of sum min(draft, target) over tested positions
    draft_acceptance_rate: float | None  # accepted / drafted, the figure of serving engines
    tau: float | None
    alpha_by_position: tuple[float | None, ...]  # accepted at i / tested at i
    acceptance_by_position: tuple[float | None, ...]  # accepted at i / rounds that drafted at i
    gamma: int | None  # the one c, v and the worked-out speedups are for
    c: float | None
    v: float | None
    tokens_per_second: float | None
    baseline_tokens_per_second: float | None
    speedup_observed: float | None
    speedup_end_to_end: float | None
    speedup_ideal: float | None
    speedup_accounted: float | None
    speedup_forecast: float | None
    ttft_ms: float | None
    baseline_ttft_ms: float | None
    noisy: bool | None
    drift: float | None  # slowest block of a lane over its fastest, less 1; the worse lane
    wasted_share: float | None  # decode time spent drafting what was then thrown away
    intervals: Intervals

    def as_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return _plain(dataclasses.asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    """The step costs a run met: c, v and the gamma they are for."""

    gamma: int | None = None
    c: float | None = None
    v: float | None = None

    @property
    def round_cost(self) -> float | None:
        if self.gamma is None or self.c is None or self.v is None:
            return None
        return self.gamma * self.c + self.v


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lanes:
    """Both lanes timed over the whole rounds: seconds, prefills, first tokens, drift."""

    target: float | None = None
    speculative: float | None = None
    target_ttft: float | None = None
    drift: float | None = None


def metrics(trace: Trace, *, intervals: bool = True) -> Metrics:
    """Every figure of the run; see the module for what each leaves out.

    Intervals are resampled, the dearest part by far; without them the rest is the same.
    """
    rounds, tested = trace.rounds, _tested(trace.rounds)
    whole = [entry for entry in rounds if entry.whole]
    drafted, accepted = _total(rounds, "num_drafted"), _total(rounds, "num_accepted")
    observed, expected = _ratio(accepted, len(tested)), _expected_alpha(tested)
    tau = _ratio(_tokens(whole), len(whole))
    steps, lanes = _steps(trace, whole), _lanes(trace.baseline, rounds)
    spent = lanes.speculative or _seconds(entry.times.decode for entry in whole)
    return Metrics(
        num_rounds=len(rounds),
        num_whole_rounds=len(whole),
        num_drafted=drafted,
        num_tested=len(tested),
        num_accepted=accepted,
        num_emitted=_tokens(rounds),
        alpha_observed=observed,
        alpha_expected=expected,
        draft_acceptance_rate=_ratio(accepted, drafted),
        tau=tau,
        alpha_by_position=_by_position(trace, "tested"),
        acceptance_by_position=_by_position(trace, "drafted"),
        gamma=steps.gamma,
        c=steps.c,
        v=steps.v,
        tokens_per_second=_ratio(_tokens(whole), spent),
        baseline_tokens_per_second=_ratio(_tokens(whole), lanes.target),
        speedup_observed=_ratio(lanes.target, lanes.speculative),
        speedup_end_to_end=_end_to_end(trace, lanes),
        speedup_ideal=_ideal(observed if expected is None else expected, steps),
        speedup_accounted=_ratio(tau, steps.round_cost),
        speedup_forecast=trace.forecast.speedup if trace.forecast else None,
        ttft_ms=_first_token_ms(trace),
        baseline_ttft_ms=None if lanes.target_ttft is None else 1000 * lanes.target_ttft,
        noisy=None if lanes.drift is None else lanes.drift > NOISE_LIMIT,
        drift=lanes.drift,
        wasted_share=_wasted_share(whole),
        intervals=Intervals(
            coins=coins_interval(trace) if intervals else None,
            prompt=prompt_interval(trace) if intervals else None,
        ),
    )


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


def speedup_limit(metrics: Metrics) -> float | None:
    """What no run at these step costs can exceed: every candidate accepted."""
    gamma, c, v = metrics.gamma, metrics.c, metrics.v
    if gamma is None or c is None or v is None:
        return None
    return (gamma + 1) / (gamma * c + v)


def rounds_frame(trace: Trace) -> pd.DataFrame:
    """A row a round; times in seconds."""
    rounds = trace.rounds
    tested = [_tested([entry]) for entry in rounds]
    columns: dict[str, Any] = {
        "round": [entry.index for entry in rounds],
        "context_length": [entry.context_length for entry in rounds],
        "drafted": [entry.num_drafted for entry in rounds],
        "tested": [len(each) for each in tested],
        "accepted": [entry.num_accepted for entry in rounds],
        "emitted": [len(entry.emitted) for entry in rounds],
        "alpha_expected": pd.Series([_expected_alpha(each) for each in tested], dtype=float),
        "extra_kind": [entry.extra_kind for entry in rounds],
        "cut": [entry.cut for entry in rounds],
        "whole": [entry.whole for entry in rounds],
    }
    for name in ("draft", "verify", "other", "record", "decode"):
        columns[f"{name}_seconds"] = [getattr(entry.times, name) for entry in rounds]
    return pd.DataFrame(columns)


def candidates_frame(trace: Trace) -> pd.DataFrame:
    """A row a candidate; ``position`` counts from 1. Entropies are missing with the record off."""
    places = [(entry.index, i) for entry in trace.rounds for i in range(entry.num_drafted)]
    candidates = [each for entry in trace.rounds for each in entry.candidates]
    columns: dict[str, Any] = {
        "round": [index for index, _ in places],
        "position": [place + 1 for _, place in places],
    }
    for name in _CANDIDATE_COLUMNS:
        columns[name] = [getattr(each, name) for each in candidates]
    for name in ("draft_entropy", "target_entropy"):
        entropies = [each.insight and getattr(each.insight, name) for each in candidates]
        columns[name] = pd.Series(entropies, dtype=float)
    return pd.DataFrame(columns)


# Counting


def _tested(rounds: Sequence[Round]) -> list[Candidate]:
    return [entry for each in rounds for entry in each.candidates if entry.tested]


def _total(rounds: Sequence[Round], name: str) -> int:
    return sum(getattr(entry, name) for entry in rounds)


def _tokens(rounds: Sequence[Round]) -> int:
    return sum(len(entry.emitted) for entry in rounds)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _seconds(values: Any) -> float | None:
    """Their sum, or None where no time passed."""
    return math.fsum(values) or None


def _expected_alpha(tested: Sequence[Candidate]) -> float | None:
    total = math.fsum(entry.expected_acceptance for entry in tested)
    # Sums of float32 probabilities may end a hair above 1.
    return min(1.0, total / len(tested)) if tested else None


def _by_position(trace: Trace, among: Literal["tested", "drafted"]) -> tuple[float | None, ...]:
    places = [
        [entry.candidates[i] for entry in trace.rounds if i < entry.num_drafted]
        for i in range(trace.config.gamma)
    ]
    return tuple(
        _ratio(
            sum(entry.verdict == "accepted" for entry in place),
            sum(among == "drafted" or entry.tested for entry in place),
        )
        for place in places
    )


# Time


def _steps(trace: Trace, whole: Sequence[Round]) -> _Steps:
    costs = trace.step_costs
    if costs is None or not whole:
        return _Steps()
    context = _total(whole, "context_length") / len(whole)
    step = costs.target_step(context)
    gamma, c = trace.config.gamma, None
    if trace.config.drafter != "model":
        gamma, c = math.floor(_total(whole, "num_drafted") / len(whole) + 0.5), 0.0
    elif costs.draft:
        c = _ratio(costs.draft_phase(context, gamma) / gamma, step)
    rows = len(costs.target)
    known = gamma < rows or rows > 9  # the line beyond the table starts at its 9th row
    v = _ratio(costs.verify(context, gamma + 1), step) if known else None
    return _Steps(gamma=gamma, c=c, v=v)


def _lanes(baseline: Baseline | None, rounds: Sequence[Round]) -> _Lanes:
    if baseline is None or not any(entry.whole for entry in rounds):
        return _Lanes()
    by_round = np.array([entry.whole for entry in rounds])
    by_token = np.repeat(by_round, [len(entry.emitted) for entry in rounds])
    blocks = [(block.lane, np.array(block.seconds)) for block in baseline.blocks]
    target = [seconds for lane, seconds in blocks if lane == "target"]
    plain = [float(seconds[by_token].sum()) for seconds in target]
    spec = [float(seconds[by_round].sum()) for lane, seconds in blocks if lane == "speculative"]
    firsts = [float(seconds[0]) for seconds in target if len(seconds)]
    first = _mean(firsts)
    return _Lanes(
        target=_mean(plain),
        speculative=_mean(spec),
        target_ttft=None if first is None else baseline.prefill + first,
        drift=_drift(plain, spec),
    )


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _drift(*lanes: Sequence[float]) -> float | None:
    """None unless every lane has two blocks to compare."""
    if any(len(lane) < 2 or min(lane) <= 0 for lane in lanes):
        return None
    return max(max(lane) / min(lane) - 1 for lane in lanes)


def _end_to_end(trace: Trace, lanes: _Lanes) -> float | None:
    if trace.baseline is None or lanes.target is None or lanes.speculative is None:
        return None
    prefill = trace.prefill.target + trace.prefill.draft
    return _ratio(trace.baseline.prefill + lanes.target, prefill + lanes.speculative)


def _ideal(alpha: float | None, steps: _Steps) -> float | None:
    """The textbook's: verification costs one step of the target."""
    if alpha is None or steps.gamma is None or steps.c is None:
        return None
    return speedup(alpha, steps.gamma, steps.c)


def _first_token_ms(trace: Trace) -> float | None:
    if not trace.rounds:
        return None
    return 1000 * (trace.prefill.target + trace.prefill.draft + trace.rounds[0].times.decode)


def _wasted_share(whole: Sequence[Round]) -> float | None:
    """Of each round, draft time x (1 - accepted / drafted). Verification is not counted:
    one pass is needed for the extra token anyway."""
    lost = math.fsum(
        entry.times.draft * (1 - entry.num_accepted / entry.num_drafted)
        for entry in whole
        if entry.num_drafted
    )
    return _ratio(lost, _seconds(entry.times.decode for entry in whole))


# Words


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


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
