"""Sentences that report whether speculation was faster, and why, from a run's figures.

If the interval is narrow, a sentence gives the speedup and the interval. If it is wide, the
sentence gives only the interval. If it is too wide, the sentence has no numbers and reports only
that the timing continues or was too noisy. If the interval includes 1, the speedup is too close to
call, and a second sentence reports what disturbed the machine, if known.
"""

from __future__ import annotations

import math

from specviz.figures.metrics import Metrics
from specviz.figures.timing import AIM
from specviz.record.numbers import PERCENT, RATIO, STEPS, TOKENS, times
from specviz.record.step_costs import BUSY
from specviz.record.trace import Conditions, Trace

WIDE = 1.35  # high over low: from here on the interval is shown without the value
TOO_WIDE = 4.0  # high over low: beyond this the interval is not shown
TOO_NOISY = "timing too noisy"
UNCERTAIN = "too uncertain"  # shown in place of a computed speedup
_APART = 1.1  # gap of two intervals, as a ratio, that is far; step costs are accurate to 8 %
_EVEN = 1.05  # an interval within this factor of 1 counts as no difference
_SLOW_CLOCK = 0.75
WHERE = "on this text, on this machine"


def speedup_sentence(metrics: Metrics, trace: Trace, *, so_far: bool = False) -> str:
    """Return the observed speedup with its interval, or why there is none."""
    if trace.baseline is None:
        return "The target alone was not measured."
    speed = metrics.speedup_observed
    if speed is None:
        return "No whole round was timed, so there is no speedup."
    low, high = metrics.speedup_low, metrics.speedup_high
    if low is None or high is None:
        return f"{_bare(speed)} (timed once, no confidence interval)."
    if is_too_wide(low, high):
        return _too_noisy_sentence(low, high, so_far=so_far)
    where = "on this text" if is_open(low, high) else WHERE
    sentence = verdict_words(speed, low, high, f"{where}, so far" if so_far else where)
    if high < 1:
        sentence += _reason(metrics)
    return f"{sentence}."


def headline(metrics: Metrics, trace: Trace, *, so_far: bool = False) -> tuple[str, str]:
    """Return two texts: the verdict in a few words, and the interval.

    The second text is empty if the verdict contains the interval or if the speedup is unknown.
    """
    speed, low, high = metrics.speedup_observed, metrics.speedup_low, metrics.speedup_high
    if trace.baseline is None or speed is None:
        return "Speedup not measured", ""
    until = " so far" if so_far else ""
    output = f"{until}, {_output_words(trace)}"
    if low is None or high is None:
        return f"{_faster_words(speed, RATIO.shown(speed))}{output}", "timed once, no interval"
    span = f"{RATIO.bare(low)} to {RATIO.shown(high)}"
    if is_too_wide(low, high):
        return "Timing the target alone" if so_far else "Speedup unknown: timing too noisy", ""
    if is_open(low, high):
        words = f"Too close to call{until}"
    elif low >= 1 / _EVEN and high <= _EVEN:
        words = f"As fast as the target alone{output}"
    else:
        wide = is_wide(low, high)
        words = f"{_faster_words(speed, span if wide else RATIO.shown(speed))}{output}"
        span = "" if wide else span
    return words, span


def _faster_words(speed: float, shown: str) -> str:
    return f"{shown} faster" if speed > 1 else f"Slower: {shown} the speed"


def _output_words(trace: Trace) -> str:
    if not trace.config.exact:
        return "changed distribution"
    return "same text" if trace.config.temperature == 0 else "same distribution"


def timing_sentence(metrics: Metrics, trace: Trace, *, so_far: bool = False) -> str:
    """Return which disturbance or time limit made the timing imprecise; empty if none did."""
    low, high = metrics.speedup_low, metrics.speedup_high
    if trace.baseline is None or low is None or high is None:
        return ""
    unsure = is_open(low, high) or is_wide(low, high)
    sentences = [disturbance(trace.baseline.conditions)] if unsure else []
    sentences += [] if so_far else [_shortage(metrics)]
    return " ".join(each for each in sentences if each)


def verdict_words(
    speed: float,
    low: float,
    high: float,
    where: str,
    over: str = "the target alone",
    place: str = "on this machine",
) -> str:
    """Return a sentence on a speedup and its interval, without a full stop.

    Args:
        where: The text and machine that the interval covers.
        over: The run or model with which the speed is compared.
        place: The machine, named only if the interval is open (see `is_open`).
    """
    span = f"{RATIO.bare(low)} to {RATIO.bare(high)}"
    if is_open(low, high):
        shows_ends = high / low <= TOO_WIDE**2
        ends = f"Between {RATIO.bare(low)} and {RATIO.bare(high)} times the speed of {over}"
        verdict = (
            f"{ends}: too close to call"
            if shows_ends
            else f"Unknown whether faster or slower than {over}"
        )
        return f"{verdict} {place} now ({where})"
    if low >= 1 / _EVEN and high <= _EVEN:
        return f"As fast as {over} ({span} times, {where})"
    if low > 1 and high / low < WIDE:
        return f"{times(speed)} as fast as {over} ({span}, {where})"
    if low > 1:
        return f"{span} times as fast as {over} ({where})"
    if high / low < WIDE:
        return f"Slower than {over}: {times(speed)} its speed ({span}, {where})"
    return f"Slower than {over}: {span} times its speed ({where})"


