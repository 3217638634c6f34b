"""The speedup of one run from its timed slices, with the interval that they allow.

A slice gives one logarithm: the target's seconds a token over the seconds of a round. The speedup
is the mean of these, times the tokens a round of the whole text; so slices with lucky rounds count
no more than others. The highest and the lowest eighth of the slices are left out of the mean, so
that one in which the machine stalled does not carry it (a trimmed mean, its error by Yuen 1974).

When to stop is decided once. Neighbouring slices are pooled into batches until batches no longer
resemble their neighbours; a pilot of eight such batches fixes the number of slices that the aim
needs, and the interval is never narrower than its spread allows (Stein 1945): whoever looked again
and again, and stopped when the interval happened to be narrow, would cover too seldom. Nor is it
narrower than all slices together say, by themselves or pooled by two, four and so on: the pilot may
have been quiet, and slow disturbances show only in large batches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from specviz.record.trace import Baseline, Round, Slice
from specviz.theory.student import t_quantile

AIM = math.log(1.05)  # half the interval, of the logarithm
PILOT = 8  # batches
CONFIDENCE = 0.95
_ALIKE = 0.1  # lag-1 correlation from which batches are pooled further
_TRIMMED = 8  # one in so many is left out on either side
_FEWEST = 3  # batches that still tell an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """``speedup`` with its 95 % interval, which is of the timing alone: on this text and machine.

    ``low`` and ``high`` are None where a lane was timed only once. ``needed``: pairs that the
    pilot found necessary; None without a whole pilot. Seconds are of all whole rounds.
    """

    speedup: float
    low: float | None
    high: float | None
    pairs: int
    needed: int | None
    target_seconds: float
    speculative_seconds: float


def timing_of(baseline: Baseline | None, rounds: Sequence[Round]) -> Timing | None:
    """None without a timed slice."""
    if baseline is None or not baseline.slices:
        return None
    logs = [_log_seconds(each, rounds) for each in baseline.slices]
    ratios = [token - turn for token, turn in logs]
    plan = plan_of(ratios)
    kept = _middle(ratios)
    token, turn = (math.exp(fmean(logs[place][lane] for place in kept)) for lane in (0, 1))
    whole = [entry for entry in rounds if entry.whole]
    tokens = sum(len(entry.emitted) for entry in whole)
    target, speculative = tokens * token, len(whole) * turn
    error = _error_of_one(baseline.slices[0]) if len(logs) == 1 else _error_of(ratios, plan)
    return Timing(
        speedup=target / speculative,
        low=None if error is None else target / speculative * math.exp(-error),
        high=None if error is None else target / speculative * math.exp(error),
        pairs=len(logs),
        needed=plan.slices if plan else None,
        target_seconds=target,
        speculative_seconds=speculative,
    )


def seconds_by_round(
    baseline: Baseline | None, rounds: Sequence[Round]
) -> tuple[list[float], list[float]] | None:
    """For every round the target's seconds a token, and its own seconds: those of its slices.

    Scaled so that the lanes are as far apart as the speedup says. A round that was not timed, such
    as one cut short, takes the median. None without a timed slice.
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
    """Whether these are as many as their pilot asks for."""
    ratios = [token - turn for token, turn in (_log_seconds(each, rounds) for each in slices)]
    plan = plan_of(ratios)
    return plan is not None and len(ratios) >= plan.slices


def _log_seconds(each: Slice, rounds: Sequence[Round]) -> tuple[float, float]:
    """The target's seconds a token, and the seconds of a round."""
    timed = rounds[each.first : each.last]
    tokens = sum(len(entry.emitted) for entry in timed)
    return math.log(fmean(each.target) / tokens), math.log(fmean(each.speculative) / len(timed))


# The plan


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingPlan:
    """What the pilot fixed: slices in a batch, and how many slices are needed.

    ``error`` is half the interval of a single slice.
    """

    pooled: int
    slices: int
    error: float


def plan_of(ratios: Sequence[float]) -> TimingPlan | None:
    """None as long as the pilot is not over; more slices never change a plan."""
    pooled = 1
    while len(ratios) >= PILOT * pooled:
        pilot = ratios[: PILOT * pooled]
        if _likeness(_means(_winsorized(pilot), pooled)) < _ALIKE:
            error = _error(pilot) * math.sqrt(len(pilot))
            batches = max(PILOT, math.ceil((error / AIM) ** 2 / pooled))
            return TimingPlan(pooled=pooled, slices=batches * pooled, error=error)
        pooled *= 2
    return None


def _error_of(ratios: Sequence[float], plan: TimingPlan | None) -> float:
    """Half the interval."""
    found = _error(ratios)
    return found if plan is None else max(found, plan.error / math.sqrt(len(ratios)))


def _error(ratios: Sequence[float]) -> float:
    """Half the interval of the trimmed mean, pooled in the way that makes it widest."""
    count, cut = len(ratios), _left_out(len(ratios))
    calm = _winsorized(ratios)
    found, size = [_student(calm, freedom=count - 2 * cut - 1)], 2
    while count >= _FEWEST * size:
        found.append(_student(_means(calm, size)))
        size *= 2
    return max(found) * count / (count - 2 * cut)


def _error_of_one(only: Slice) -> float | None:
    """Of a single slice: its first two passes and its last two are taken for pairs."""
    if min(len(only.target), len(only.speculative)) < 2:
        return None
    halves = zip(only.target, only.speculative, strict=True)
    return _student([math.log(target / speculative) for target, speculative in halves])


def _student(values: Sequence[float], freedom: int | None = None) -> float:
    """Half the interval of the mean of values that do not depend on each other."""
    count, middle = len(values), fmean(values)
    squares = math.fsum((each - middle) ** 2 for each in values)
    error = math.sqrt(squares / (count - 1) / count)
    return t_quantile(0.5 + CONFIDENCE / 2, freedom or count - 1) * error


def _means(ratios: Sequence[float], size: int) -> list[float]:
    """Of batches of neighbours; what is left over at the end belongs to none."""
    whole = len(ratios) // size * size
    return [fmean(ratios[i : i + size]) for i in range(0, whole, size)]


def _left_out(count: int) -> int:
    """On either side."""
    return count // _TRIMMED


def _middle(ratios: Sequence[float]) -> list[int]:
    """The places of those that count in the trimmed mean."""
    cut, count = _left_out(len(ratios)), len(ratios)
    return sorted(range(count), key=lambda place: ratios[place])[cut : count - cut]


def _winsorized(values: Sequence[float]) -> list[float]:
    cut, ranked = _left_out(len(values)), sorted(values)
    return [min(max(each, ranked[cut]), ranked[-1 - cut]) for each in values]


def _likeness(values: Sequence[float]) -> float:
    """The lag-1 correlation."""
    middle = fmean(values)
    around = [each - middle for each in values]
    square = math.fsum(each * each for each in around)
    return math.fsum(one * other for one, other in pairwise(around)) / square if square else 0.0
