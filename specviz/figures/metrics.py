"""Compute the figures of a run from its trace; ``catalogue`` names and explains them.

Counts, alpha and acceptance by position use every round. Tau, tokens, times and the figures
computed from these use whole rounds: they leave out a round that EOS, a stop string or a limit
ended early. A figure that cannot be computed is None, not an estimate.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, Generic, Literal, TypeVar

from specviz.figures.acceptance import expected_alpha, tested_in
from specviz.figures.arithmetic import known_ratio, known_sum, log_interval, milliseconds
from specviz.figures.intervals import Interval, Intervals, coins_interval, prompt_interval
from specviz.figures.roofline import Roofline, roofline
from specviz.figures.step_times import (
    StepTimes,
    mean_fed_more,
    shape_times,
    step_times,
    under_load,
    varied_step_times,
)
from specviz.figures.timing import Timing, timing_of
from specviz.record.trace import Round, Trace
from specviz.theory.speed import break_even_alpha, speedup
from specviz.values import Value

__all__ = ["Interval", "Intervals", "Metrics", "metrics", "resampled"]

Figure = TypeVar("Figure")

_JSON_KEYS = (
    "num_rounds", "num_whole_rounds", "num_drafted", "num_tested", "num_accepted", "num_emitted",
    "alpha_observed", "alpha_expected", "draft_acceptance_rate", "outside_share", "tau",
    "alpha_by_position", "acceptance_by_position", "gamma", "c", "v", "tokens_per_second",
    "baseline_tokens_per_second", "speedup_observed", "speedup_end_to_end", "speedup_ideal",
    "speedup_accounted", "speedup_forecast", "ttft_ms", "baseline_ttft_ms", "speedup_low",
    "speedup_high", "speedup_pairs", "speedup_pairs_needed", "c_error", "v_error",
    "round_cost_error", "forecast_low", "forecast_high", "overhead", "break_even_alpha",
    "break_even_rate", "wasted_share", "parameters", "step_bytes", "bandwidth_share",
    "draft_bandwidth_share", "verify_bandwidth_share", "free_gamma",
)  # fmt: skip


class _Computed(Generic[Figure]):
    """A read-only attribute of `Metrics`, computed from other attributes by a function."""

    def __init__(self, formula: Callable[[Metrics], Figure]) -> None:
        self._formula = formula

    def __get__(self, figures: Metrics, _kind: type[Metrics]) -> Figure:
        return self._formula(figures)


class Metrics(Value):
    """The figures of one run: counts, and values from which all others are computed.

    Shares and acceptance rates are fractions. Times are in seconds, or in milliseconds if the name
    says so. Decoding times and ``num_tokens`` cover whole rounds.
    """

    trace: Trace
    num_whole_rounds: int
    num_drafted: int
    num_tested: int
    num_accepted: int
    num_tokens: int
    alpha_observed: float | None  # accepted / tested
    alpha_expected: float | None  # mean of sum min(draft, target) over tested positions
    alpha_by_position: tuple[float | None, ...]  # accepted at i / tested at i
    acceptance_by_position: tuple[float | None, ...]  # accepted at i / rounds that drafted at i
    decode_seconds: float  # of the recorded run
    wasted_seconds: float  # drafting time of candidates that were not accepted
    steps: StepTimes  # at the run's mean context
    timing: Timing | None
    roofline: Roofline | None
    intervals: Intervals

    num_rounds = _Computed(lambda m: len(m.trace.rounds))
    num_emitted = _Computed(lambda m: len(m.trace.token_ids))
    draft_acceptance_rate = _Computed(lambda m: known_ratio(m.num_accepted, m.num_drafted))
    extras = _Computed(lambda m: [each.extra for each in m.trace.rounds if each.extra])
    num_extras = _Computed(lambda m: len(m.extras))
    num_outside = _Computed(lambda m: sum(each.outside for each in m.extras))
    outside_share = _Computed(
        lambda m: known_ratio(m.num_outside, m.num_extras) if _cannot_propose(m.trace) else None
    )  # extra tokens that the head's vocabulary lacks
    tau = _Computed(lambda m: known_ratio(m.num_tokens, m.num_whole_rounds))

    gamma = _Computed(lambda m: m.steps.gamma)  # c, v and computed speedups hold for this γ
    c = _Computed(lambda m: m.steps.c)
    v = _Computed(lambda m: m.steps.v)
    overhead = _Computed(lambda m: None if m.v is None else m.steps.overhead_cost)
    # Half-widths of the 95 % intervals of c, v and the cost of a round, relative to the values.
    c_error = _Computed(lambda m: m.steps.c_error)
    v_error = _Computed(lambda m: m.steps.v_error)
    round_cost_error = _Computed(lambda m: m.steps.round_cost_error)

    target_seconds = _Computed(lambda m: m.timing and m.timing.target_seconds)
    target_prefill = _Computed(lambda m: m.trace.baseline and m.trace.baseline.prefill)
    prefill = _Computed(lambda m: m.trace.prefill.target + m.trace.prefill.draft)
    first_round = _Computed(lambda m: m.trace.rounds[0].times.decode if m.trace.rounds else None)
    tokens_per_second = _Computed(lambda m: known_ratio(m.num_tokens, m.seconds))
    baseline_tokens_per_second = _Computed(lambda m: known_ratio(m.num_tokens, m.target_seconds))
    ttft_ms = _Computed(lambda m: milliseconds(known_sum(m.prefill, m.first_round)))
    wasted_share = _Computed(lambda m: known_ratio(m.wasted_seconds, m.decode_seconds))

    speedup_observed = _Computed(lambda m: m.timing and m.timing.speedup)
    # The interval of the observed speedup covers the timing alone. ``speedup_pairs``: timed slices;
    # ``speedup_pairs_needed``: slices needed for the intended precision, None until known.
    speedup_low = _Computed(lambda m: m.timing and m.timing.low)
    speedup_high = _Computed(lambda m: m.timing and m.timing.high)
    speedup_pairs = _Computed(lambda m: m.timing and m.timing.pairs)
    speedup_pairs_needed = _Computed(lambda m: m.timing and m.timing.needed)
    speedup_accounted = _Computed(lambda m: known_ratio(m.tau, m.steps.round_cost))
    accounted_interval = _Computed(lambda m: log_interval(m.speedup_accounted, m.round_cost_error))
    limit_interval = _Computed(lambda m: log_interval(m.speedup_limit, m.round_cost_error))
    speedup_forecast = _Computed(lambda m: m.trace.forecast and m.trace.forecast.speedup)
    forecast_low = _Computed(lambda m: m.trace.forecast and m.trace.forecast.low)
    forecast_high = _Computed(lambda m: m.trace.forecast and m.trace.forecast.high)

    body = _Computed(lambda m: m.trace.pair.target.body)
    parameters = _Computed(lambda m: m.body and m.body.parameters)  # of the enlarged target
    # Shares of the memory bandwidth that target steps, draft steps and verifications reach.
    bandwidth_share = _Computed(lambda m: m.roofline and m.roofline.target.share)
    draft_bandwidth_share = _Computed(
        lambda m: m.roofline and m.roofline.draft and m.roofline.draft.share
    )
    verify_bandwidth_share = _Computed(
        lambda m: m.roofline and m.roofline.verification and m.roofline.verification.share
    )
    # The largest γ whose verification takes at most 1.1 target steps.
    free_gamma = _Computed(lambda m: m.roofline and m.roofline.free and m.roofline.free.gamma)

    @property
    def alpha(self) -> float | None:
        """The expected alpha if it was recorded, else the observed alpha."""
        return self.alpha_observed if self.alpha_expected is None else self.alpha_expected

    @property
    def expected_accepted(self) -> float:
        """The expected number of accepted candidates.

        It is the sum of the acceptance probabilities at the tested positions.
        """
        return math.fsum(each.expected_acceptance for each in tested_in(self.trace.rounds))

    @property
    def seconds(self) -> float | None:
        """The decoding seconds of the run.

        If the run was timed beside the target alone, the seconds come from this timing. They are
        None for runs with the oracle, which stops drafting before the first rejection. The oracle
        knows the verdicts in advance, so the times of such runs are not real.
        """
        if not self.trace.config.until.stopping.measured:
            return None
        return self.timing.speculative_seconds if self.timing else self.decode_seconds or None

    @property
    def baseline_ttft_ms(self) -> float | None:
        token = known_ratio(self.target_seconds, self.num_tokens)
        return milliseconds(known_sum(self.target_prefill, token))

    @property
    def speedup_end_to_end(self) -> float | None:
        seconds = self.timing and self.timing.speculative_seconds
        alone = known_sum(self.target_prefill, self.target_seconds)
        return known_ratio(alone, known_sum(self.prefill, seconds))

    @property
    def speedup_ideal(self) -> float | None:
        """The textbook speedup, where a verification costs one target step."""
        alpha, gamma, c = self.alpha, self.gamma, self.c
        if not self.trace.config.has_ideal or alpha is None or gamma is None or c is None:
            return None
        return speedup(alpha, gamma, c)

    @property
    def speedup_limit(self) -> float | None:
        """The speedup if every candidate is accepted: the maximum at these step costs."""
        if self.gamma is None:
            return None
        whole = [entry.num_drafted for entry in self.trace.rounds if entry.whole]
        varies = self.trace.config.is_chain and not self.trace.config.fixed_length
        drafted = fmean(whole) if varies else self.gamma
        return known_ratio(drafted + 1, self.steps.round_cost)

    @property
    def break_even_alpha(self) -> float | None:
        """The α at which speculation is as fast as the target alone.

        At this α, the expected tokens of a round equal its cost in target steps. None if no α is
        high enough, or if α alone does not determine the tokens of a round.
        """
        cost, gamma = self.steps.round_cost, self.gamma
        if cost is None or not math.isfinite(cost):
            return None
        if not gamma or not self.trace.config.has_ideal:
            return None
        return break_even_alpha(0.0, cost, gamma=gamma)

    @property
    def break_even_rate(self) -> float | None:
        """The share of accepted candidates at which a run is as fast as the target alone."""
        cost = self.steps.round_cost
        return None if cost is None or not self.gamma else max(0.0, cost - 1) / self.gamma

    @property
    def speedup_interval(self) -> tuple[float, float] | None:
        if self.speedup_low is None or self.speedup_high is None:
            return None
        return self.speedup_low, self.speedup_high

    @property
    def speedup_error(self) -> float | None:
        """The half-width of the interval of log(observed speedup)."""
        ends = self.speedup_interval
        return None if ends is None else math.log(ends[1] / ends[0]) / 2

    @property
    def step_bytes(self) -> float | None:
        """The bytes that a target step reads."""
        if self.roofline is not None:
            return self.roofline.target.read
        return self.body and self.body.step_bytes

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-compatible values."""
        figures = {name: getattr(self, name) for name in _JSON_KEYS}
        return _json_values(figures | {"intervals": dataclasses.asdict(self.intervals)})


