"""Compute the figures of a trace; ``catalogue`` defines them.

Counts, alpha and acceptance by position use every round. Tau, tokens, times and all that
follows from them leave out the cut rounds. A figure that cannot be computed is None; nothing is
estimated in its place.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from specviz.figures.acceptance import expected_alpha, tested_in
from specviz.figures.intervals import (
    Interval,
    Intervals,
    coins_interval,
    kind_interval,
    prompt_interval,
)
from specviz.figures.roofline import Roofline, roofline
from specviz.figures.step_times import StepTimes, shape_times, step_times, verification_time
from specviz.figures.timing import Timing, timing_of
from specviz.record.trace import (
    Forecast,
    Round,
    StepCosts,
    Trace,
)
from specviz.theory.speed import speedup

__all__ = [
    "Interval",
    "Intervals",
    "Metrics",
    "Parts",
    "kind_interval",
    "metrics",
    "resampled",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The inputs of the figures.

    Seconds and tokens cover whole rounds. Values that were not measured are None.
    """

    exact: bool
    possible: int  # tokens per round if every candidate is accepted
    tokens: int
    expected_accepted: float  # sum min(draft, target), summed over tested positions
    seconds: float | None  # of the run, from its timed repeats if there are any
    target_seconds: float | None  # of the target alone
    decoding: float  # of the recorded run
    wasted: float  # drafting time of candidates that were not accepted
    prefill: float  # of both models
    target_prefill: float | None  # of the target alone
    first_round: float | None
    draft_step: float | None  # step costs at the run's mean context
    target_step: float | None
    verification: float | None
    costs: StepCosts | None
    roofline: Roofline | None
    forecast: Forecast | None
    forecast_v: float | None  # v at the forecast's context


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The figures of one run. Shares and rates are fractions; names give the units of times."""

    num_rounds: int
    num_whole_rounds: int
    num_drafted: int
    num_tested: int
    num_accepted: int
    num_emitted: int
    alpha_observed: float | None  # accepted / tested
    alpha_expected: float | None  # mean of sum min(draft, target) over tested positions
    draft_acceptance_rate: float | None  # accepted / drafted, as serving engines report it
    tau: float | None
    alpha_by_position: tuple[float | None, ...]  # accepted at i / tested at i
    acceptance_by_position: tuple[float | None, ...]  # accepted at i / rounds that drafted at i
    gamma: int | None  # the gamma that c, v and the computed speedups are for
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
    # The interval of the observed speedup covers the timing alone. The timed pairs, and the pairs
    # needed for the intended precision; None if the pilot is incomplete.
    speedup_low: float | None
    speedup_high: float | None
    speedup_pairs: int | None
    speedup_pairs_needed: int | None
    # Half the 95 % intervals of c, v and the cost of a round, as shares of the values.
    c_error: float | None
    v_error: float | None
    round_cost_error: float | None
    wasted_share: float | None  # share of decode time for drafts that were not accepted
    parameters: int | None  # of the target in its body; None without one
    step_bytes: float | None  # bytes that a target step reads
    # Share of the measured memory bandwidth: of a target step, a draft step, a verification.
    bandwidth_share: float | None
    draft_bandwidth_share: float | None
    verify_bandwidth_share: float | None
    free_gamma: int | None  # largest γ whose verification takes hardly longer than a step
    intervals: Intervals
    parts: Parts

    @property
    def round_cost(self) -> float | None:
        """The cost of a round in target steps: gamma c + v."""
        if self.gamma is None or self.c is None or self.v is None:
            return None
        return self.gamma * self.c + self.v

    @property
    def speedup_limit(self) -> float | None:
        """The speedup with every candidate accepted, the maximum at these step costs."""
        return None if self.gamma is None else _ratio(self.gamma + 1, self.round_cost)

    @property
    def speedup_error(self) -> float | None:
        """Half the interval of the logarithm of the observed speedup."""
        if self.speedup_low is None or self.speedup_high is None:
            return None
        return math.log(self.speedup_high / self.speedup_low) / 2

    @property
    def limit_interval(self) -> tuple[float, float] | None:
        return self._at_round_costs(self.speedup_limit)

    @property
    def accounted_interval(self) -> tuple[float, float] | None:
        return self._at_round_costs(self.speedup_accounted)

    def _at_round_costs(self, value: float | None) -> tuple[float, float] | None:
        """Return the interval of a value divided by the cost of a round; None if unknown."""
        error = self.round_cost_error
        if value is None or error is None:
            return None
        return value * math.exp(-error), value * math.exp(error)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-compatible values, without the parts."""
        figures = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        del figures["parts"]
        figures["intervals"] = dataclasses.asdict(self.intervals)
        return _json_values(figures)


