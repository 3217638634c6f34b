"""The speedup of one run from its timed slices, with its interval.

A slice is some rounds of the run, timed beside the target alone over the same tokens. It gives one
log-ratio: log(the target's seconds per token / the run's seconds per round). The speedup is
exp(mean log-ratio) times the tokens per round of the whole text, so that slices whose rounds
accepted many candidates do not weigh more. The mean leaves out the highest and the lowest eighth of
the slices, so that a stall of the machine does not dominate (a trimmed mean, error by Yuen 1974).

The number of slices is decided once, after a pilot (Stein 1945). If timing stopped as soon as the
interval happened to be narrow, the interval would contain the true value too rarely. For the pilot,
neighbouring slices are pooled into batches until batches no longer correlate with their neighbours.
Eight such batches determine how many slices the precision ``AIM`` needs.

The interval is the widest of several intervals. One comes from the spread in the pilot; the others
come from all slices, single or pooled in batches of two, four and so on. The pilot alone is not
enough, because the machine may have been quiet during it. Slow disturbances show only in large
batches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median

from specviz.figures.arithmetic import log_interval
from specviz.record.trace import Baseline, Round, Slice
from specviz.theory.student import t_quantile
from specviz.values import Value

AIM = math.log(1.05)  # half-width of the interval of the log speedup
PILOT = 8  # batches
CONFIDENCE = 0.95
_CORRELATED = 0.1  # lag-1 correlation from which batches are pooled further
_TRIMMED = 8  # one value in this many is left out at either end
_MIN_BATCHES = 3  # fewest batches from which an error is computed


class Timing(Value):
    """The speedup of a run with a 95 % interval that covers the timing alone.

    ``low`` and ``high`` are None if the run or the target alone was timed only once. ``pairs``: the
    number of timed slices; ``needed``: the number that the pilot requires, None while the pilot is
    incomplete. Seconds cover all whole rounds.
    """

    speedup: float
    low: float | None
    high: float | None
    pairs: int
    needed: int | None
    target_seconds: float
    speculative_seconds: float


def timing_of(baseline: Baseline | None, rounds: Sequence[Round]) -> Timing | None:
    """Return the timing of a run; None without a timed slice."""
    if baseline is None or not baseline.slices:
        return None
    logs = [_log_seconds(each, rounds) for each in baseline.slices]
    ratios = [per_token - per_round for per_token, per_round in logs]
    plan = plan_of(ratios)
    kept = _untrimmed(ratios)
    per_token, per_round = (math.exp(fmean(logs[place][lane] for place in kept)) for lane in (0, 1))
    whole = [entry for entry in rounds if entry.whole]
    tokens = sum(len(entry.emitted) for entry in whole)
    target, speculative = tokens * per_token, len(whole) * per_round
    error = _error_of_one(baseline.slices[0]) if len(logs) == 1 else _error_of(ratios, plan)
    low, high = log_interval(target / speculative, error) or (None, None)
    return Timing(
        speedup=target / speculative,
        low=low,
        high=high,
        pairs=len(logs),
        needed=plan.slices if plan else None,
        target_seconds=target,
        speculative_seconds=speculative,
    )


def seconds_by_round(
    baseline: Baseline | None, rounds: Sequence[Round]
) -> tuple[list[float], list[float]] | None:
    """Return, for every round, the target's seconds per token and the seconds of the round.

    Both come from the slices that contain the round. A round that was not timed, such as a cut
    round, gets the median of the timed rounds. Then each list is multiplied by a factor of its own,
    so that the target's time for all tokens, divided by the time of all rounds, is the run's
    speedup. Cut rounds do not count in these totals. The result is None without a timed slice.
    """
    timing = timing_of(baseline, rounds)
    if baseline is None or timing is None:
        return None
    tokens = [len(entry.emitted) for entry in rounds]
    lanes: list[list[float]] = []
    for lane, total in enumerate((timing.target_seconds, timing.speculative_seconds)):
        found = _by_round(baseline.slices, rounds, lane)
        weights = tokens if lane == 0 else [1] * len(rounds)
        whole = (w * each for w, each, r in zip(weights, found, rounds, strict=True) if r.whole)
        factor = total / math.fsum(whole)
        lanes.append([factor * each for each in found])
    return lanes[0], lanes[1]


def _by_round(slices: Sequence[Slice], rounds: Sequence[Round], lane: int) -> list[float]:
    found: list[list[float]] = [[] for _ in rounds]
    for each in slices:
        for place in range(each.first, each.last):
            found[place].append(math.exp(_log_seconds(each, rounds)[lane]))
    usual = median(median(times) for times in found if times)
    return [median(times) if times else usual for times in found]


def is_enough(slices: Sequence[Slice], rounds: Sequence[Round]) -> bool:
    """Return whether enough slices were timed, according to the first slices (the pilot)."""
    logs = [_log_seconds(each, rounds) for each in slices]
    ratios = [per_token - per_round for per_token, per_round in logs]
    plan = plan_of(ratios)
    return plan is not None and len(ratios) >= plan.slices


def trimmed_mean(values: Sequence[float]) -> tuple[float, float]:
    """Return the trimmed mean of the slices' values, and the half-width of its interval."""
    return fmean(values[place] for place in _untrimmed(values)), _error_of(values, plan_of(values))