def metrics(trace: Trace, *, intervals: bool = True) -> Metrics:
    """Return all figures of a run.

    Args:
        intervals: Whether to compute the intervals of alpha, which takes most of the time.
    """
    rounds, tested = trace.rounds, tested_in(trace.rounds)
    whole = [entry for entry in rounds if entry.whole]
    accepted, judged = _total(rounds, "num_accepted"), trace.config.has_alpha
    steps = _under_load(trace, _step_times(trace, whole))
    return Metrics(
        trace=trace,
        num_whole_rounds=len(whole),
        num_drafted=_total(rounds, "num_drafted"),
        num_tested=len(tested),
        num_accepted=accepted,
        num_tokens=sum(len(entry.emitted) for entry in whole),
        alpha_observed=known_ratio(accepted, len(tested)) if judged else None,
        alpha_expected=expected_alpha(tested) if judged else None,
        alpha_by_position=_by_position(trace, "tested") if judged else (),
        acceptance_by_position=_by_position(trace, "drafted") if trace.config.is_chain else (),
        decode_seconds=math.fsum(entry.times.decode for entry in whole),
        wasted_seconds=_wasted_seconds(whole),
        steps=steps,
        timing=timing_of(trace.baseline, rounds),
        roofline=_roofline(trace, whole, steps),
        intervals=_intervals(trace) if intervals else Intervals(coins=None, prompt=None),
    )


