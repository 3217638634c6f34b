"""Time a finished run in slices: target alone (A) and run (B), in the order A B B A.

A slice is a part of the text. All four passes go over the same slice and take about 0.3 seconds
together; a shorter text is repeated. Slices go through the text in order and start over at its end.
A round cut short by the end of the text is not timed.
"""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from specviz.figures.timing import PILOT, is_enough
from specviz.measure.machine_watch import MachineWatch
from specviz.record.limits import COMPARED_TIMING_SECONDS, TIMING, TIMING_SECONDS
from specviz.record.trace import (
    Baseline,
    DraftingCosts,
    PhaseTimes,
    Round,
    RoundTimes,
    RunConfig,
    Slice,
)

if TYPE_CHECKING:
    from specviz.engine import Pair
    from specviz.engine.decoding.timed_replay import TimedReplay

SLICE_SECONDS = 0.3
BUDGET = "SPECVIZ_TIMING_SECONDS"
_FEWEST = 2  # slices, even over budget
_MOST_TURNS = 20  # repeats of one short text
Lane = Callable[[int, int], tuple[float, ...]]  # (first, last round) -> seconds of each step


def timing_seconds() -> float:
    """Return the seconds for timing a run, from ``SPECVIZ_TIMING_SECONDS`` or else the default."""
    setting = os.environ.get(BUDGET, "")
    try:
        return TIMING.nearest(float(setting)) if setting and float(setting) >= 0 else TIMING_SECONDS
    except ValueError:
        return TIMING_SECONDS


def compared_seconds() -> float:
    """Return the seconds for timing each run of a comparison.

    A run in a comparison needs less time than a single run, because the interval comes from several
    runs.
    """
    return min(COMPARED_TIMING_SECONDS, timing_seconds())


def timed_slices(
    pair: Pair,
    prompt_ids: Sequence[int],
    config: RunConfig,
    rounds: Sequence[Round],
    *,
    budget: float,
    costs: DraftingCosts | None = None,
) -> Iterator[Baseline]:
    """Yield the timing after every slice; the first slices decide how many slices are needed.

    The timing ends earlier if the next slice would exceed the budget, but not before two slices.

    Args:
        budget: Seconds for the whole timing.
        costs: The step costs by which the run decided to end drafting. None if the run decided
            without step costs.
    """
    from specviz.engine.decoding.timed_replay import TimedReplay

    began = time.monotonic()
    replay = TimedReplay(pair, prompt_ids, config, rounds, costs)
    timer = SliceTimer(replay, rounds, budget / PILOT)
    watch = MachineWatch()
    slices: list[Slice] = []
    if not timer.has_whole_rounds:
        yield Baseline(slices=(), prefill=timer.prefill)
    while timer.has_whole_rounds:
        slices.append(timer.next())
        yield Baseline(slices=tuple(slices), prefill=timer.prefill, conditions=watch.conditions())
        spent = time.monotonic() - began
        fits = spent * (len(slices) + 1) / len(slices) <= budget
        if is_enough(slices, rounds) or (len(slices) >= _FEWEST and not fits):
            return


class SliceTimer:
    """Times slices (parts of the text) of up to ``longest`` seconds.

    ``prefill`` is the target's prefill time.
    """

    def __init__(
        self, replay: TimedReplay, rounds: Sequence[Round], longest: float = SLICE_SECONDS
    ) -> None:
        self._replay = replay
        self.prefill = replay.prefill
        self._rounds = tuple(rounds)
        self._whole = sum(entry.whole for entry in rounds)  # only the last round may be cut
        self._parts: list[tuple[int, int]] = []
        self._turns = 1
        self._seconds = min(SLICE_SECONDS, longest)
        self._timed = 0

    @property
    def has_whole_rounds(self) -> bool:
        return self._whole > 0

    def next(self) -> Slice:
        """Time and return the next slice; requires ``has_whole_rounds``."""
        with undisturbed(collect=not self._timed):
            if not self._parts:
                self._divide()
            first, last = self._parts[self._timed % len(self._parts)]
            self._timed += 1
            alone, again = self._replay.alone, self._replay.speculative
            before = self._mean(alone, first, last)
            passes = tuple(again(first, last) for _ in range(2 * self._turns))
            after = self._mean(alone, first, last)
        seconds = [math.fsum(each.decode for each in times) for times in passes]
        halves = seconds[: self._turns], seconds[self._turns :]
        return Slice(
            first=first,
            last=last,
            target=(before, after),
            speculative=tuple(fmean(half) for half in halves),
            phases=phases_of(self._rounds[first:last], passes),
        )

    def _divide(self) -> None:
        """Divide the text into slices of equally many rounds, after timing the first round."""
        (round_times,) = self._replay.speculative(0, 1)
        step = math.fsum(self._replay.alone(0, 1)) + round_times.decode
        rounds = max(1, round(self._seconds / (2 * step)))
        count = max(1, round(self._whole / rounds))
        ends = [round(self._whole * part / count) for part in range(count + 1)]
        self._parts = list(pairwise(ends))
        self._turns = min(_MOST_TURNS, max(1, round(rounds / self._whole)))

    def _mean(self, lane: Lane, first: int, last: int) -> float:
        """Return the mean seconds that ``lane`` takes for these rounds.

        Rounds of a short text are timed several times.
        """
        return fmean(math.fsum(lane(first, last)) for _ in range(self._turns))


def phases_of(
    rounds: Sequence[Round], passes: Sequence[Sequence[RoundTimes]]
) -> tuple[PhaseTimes, ...]:
    """Return, for each kind of round, the mean times of its phases over all timed passes.

    Rounds of one kind have equally many candidates and equally many tokens in the first draft
    step.
    """
    kinds: dict[tuple[int, int], list[RoundTimes]] = {}
    for place, entry in enumerate(rounds):
        found = kinds.setdefault((entry.num_drafted, entry.draft_catch_up), [])
        found.extend(times[place] for times in passes)
    return tuple(
        PhaseTimes(
            candidates=candidates,
            fed=fed,
            rounds=len(found) // len(passes),
            draft=fmean(each.draft for each in found),
            verify=fmean(each.verify for each in found),
            other=fmean(each.other for each in found),
        )
        for (candidates, fed), found in sorted(kinds.items())
    )


@contextmanager
def undisturbed(*, collect: bool = True) -> Iterator[None]:
    """Disable garbage collection in the context; with ``collect``, first collect young objects.

    A full collection would take 0.25 seconds once torch and transformers are imported.
    """
    was_on = gc.isenabled()
    if collect:
        gc.collect(1)
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