def is_open(low: float, high: float) -> bool:
    """Return whether an interval includes 1 and extends by more than 5 % above or below 1."""
    return low <= 1 <= high and not (low >= 1 / _EVEN and high <= _EVEN)


def is_undecided(metrics: Metrics) -> bool:
    """Return whether the interval of the speedup is missing or open (see `is_open`)."""
    low, high = metrics.speedup_low, metrics.speedup_high
    return low is None or high is None or is_open(low, high)


def is_wide(low: float | None, high: float | None) -> bool:
    """Return whether an interval is so wide that only its ends are shown, without the value."""
    return low is not None and high is not None and high / low >= WIDE


def is_too_wide(low: float | None, high: float | None) -> bool:
    """Return whether an interval is so wide that not even its ends are shown."""
    return low is not None and high is not None and high / low > TOO_WIDE


def shown_speedup(
    value: float | None, low: float | None, high: float | None, too_wide: str = TOO_NOISY
) -> str:
    """Return a speedup with its interval, for a table.

    If the interval is wide, it is shown without the speedup.

    Args:
        too_wide: Shown instead of an interval that is too wide.
    """
    if value is None or low is None or high is None:
        return RATIO.shown(value)
    if is_too_wide(low, high):
        return too_wide
    return RATIO.between(low, high) if is_wide(low, high) else RATIO.spread(value, low, high)


def reported_speedup(value: float, low: float | None, high: float | None) -> str:
    """Return a speedup with its interval, for a sentence.

    If the interval is wide, it is given without the speedup.
    """
    if low is None or high is None:
        return times(value)
    if is_too_wide(low, high):
        return TOO_NOISY
    span = f"{RATIO.bare(low)} to {RATIO.bare(high)}"
    return f"{span} times" if is_wide(low, high) else f"{times(value)} ({span})"


def disturbance(seen: Conditions | None) -> str:
    """Return what disturbed the machine during timing; empty if nothing is known."""
    if seen is None:
        return ""
    found: list[str] = []
    if seen.others is not None and seen.others >= BUSY:
        share = PERCENT.shown(seen.others)
        found.append(f"other processes used {share} of the processors' time")
    if seen.clock is not None and seen.clock < _SLOW_CLOCK:
        found.append(f"the processor ran at {PERCENT.shown(seen.clock)} of its maximum clock")
    if seen.on_battery:
        found.append("the machine ran on battery")
    return f"During timing, {' and '.join(found)}." if found else ""


def contradiction_warning(metrics: Metrics) -> str:
    """Return a warning if the observed speedup contradicts the step costs; else empty."""
    low, high = metrics.speedup_low, metrics.speedup_high
    if low is None or high is None:
        return ""
    again = (
        "one of the two measurements was disturbed. Measure the step costs again under “The pair”."
    )
    limit = metrics.limit_interval
    if limit is not None and low > limit[1]:
        return (
            f"The measured speedup is {RATIO.bare(low)} to {RATIO.bare(high)} times, but no more "
            f"than {times(limit[1])} is possible at these step costs: {again}"
        )
    accounted = metrics.accounted_interval
    if accounted is None or not _contradict(accounted, (low, high)):
        return ""
    return (
        f"The step costs predict a speedup of {RATIO.bare(accounted[0])} to "
        f"{RATIO.bare(accounted[1])} times, which contradicts the measured speedup of "
        f"{RATIO.bare(low)} to {RATIO.bare(high)} times: {again}"
    )


def _contradict(accounted: tuple[float, float], observed: tuple[float, float]) -> bool:
    """Return whether two intervals are far apart, or on opposite sides of 1."""
    lower, upper = sorted((accounted, observed))
    return lower[1] < upper[0] and (lower[1] < 1 < upper[0] or upper[0] >= _APART * lower[1])


