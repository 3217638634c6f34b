"""Whether speculation paid, and why, in sentences made of a run's figures.

There is always an answer, as wide as the timing leaves it. A narrow interval has the number in
front; a wide one stands in its place; one on both sides of 1 says that it is too close to call, and
what disturbed the machine, where that could be seen. Ends that lie so far apart that they say
nothing are not shown: the timing goes on, or it was too disturbed.
"""

from __future__ import annotations

import math

from specviz.figures.metrics import Metrics
from specviz.figures.timing import AIM
from specviz.record.numbers import PERCENT, RATIO, STEPS, TOKENS, times
from specviz.record.trace import Conditions, Trace

WIDE = 1.35  # high over low: from here on a number in front would claim more than is known
UNTOLD = 4.0  # high over low: beyond this the ends of the interval say nothing
TOO_DISTURBED = "too disturbed to say"
_APART = 1.1  # between the ends of two intervals: step costs explain a speedup to some 8 %
_EVEN = 1.05  # within this of 1 on both sides there is no difference worth a word
_BUSY = 0.15  # of the processors' time for others, worth a word
_SLOW_CLOCK = 0.75
WHERE = "on this text, on this machine"


def speedup_sentence(metrics: Metrics, trace: Trace, *, so_far: bool = False) -> str:
    """The answer with its interval; why there is none if the target alone was not timed."""
    if trace.baseline is None:
        return "The target alone was not measured."
    speed = metrics.speedup_observed
    if speed is None:
        return "No whole round was timed, so no speedup is known."
    low, high = metrics.speedup_low, metrics.speedup_high
    if low is None or high is None:
        return f"{_bare(speed)} (timed once, so how sure that is cannot be said)."
    if is_unreported(low, high):
        return _untold(low, high, so_far=so_far)
    where = "on this text" if is_open(low, high) else WHERE
    sentence = verdict_words(speed, low, high, f"{where}, so far" if so_far else where)
    if high < 1:
        sentence += _reason(metrics)
    return f"{sentence}."


def timing_sentence(metrics: Metrics, trace: Trace, *, so_far: bool = False) -> str:
    """Why the answer is no surer: what disturbed the machine, or that the time was over."""
    low, high = metrics.speedup_low, metrics.speedup_high
    if trace.baseline is None or low is None or high is None:
        return ""
    unsure = is_open(low, high) or is_wide(low, high)
    told = [disturbance(trace.baseline.conditions)] if unsure else []
    told += [] if so_far else [_shortage(metrics)]
    return " ".join(each for each in told if each)


def verdict_words(
    speed: float,
    low: float,
    high: float,
    where: str,
    over: str = "the target alone",
    place: str = "on this machine",
) -> str:
    """What an interval of a ratio says, without a full stop. ``where``: what it is of; ``place``:
    what may be less busy another time."""
    span = f"{RATIO.bare(low)} to {RATIO.bare(high)}"
    if is_open(low, high):
        known = high / low <= UNTOLD**2
        ends = f"Between {RATIO.bare(low)} and {RATIO.bare(high)} times the speed of {over}"
        told = (
            f"{ends}: too close to call"
            if known
            else f"Faster or slower than {over}: too uncertain to say"
        )
        return f"{told} {place} now ({where})"
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
    """Whether an interval leaves open which is faster, and by more than a little."""
    return low <= 1 <= high and not (low >= 1 / _EVEN and high <= _EVEN)


def is_undecided(metrics: Metrics) -> bool:
    """Whether the run's own interval leaves that open; so does a lane that was timed only once."""
    low, high = metrics.speedup_low, metrics.speedup_high
    return low is None or high is None or is_open(low, high)


def is_wide(low: float | None, high: float | None) -> bool:
    """Whether a number would say too much without its interval."""
    return low is not None and high is not None and high / low >= WIDE


def is_unreported(low: float | None, high: float | None) -> bool:
    """Whether an interval is so wide that its ends say nothing."""
    return low is not None and high is not None and high / low > UNTOLD


def shown_speedup(value: float, low: float | None, high: float | None) -> str:
    """Where there is little room: with its interval; a wide one stands alone."""
    if low is None or high is None:
        return RATIO.shown(value)
    if is_unreported(low, high):
        return TOO_DISTURBED
    return RATIO.between(low, high) if is_wide(low, high) else RATIO.spread(value, low, high)


def reported_speedup(value: float, low: float | None, high: float | None) -> str:
    """The same in a sentence."""
    if low is None or high is None:
        return times(value)
    if is_unreported(low, high):
        return f"the timing was {TOO_DISTURBED}"
    span = f"{RATIO.bare(low)} to {RATIO.bare(high)}"
    return f"{span} times" if is_wide(low, high) else f"{times(value)} ({span})"


def disturbance(seen: Conditions | None) -> str:
    """What disturbed the machine, as far as it could be seen; empty where nothing could."""
    if seen is None:
        return ""
    told: list[str] = []
    if seen.others is not None and seen.others >= _BUSY:
        share = PERCENT.shown(seen.others)
        told.append(f"other processes took {share} of the processors' time")
    if seen.clock is not None and seen.clock < _SLOW_CLOCK:
        told.append(f"the processor ran at {PERCENT.shown(seen.clock)} of its highest clock")
    if seen.on_battery:
        told.append("the machine ran on its battery")
    return f"Meanwhile {' and '.join(told)}." if told else ""