def metrics(trace: Trace, *, intervals: bool = True) -> Metrics:
    """Return all figures of a run. The intervals take most of the time and can be left out."""
    rounds, tested = trace.rounds, tested_in(trace.rounds)
    whole = [entry for entry in rounds if entry.whole]
    drafted, accepted = _total(rounds, "num_drafted"), _total(rounds, "num_accepted")
    judged = trace.config.has_alpha
    observed = _ratio(accepted, len(tested)) if judged else None
    expected = expected_alpha(tested) if judged else None
    tau = _ratio(_tokens(whole), len(whole))
    steps, timing = _step_times(trace, whole), timing_of(trace.baseline, rounds)
    parts, body = _parts(trace, whole, steps, timing), trace.pair.target.body
    roof = parts.roofline
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
        alpha_by_position=_by_position(trace, "tested") if judged else (),
        acceptance_by_position=_by_position(trace, "drafted") if trace.config.is_chain else (),
        gamma=steps.gamma,
        c=steps.c,
        v=steps.v,
        tokens_per_second=_ratio(parts.tokens, parts.seconds),
        baseline_tokens_per_second=_ratio(parts.tokens, parts.target_seconds),
        speedup_observed=timing.speedup if timing else None,
        speedup_end_to_end=_end_to_end(trace, timing),
        speedup_ideal=_ideal(observed if expected is None else expected, steps)
        if trace.config.has_ideal
        else None,
        speedup_accounted=_ratio(tau, steps.round_cost),
        speedup_forecast=trace.forecast.speedup if trace.forecast else None,
        ttft_ms=_first_token_ms(trace),
        baseline_ttft_ms=_first_token_alone_ms(trace, parts),
        speedup_low=timing.low if timing else None,
        speedup_high=timing.high if timing else None,
        speedup_pairs=timing.pairs if timing else None,
        speedup_pairs_needed=timing.needed if timing else None,
        c_error=steps.c_error,
        v_error=steps.v_error,
        round_cost_error=steps.round_cost_error,
        wasted_share=_ratio(parts.wasted, parts.decoding),
        parameters=body.parameters if body else None,
        step_bytes=roof.target.read if roof else body and body.step_bytes,
        bandwidth_share=roof and roof.target.share,
        draft_bandwidth_share=roof and roof.draft and roof.draft.share,
        verify_bandwidth_share=roof and roof.verification and roof.verification.share,
        free_gamma=roof and roof.free and roof.free.gamma,
        intervals=_intervals(trace) if intervals else Intervals(coins=None, prompt=None),
        parts=parts,
    )


def resampled(figures: Metrics, trace: Trace) -> Metrics:
    """Return the figures with the intervals that were left out before."""
    return dataclasses.replace(figures, intervals=_intervals(trace))


def _intervals(trace: Trace) -> Intervals:
    return Intervals(coins=coins_interval(trace), prompt=prompt_interval(trace))


def _parts(trace: Trace, whole: Sequence[Round], steps: StepTimes, timing: Timing | None) -> Parts:
    decoding = math.fsum(entry.times.decode for entry in whole)
    return Parts(
        exact=trace.config.exact,
        possible=trace.config.depth + 1,
        tokens=_tokens(whole),
        expected_accepted=math.fsum(each.expected_acceptance for each in tested_in(trace.rounds)),
        seconds=_seconds(trace, timing, decoding),
        target_seconds=timing.target_seconds if timing else None,
        decoding=decoding,
        wasted=_wasted(whole),
        prefill=trace.prefill.target + trace.prefill.draft,
        target_prefill=trace.baseline.prefill if trace.baseline else None,
        first_round=trace.rounds[0].times.decode if trace.rounds else None,
        draft_step=steps.draft,
        target_step=steps.target,
        verification=steps.verification,
        costs=trace.step_costs,
        roofline=_roofline(trace, whole, steps),
        forecast=trace.forecast,
        forecast_v=_forecast_v(trace),
    )