def why_sentence(metrics: Metrics) -> str:
    """Return sentences on the speedup that the step costs predict; empty without step costs.

    If the measured speedup differs from this prediction, or if the step costs are imprecise, the
    last sentence says so.
    """
    gamma, c, v, tau = metrics.gamma, metrics.c, metrics.v, metrics.tau
    if gamma is None or c is None or v is None or tau is None:
        return ""
    known = metrics.trace.step_costs
    if known is not None and known.of_this_run:
        return "The step costs come from this run itself, so only a later run can test them."
    low, high = metrics.accounted_interval or (None, None)
    if is_wide(low, high):  # parts of the cost would look more exact than they are
        predicted = metrics.speedup_accounted or 0.0
        span = reported_speedup(predicted, low, high)
        made = [] if is_too_wide(low, high) else [f"The step costs predict a speedup of {span}."]
        return " ".join([*made, *_caveat(metrics, predicted)])
    if gamma * c == 0:
        costs = f"no model drafts, and verification takes {STEPS.bare(v)} target steps"
    else:
        drafted = "1 token" if gamma == 1 else f"{gamma} tokens"
        costs = (
            f"drafting {drafted} takes {STEPS.bare(gamma * c)} target steps and verification "
            f"takes {STEPS.bare(v)}"
        )
    parts = [gamma * c, v, metrics.steps.overhead_cost]
    if float(STEPS.bare(parts[2])):
        costs += f", and the rest of a round takes {STEPS.bare(parts[2])}"
    shown = [float(STEPS.bare(each)) for each in parts]  # the rounded numbers that a reader sees
    predicted = float(TOKENS.bare(tau)) / sum(shown)
    made = f"which predicts a speedup of {reported_speedup(predicted, low, high)}"
    sentence = (
        f"According to the step costs, {costs}. A round gives {TOKENS.bare(tau)} tokens, {made}."
    )
    return " ".join([sentence, *_caveat(metrics, predicted)])


def _caveat(metrics: Metrics, predicted: float) -> list[str]:
    """Return a sentence if the step costs are imprecise or do not predict the observed speedup."""
    imprecise, off = _imprecision(metrics), _difference(metrics, predicted)
    if imprecise and off:
        return [f"{off}. The step costs are imprecise, because {imprecise}."]
    if off:
        return [
            f"{off}. The step costs, which were measured at another time, do not explain the "
            "difference."
        ]
    return [f"The step costs are imprecise, because {imprecise}."] if imprecise else []


def _imprecision(metrics: Metrics) -> str:
    """Return why the step costs are imprecise; empty if they are precise."""
    costs, reasons = metrics.trace.step_costs, []
    if costs is not None and costs.noisy:
        reasons.append("the machine was busy when they were measured")
    if costs is not None and costs.sparse:
        reasons.append("they come from few samples")
    if not reasons and (found := metrics.accounted_interval) is not None and is_wide(*found):
        one = costs is not None and costs.runs > 0 and costs.processes == 1
        reasons.append("they come from a single process" if one else "their errors are large")
    return " and ".join(reasons)


def _difference(metrics: Metrics, predicted: float) -> str:
    """Return how the observed and the predicted interval differ; empty if they overlap."""
    low, high = metrics.speedup_low, metrics.speedup_high
    if low is None or high is None or is_too_wide(low, high):
        return ""
    least, most = metrics.accounted_interval or (predicted, predicted)
    if low <= most and least <= high:
        return ""
    side = "higher" if most < low else "lower"
    return f"The measured speedup, {RATIO.bare(low)} to {times(high)}, is {side} than predicted"


def _too_noisy_sentence(low: float, high: float, *, so_far: bool) -> str:
    """Return a verdict without numbers, for an interval that is too wide to be shown."""
    if so_far:
        return "The target alone is still being timed: too early for a speedup."
    if low <= 1 <= high:
        verdict = "Whether the run is faster than the target alone is unknown"
    else:
        side = "Faster" if low > 1 else "Slower"
        verdict = f"{side} than the target alone, by an unknown factor"
    return f"{verdict}: {TOO_NOISY} ({WHERE})."


def _bare(speed: float) -> str:
    return f"{times(speed)} as fast as the target alone"


def _shortage(metrics: Metrics) -> str:
    """Return a sentence if the timing ended before it reached the intended precision."""
    pairs, needed = metrics.speedup_pairs, metrics.speedup_pairs_needed
    if pairs is None or pairs < 2 or (needed is not None and pairs >= needed):
        return ""
    aim = PERCENT.shown(math.exp(AIM) - 1)
    return f"The time limit allowed only {pairs} timed slices, too few for an interval of ± {aim}."


def _reason(metrics: Metrics) -> str:
    gamma, c, v, tau = metrics.gamma, metrics.c, metrics.v, metrics.tau
    if gamma is None or c is None or v is None or tau is None:
        return ""
    if tau >= (metrics.steps.round_cost or 0.0):
        low, _ = metrics.accounted_interval or (metrics.speedup_accounted or 0.0, 0.0)
        gains = low > (metrics.speedup_high or 0.0)
        return (
            ", although the step costs predict a gain: "
            "work outside the step costs cancelled the gain"
            if gains
            else ""
        )
    drafting = f"drafting {gamma} tokens costs {STEPS.bare(gamma * c)} target steps"
    verifying = f"verifying {gamma + 1} costs {STEPS.bare(v)}"
    if not gamma * c:
        costs = f"verifying {gamma + 1} tokens costs {STEPS.bare(v)} target steps"
    else:
        costs = drafting if v < 1.1 else f"{drafting}, {verifying},"
    return f", because {costs} and a round gives only {TOKENS.bare(tau)} tokens"