def resampled(figures: Metrics) -> Metrics:
    """Return the figures with the intervals of alpha, which `metrics` may leave out."""
    return dataclasses.replace(figures, intervals=_intervals(figures.trace))


def _intervals(trace: Trace) -> Intervals:
    return Intervals(coins=coins_interval(trace), prompt=prompt_interval(trace))


# Counting


def _total(rounds: Sequence[Round], name: str) -> int:
    return sum(getattr(entry, name) for entry in rounds)


def _by_position(trace: Trace, among: Literal["tested", "drafted"]) -> tuple[float | None, ...]:
    places = [
        [entry.candidates[i] for entry in trace.rounds if i < entry.num_drafted]
        for i in range(trace.config.depth)
    ]
    return tuple(
        known_ratio(
            sum(entry.verdict == "accepted" for entry in place),
            sum(among == "drafted" or entry.tested for entry in place),
        )
        for place in places
    )


def _cannot_propose(trace: Trace) -> bool:
    """Return whether the drafter is a head that can propose only some tokens."""
    head = trace.pair.draft and trace.pair.draft.head
    reduced = head is not None and head.proposable is not None
    return reduced and trace.config.draft_method.needs_head


# Time


def _step_times(trace: Trace, whole: Sequence[Round]) -> StepTimes:
    costs = trace.step_costs
    if costs is None or not whole:
        return StepTimes()
    context, config = _mean_context(whole), trace.config
    if config.draft_method.own:  # the table has no cost for a custom drafter
        return StepTimes(target=costs.target_step(context))
    if not config.is_chain:
        return shape_times(costs, context, config)
    drafts = config.draft_method.has_steps
    fed_more = mean_fed_more(whole) if costs.runs else 0.0
    if config.fixed_length:
        return step_times(costs, context, config.depth, drafts=drafts, fed_more=fed_more)
    counts = [entry.num_drafted for entry in whole]
    return varied_step_times(costs, context, counts, drafts=drafts, fed_more=fed_more)


def _mean_context(whole: Sequence[Round]) -> float:
    return _total(whole, "context_length") / len(whole)


def _under_load(trace: Trace, steps: StepTimes) -> StepTimes:
    """Return the step times, with larger errors if the machine's load has changed.

    The load during the run is compared with the load when the step costs were measured.
    """
    costs, timing = trace.step_costs, trace.baseline
    if costs is None or timing is None or timing.conditions is None:
        return steps
    return under_load(steps, costs.others, timing.conditions.others)


def _roofline(trace: Trace, whole: Sequence[Round], steps: StepTimes) -> Roofline | None:
    if trace.step_costs is None or not whole:
        return None
    return roofline(trace.step_costs, steps, _mean_context(whole), trace.pair.target.body)


def _wasted_seconds(whole: Sequence[Round]) -> float:
    """Return the seconds spent on drafting candidates that were not accepted.

    This is the sum over rounds of draft seconds x (1 - accepted / drafted). Verification is not
    wasted, because the extra token needs a target pass anyway.
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