# Counting


def _total(rounds: Sequence[Round], name: str) -> int:
    return sum(getattr(entry, name) for entry in rounds)


def _tokens(rounds: Sequence[Round]) -> int:
    return sum(len(entry.emitted) for entry in rounds)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _by_position(trace: Trace, among: Literal["tested", "drafted"]) -> tuple[float | None, ...]:
    places = [
        [entry.candidates[i] for entry in trace.rounds if i < entry.num_drafted]
        for i in range(trace.config.depth)
    ]
    return tuple(
        _ratio(
            sum(entry.verdict == "accepted" for entry in place),
            sum(among == "drafted" or entry.tested for entry in place),
        )
        for place in places
    )


# Time


def _step_times(trace: Trace, whole: Sequence[Round]) -> StepTimes:
    costs = trace.step_costs
    if costs is None or not whole:
        return StepTimes()
    context, config = _mean_context(whole), trace.config
    if config.draft_method.own:  # the table has no cost for a custom drafter
        return StepTimes(target=costs.target_step(context))
    if not config.is_chain:
        return shape_times(costs, context, config.shape)
    drafted = math.floor(_total(whole, "num_drafted") / len(whole) + 0.5)
    gamma = config.depth if config.fixed_length else drafted
    return step_times(costs, context, gamma, drafts=config.draft_method.has_steps and gamma > 0)


def _seconds(trace: Trace, timing: Timing | None, decoding: float) -> float | None:
    """Return the seconds of the run; None for the oracle, whose speed cannot be reached."""
    if not trace.config.until.stopping.measured:
        return None
    return timing.speculative_seconds if timing else decoding or None


def _mean_context(whole: Sequence[Round]) -> float:
    return _total(whole, "context_length") / len(whole)


def _roofline(trace: Trace, whole: Sequence[Round], steps: StepTimes) -> Roofline | None:
    if trace.step_costs is None or not whole:
        return None
    return roofline(trace.step_costs, steps, _mean_context(whole), trace.pair.target.body)


def _forecast_v(trace: Trace) -> float | None:
    costs, gamma = trace.step_costs, trace.config.gamma
    if trace.forecast is None or costs is None:
        return None
    context = len(trace.prompt.token_ids) + trace.config.max_new_tokens / 2
    return _ratio(verification_time(costs, context, gamma), costs.target_step(context))


def _end_to_end(trace: Trace, timing: Timing | None) -> float | None:
    if trace.baseline is None or timing is None:
        return None
    prefill = trace.prefill.target + trace.prefill.draft
    return _ratio(
        trace.baseline.prefill + timing.target_seconds, prefill + timing.speculative_seconds
    )


def _ideal(alpha: float | None, steps: StepTimes) -> float | None:
    """Return the textbook speedup, where a verification costs one target step."""
    if alpha is None or steps.gamma is None or steps.c is None:
        return None
    return speedup(alpha, steps.gamma, steps.c)


def _first_token_ms(trace: Trace) -> float | None:
    if not trace.rounds:
        return None
    return 1000 * (trace.prefill.target + trace.prefill.draft + trace.rounds[0].times.decode)


def _first_token_alone_ms(trace: Trace, parts: Parts) -> float | None:
    token = _ratio(parts.target_seconds, parts.tokens)
    if trace.baseline is None or token is None:
        return None
    return 1000 * (trace.baseline.prefill + token)


def _wasted(whole: Sequence[Round]) -> float:
    """Return the sum over rounds of draft seconds x (1 - accepted / drafted).

    Verification does not count: the extra token needs one pass anyway.
    """
    return math.fsum(
        entry.times.draft * (1 - entry.num_accepted / entry.num_drafted)
        for entry in whole
        if entry.num_drafted
    )


# JSON


def _json_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json_values(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_json_values(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