def alarm(metrics: Metrics) -> str:
    """Where observation and step costs cannot both be right; empty where they can."""
    low, high = metrics.speedup_low, metrics.speedup_high
    if low is None or high is None:
        return ""
    again = "they or the run were disturbed. Measure the step costs again (The pair)."
    limit = metrics.limit_interval
    if limit is not None and low > limit[1]:
        return (
            f"Measured {RATIO.bare(low)} to {RATIO.bare(high)} times, but no more than "
            f"{times(limit[1])} is possible at these step costs: {again}"
        )
    accounted = metrics.accounted_interval
    if accounted is None or not _contradict(accounted, (low, high)):
        return ""
    return (
        f"By the step costs it should be {RATIO.bare(accounted[0])} to {RATIO.bare(accounted[1])} "
        f"times, which contradicts what was measured: {again}"
    )


def _contradict(accounted: tuple[float, float], observed: tuple[float, float]) -> bool:
    """The intervals do not meet: they lie on both sides of 1, or clearly apart."""
    lower, upper = sorted((accounted, observed))
    return lower[1] < upper[0] and (lower[1] < 1 < upper[0] or upper[0] >= _APART * lower[1])


def why_sentence(metrics: Metrics) -> str:
    """Where the time of a round goes by the step costs, what comes out of it, and what speaks
    against these numbers; empty where they are not known."""
    gamma, c, v, tau = metrics.gamma, metrics.c, metrics.v, metrics.tau
    if gamma is None or c is None or v is None or tau is None:
        return ""
    if gamma * c == 0:
        costs = f"drafting was free, and checking took as long as {STEPS.bare(v)} target steps"
    else:
        drafted = "1 token" if gamma == 1 else f"{gamma} tokens"
        costs = (
            f"drafting {drafted} took as long as {STEPS.bare(gamma * c)} target steps, "
            f"checking {'it' if gamma == 1 else 'them'} {STEPS.bare(v)}"
        )
    shown = float(TOKENS.bare(tau)), float(STEPS.bare(gamma * c)), float(STEPS.bare(v))
    made = shown[0] / (shown[1] + shown[2])  # as a reader works it out
    said = (
        f"Each round, {costs}, by the step costs; {TOKENS.bare(tau)} tokens came out of it, "
        f"which makes {times(made)}."
    )
    return " ".join([said, *_against(metrics, made)])


def _against(metrics: Metrics, made: float) -> list[str]:
    """One sentence, where the step costs are rough or what they make was not observed."""
    rough, beside = _roughness(metrics), _beside(metrics, made)
    if rough and beside:
        return [f"{beside}: the step costs are rough, because {rough}."]
    if beside:
        return [f"{beside}: the step costs, measured at another time, do not explain all of it."]
    return [f"The step costs are rough, because {rough}."] if rough else []


def _roughness(metrics: Metrics) -> str:
    """Why the table of step costs may not be trusted."""
    costs, told = metrics.parts.costs, []
    if costs is not None and costs.noisy:
        told.append("the machine was busy when they were measured")
    if costs is not None and not costs.whole:
        told.append("the time for measuring them ran out")
    if not told and (found := metrics.accounted_interval) is not None and is_wide(*found):
        told.append(f"with their error it is {RATIO.bare(found[0])} to {times(found[1])}")
    return " and ".join(told)


def _beside(metrics: Metrics, made: float) -> str:
    """Where the observed interval leaves out what the step costs make."""
    low, high = metrics.speedup_low, metrics.speedup_high
    if low is None or high is None or is_unreported(low, high) or low <= made <= high:
        return ""
    less = "more" if made < low else "less"
    return f"Measured was {less}, {RATIO.bare(low)} to {times(high)}"


def _untold(low: float, high: float, *, so_far: bool) -> str:
    """An answer without numbers."""
    if so_far:
        return "The target alone is still being timed: too little is known so far for a speedup."
    if low <= 1 <= high:
        told = "Whether it is faster than the target alone is not known"
        return f"{told}: the timing was {TOO_DISTURBED} ({WHERE})."
    side = "Faster" if low > 1 else "Slower"
    told = f"{side} than the target alone, but by how much the timing was {TOO_DISTURBED}"
    return f"{told} ({WHERE})."


def _bare(speed: float) -> str:
    return f"{times(speed)} as fast as the target alone"


def _shortage(metrics: Metrics) -> str:
    """Said where the time for timing was over before the aim was reached."""
    pairs, needed = metrics.speedup_pairs, metrics.speedup_pairs_needed
    if pairs is None or pairs < 2 or (needed is not None and pairs >= needed):
        return ""
    aim = PERCENT.shown(math.exp(AIM) - 1)
    return f"In the time given, {pairs} slices of the text were timed: too few for ± {aim}."


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