def _log_seconds(each: Slice, rounds: Sequence[Round]) -> tuple[float, float]:
    """Return the logarithms of the target's seconds per token and of the seconds of a round."""
    timed = rounds[each.first : each.last]
    tokens = sum(len(entry.emitted) for entry in timed)
    return math.log(fmean(each.target) / tokens), math.log(fmean(each.speculative) / len(timed))


# The plan


class TimingPlan(Value):
    """How many slices the timing needs, as the first slices (the pilot) show.

    ``pooled``: the number of slices in a batch. ``slices``: the number of slices needed.
    ``error``: the half-width of the interval that one slice would give. The half-width that n
    slices give is ``error`` / √n.
    """

    pooled: int
    slices: int
    error: float


def plan_of(ratios: Sequence[float]) -> TimingPlan | None:
    """Return the plan, given each slice's log-ratio; None until the pilot is complete.

    Slices after the pilot never change the plan.
    """
    pooled = 1
    while len(ratios) >= PILOT * pooled:
        pilot = ratios[: PILOT * pooled]
        if _correlation(_means(_winsorized(pilot), pooled)) < _CORRELATED:
            error = _error(pilot) * math.sqrt(len(pilot))
            batches = max(PILOT, math.ceil((error / AIM) ** 2 / pooled))
            return TimingPlan(pooled=pooled, slices=batches * pooled, error=error)
        pooled *= 2
    return None


def _error_of(ratios: Sequence[float], plan: TimingPlan | None) -> float:
    """Return the half-width of the mean's interval.

    The result is at least the half-width that the pilot predicts.
    """
    found = _error(ratios)
    return found if plan is None else max(found, plan.error / math.sqrt(len(ratios)))


def _error(ratios: Sequence[float]) -> float:
    """Return the half-width of the trimmed mean's interval.

    The half-width is computed with batches of several sizes; the result is the largest.
    """
    count, cut = len(ratios), _num_trimmed(len(ratios))
    winsorized = _winsorized(ratios)
    found, size = [_student(winsorized, freedom=count - 2 * cut - 1)], 2
    while count >= _MIN_BATCHES * size:
        found.append(_student(_means(winsorized, size)))
        size *= 2
    return max(found) * count / (count - 2 * cut)


def _error_of_one(only: Slice) -> float | None:
    """Return the half-width of the interval of a single slice.

    A slice is timed in the order A B B A (A: target alone, B: run), which gives two ratios. The
    result is None if A or B was timed only once.
    """
    if min(len(only.target), len(only.speculative)) < 2:
        return None
    halves = zip(only.target, only.speculative, strict=True)
    return _student([math.log(target / speculative) for target, speculative in halves])


def _student(values: Sequence[float], freedom: int | None = None) -> float:
    """Return the half-width of the interval of the mean of independent values."""
    count, middle = len(values), fmean(values)
    squares = math.fsum((each - middle) ** 2 for each in values)
    error = math.sqrt(squares / (count - 1) / count)
    return t_quantile(0.5 + CONFIDENCE / 2, freedom or count - 1) * error


def _means(ratios: Sequence[float], size: int) -> list[float]:
    """Return the means of batches of ``size`` neighbours, without an incomplete last batch."""
    whole = len(ratios) // size * size
    return [fmean(ratios[i : i + size]) for i in range(0, whole, size)]


def _num_trimmed(count: int) -> int:
    """Return the number of values that the trimmed mean leaves out at each end."""
    return count // _TRIMMED


def _untrimmed(ratios: Sequence[float]) -> list[int]:
    """Return the indices of the values that the trimmed mean does not leave out."""
    cut, count = _num_trimmed(len(ratios)), len(ratios)
    return sorted(range(count), key=lambda place: ratios[place])[cut : count - cut]


def _winsorized(values: Sequence[float]) -> list[float]:
    cut, ranked = _num_trimmed(len(values)), sorted(values)
    return [min(max(each, ranked[cut]), ranked[-1 - cut]) for each in values]


def _correlation(values: Sequence[float]) -> float:
    """Return the correlation of each value with the next one (lag 1)."""
    middle = fmean(values)
    centred = [each - middle for each in values]
    square = math.fsum(each * each for each in centred)
    return math.fsum(one * other for one, other in pairwise(centred)) / square if square else 0.0
