"""Slices of a finished run, timed in turn: both lanes along the same words, A B B A.

A slice is as much of the text as takes about 0.3 seconds; a shorter text is gone along several
times. The slices follow each other over the text, round and round. Rounds that the end of the text
cut short are not timed.
"""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

from specviz.figures.timing import PILOT, is_enough
from specviz.measure.machine_watch import MachineWatch
from specviz.record.limits import COMPARED_TIMING_SECONDS, TIMING, TIMING_SECONDS
from specviz.record.trace import Baseline, DraftingCosts, Round, RunConfig, Slice

if TYPE_CHECKING:
    from specviz.engine import Pair

SLICE_SECONDS = 0.3
BUDGET = "SPECVIZ_TIMING_SECONDS"
_FEWEST = 2  # slices, whatever the budget
_MOST_TURNS = 20  # along one short text
Lane = Callable[[int, int], tuple[float, ...]]  # the seconds of its steps along some rounds


def timing_seconds() -> float:
    """The longest time for the timing of a run, where nobody says: 20 seconds, or the
    environment's wish."""
    wish = os.environ.get(BUDGET, "")
    try:
        return TIMING.nearest(float(wish)) if wish and float(wish) >= 0 else TIMING_SECONDS
    except ValueError:
        return TIMING_SECONDS


def compared_seconds() -> float:
    """The same for each run of a comparison, whose interval is over its runs."""
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
    """What is known after every slice, until there are as many as the pilot asks for.

    It also ends when the next slice would not fit into the budget, in seconds, but not before two.
    ``costs`` are those that the run decided by.
    """
    began = time.monotonic()
    timer = SliceTimer(pair, prompt_ids, config, rounds, budget / PILOT, costs)
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
    """``prefill`` is what the target alone took to read the prompt. ``longest`` is for a slice."""

    def __init__(
        self,
        pair: Pair,
        prompt_ids: Sequence[int],
        config: RunConfig,
        rounds: Sequence[Round],
        longest: float = SLICE_SECONDS,
        costs: DraftingCosts | None = None,
    ) -> None:
        from specviz.engine.decoding.timed_replay import TimedReplay

        self._retracing = TimedReplay(pair, prompt_ids, config, rounds, costs)
        self.prefill = self._retracing.prefill
        self._whole = sum(entry.whole for entry in rounds)  # only the last may be cut
        self._parts: list[tuple[int, int]] = []
        self._turns = 1
        self._seconds = min(SLICE_SECONDS, longest)
        self._timed = 0

    @property
    def has_whole_rounds(self) -> bool:
        return self._whole > 0

    def next(self) -> Slice:
        """Time the next slice; there must be a whole round."""
        with undisturbed(collect=not self._timed):
            if not self._parts:
                self._divide()
            first, last = self._parts[self._timed % len(self._parts)]
            self._timed += 1
            alone, again = self._retracing.alone, self._retracing.speculative
            before = self._mean(alone, first, last)
            speculative = (self._mean(again, first, last), self._mean(again, first, last))
            after = self._mean(alone, first, last)
        return Slice(first=first, last=last, target=(before, after), speculative=speculative)

    def _divide(self) -> None:
        """Into equal parts, by what the first round takes in both lanes."""
        step = math.fsum(self._retracing.alone(0, 1)) + math.fsum(self._retracing.speculative(0, 1))
        rounds = max(1, round(self._seconds / (2 * step)))
        count = max(1, round(self._whole / rounds))
        ends = [round(self._whole * part / count) for part in range(count + 1)]
        self._parts = list(pairwise(ends))
        self._turns = min(_MOST_TURNS, max(1, round(rounds / self._whole)))

    def _mean(self, lane: Lane, first: int, last: int) -> float:
        """Seconds of a pass, over as many turns as a short text needs."""
        turns = range(self._turns)
        return math.fsum(math.fsum(lane(first, last)) for _ in turns) / self._turns


@contextmanager
def undisturbed(*, collect: bool = True) -> Iterator[None]:
    """No garbage collection inside a timed block; a whole one before it takes a quarter second."""
    was_on = gc.isenabled()
    if collect:
        gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
