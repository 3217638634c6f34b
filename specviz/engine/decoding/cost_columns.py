"""One column of the step-cost table: step times of both models at one context length.

A *row* alternates between draft phases of one kind and verifications of one length, and times both.
Drafting and verification alternate in a run, too, so the processor caches are in the state of a
run. Plain target steps follow. The row's times are divided by the median of the plain steps just
before and just after the row. So if the machine slows down for a second, the quotients hardly
change: the row's times and the plain steps' times grow alike. Tree rounds are timed in separate
rows. ``step_timer.py`` times single steps; ``costs.py`` fills the table.

A target with recurrent layers has to read some tokens again after a rollback (the pending tokens of
``recurrent_step.py``). It reads up to 8 pending tokens together with the next verification, and
more than 8 in a separate pass. No timed step has pending tokens, so the rounds of such a target
take longer than these times. The times do include the snapshots of the target's state.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

import torch

from specviz.engine.decoding.step_timer import step_timer
from specviz.engine.model.pair import Pair
from specviz.record.pairs import Progress, ProgressCallback
from specviz.record.run_config import RunConfig
from specviz.record.step_costs import ENOUGH_SAMPLES

MAX_TOKENS = 17
LATER_STEPS = 3  # draft steps after the first, in the phases that give the cost of a later step
PLAIN_ROW = 2  # plain steps counted after a row
_PHASES = ((1, 1), (2, 1), (1, 1 + LATER_STEPS))  # tokens fed in the first step, candidates drafted
_USUAL = 9  # tokens; a longer verification evicts the draft's data from the processor caches
_WARM_UP = 0.01  # seconds of uncounted plain steps before the counted ones; at least one step
_FIRST_CHUNK = 32  # context tokens fed at once; doubled after a quick chunk
_QUICK = 0.1  # seconds; a chunk that takes less time is quick


class OutOfTimeError(Exception):
    pass


class TimeBudget:
    """Time limit of a measurement; reports progress and raises OutOfTimeError at the limit."""

    def __init__(self, seconds: float, steps: int, on_progress: ProgressCallback | None) -> None:
        self.out_of_time = False
        self._seconds = seconds
        self._steps = steps
        self._on_progress = on_progress
        self._began = time.perf_counter()
        self._done = 0
        self._reported = -1

    def check(self) -> None:
        spent = (time.perf_counter() - self._began) / self._seconds
        self._report(max(spent, self._done / self._steps))
        if spent >= 1.0:
            self.out_of_time = True
            raise OutOfTimeError

    @property
    def left(self) -> float:
        """The remaining seconds."""
        return self._seconds - (time.perf_counter() - self._began)

    def step(self) -> None:
        self.check()
        self._done += 1

    def _report(self, share: float) -> None:
        tenths = min(10, int(10 * share))
        if self._on_progress is not None and tenths > self._reported:
            self._reported = tenths
            self._on_progress(
                Progress(activity="measuring", text=f"measuring step costs: {10 * tenths} %")
            )


@dataclass(slots=True)
class Cell:
    """The times of one kind of step, for example of verifying 5 tokens.

    ``counted``: the times from which the cost is computed. For plain steps they are in seconds; for
    other steps they are divided by the median of the plain steps around them. ``fallback``: the
    seconds that the step took when it first ran. They are used for planning, and as the cost while
    ``counted`` is empty.
    """

    counted: list[float] = field(default_factory=list)
    fallback: float | None = None

    @property
    def known(self) -> bool:
        return bool(self.counted) or self.fallback is not None

    def seconds(self, unit: float = 1.0) -> float:
        """Return the median of ``counted`` times ``unit``, or ``fallback`` if ``counted`` is empty.

        ``unit``: 1, or the seconds of a plain step if ``counted`` is relative to plain steps.
        """
        if self.counted:
            return median(self.counted) * unit
        assert self.fallback is not None
        return self.fallback

    @property
    def error(self) -> float:
        """Half-width of the median's 95 % interval, relative to the median; 1 if unknown.

        The interval's ends are two of the sorted times, which assumes nothing about how the times
        are distributed. With fewer than six timed steps, there is no 95 % interval.
        """
        ranked, count = sorted(self.counted), len(self.counted)
        if count < ENOUGH_SAMPLES:
            return 1.0
        outside = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))
        return (ranked[-1 - outside] - ranked[outside]) / 2 / median(ranked)


class _Tree:
    """Times of drafting and verifying a run's tree."""

    def __init__(self) -> None:
        self.phase = Cell()
        self.verification = Cell()


class Column:
    """Times both models at one context length; rolls the caches back after every timed step."""

    def __init__(
        self, pair: Pair, config: RunConfig, context: int, budget: TimeBudget, *, stepwise: bool
    ) -> None:
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(pair.vocabulary, (context + MAX_TOKENS,), generator=generator)
        self.context = context
        self.plain = Cell()
        self.phases = [Cell() for _ in _PHASES]
        self.verifications = {tokens: Cell() for tokens in range(2, MAX_TOKENS + 1)}
        self._budget = budget
        self._ids: list[int] = ids.tolist()
        self._rows = 0
        self._steps = step_timer(pair, self._ids, config, context, stepwise=stepwise)
        self._tree = _Tree() if self._steps.drafts_trees else None

    def begin(self, order: Sequence[int]) -> None:
        """Feed the context, then run every kind of step once.

        The times of these steps are used for planning and as fallbacks.

        ``order``: the verification lengths in the order in which they are run.
        """
        for feed in self._steps.readers:
            self._read(feed)
        self._budget.step()
        self.plain.fallback = min(self._steps.plain_step() for _ in range(2))  # the first is slow
        for index, tokens in enumerate(order):
            kind = index % len(_PHASES)
            self.phases[kind].fallback, self.verifications[tokens].fallback = self._turn(
                kind, tokens
            )
        if self._tree is not None:
            self._tree.phase.fallback, self._tree.verification.fallback = self._tree_round()

    def row(self, tokens: int, turns: int) -> None:
        """Time ``turns`` turns (a draft phase, then a verification), followed by plain steps.

        Every turn verifies ``tokens`` tokens. The time of an additional first turn is ignored,
        because the processor caches still hold data of the previous row. The times of the first
        plain steps are ignored, too. These steps bring the processor caches into the state that
        they have when the target decodes alone: after about ten plain steps, the caches contain the
        target's weights, if the weights fit.
        """
        kind = self._rows % len(_PHASES)
        self._rows += 1
        phase = self.phases[kind]
        counts = tokens <= _USUAL or not phase.counted
        verification = self.verifications[tokens]
        self._row(lambda: self._turn(kind, tokens), turns, phase if counts else None, verification)

    def row_of_trees(self, turns: int) -> None:
        if self._tree is not None:
            self._row(self._tree_round, turns, self._tree.phase, self._tree.verification)

    def _row(
        self,
        turn: Callable[[], tuple[float, float]],
        turns: int,
        phase: Cell | None,
        verification: Cell,
    ) -> None:
        before = max(0, len(self.plain.counted) - PLAIN_ROW)
        times: list[tuple[float, float]] = []
        try:
            turn()
            times.extend(turn() for _ in range(turns))
            self.plain.counted += self._plain_row()
        finally:
            here = median(self.plain.counted[before:] or [self.plain.seconds()])
            if phase is not None:
                phase.counted += [drafting / here for drafting, _ in times]
            verification.counted += [checking / here for _, checking in times]

    @property
    def turn_seconds(self) -> float:
        """The expected seconds of a draft phase and a verification, estimated from ``begin``."""
        phases = [each.fallback for each in self.phases if each.fallback is not None]
        checks = [each.fallback for each in self.verifications.values() if each.fallback]
        most = (1 + LATER_STEPS) * min(phases)  # as many steps as the longest phase
        return fmean(min(each, most) for each in phases) + median(checks)

    @property
    def cells(self) -> list[Cell]:
        phases = self.phases if self._steps.drafts else []
        trees = [self._tree.phase, self._tree.verification] if self._tree else []
        return [self.plain, *phases, *self.verifications.values(), *trees]

    @property
    def usable(self) -> bool:
        """Whether all times that cannot be interpolated were measured.

        These are the times of plain steps, of draft phases, and of the shortest and the longest
        verification.
        """
        ends = (self.verifications[2], self.verifications[MAX_TOKENS])
        phases = self.phases if self._steps.drafts else []
        return all(cell.known for cell in (self.plain, *phases, *ends))

    @property
    def unknown(self) -> list[int]:
        return [tokens for tokens, cell in self.verifications.items() if not cell.known]

    @property
    def tree(self) -> tuple[Cell, Cell] | None:
        """The times of drafting and of verifying the run's tree; None if they were not measured."""
        cells = (self._tree.phase, self._tree.verification) if self._tree else ()
        return (cells[0], cells[1]) if cells and all(cell.known for cell in cells) else None

    @property
    def draft_costs(self) -> list[float]:
        """The seconds of three kinds of draft step; empty if the drafter has no steps.

        The three are a round's first step with one token, a round's first step with two tokens,
        and a later step.
        """
        if not self._steps.drafts:
            return []
        one, two, longer = (cell.seconds(self.plain.seconds()) for cell in self.phases)
        return [one, two, max(1e-9, (longer - one) / LATER_STEPS)]

    @property
    def draft_errors(self) -> list[float]:
        """The relative errors of ``draft_costs`` (see ``Cell.error``).

        A later step is not timed alone: its cost is computed from the longest draft phase and the
        first step. Its error is the error of the longest draft phase.
        """
        return [] if not self._steps.drafts else [cell.error for cell in self.phases]

    @property
    def target_errors(self) -> list[float]:
        """The relative errors of ``target_costs`` (see ``Cell.error``).

        An interpolated cost has two measured neighbours; its error is the larger of their errors.
        """
        found = {n: cell.error for n, cell in self.verifications.items() if cell.known}
        return [self.plain.error, *(_known_or_worse_error(found, n) for n in self.verifications)]

    @property
    def target_costs(self) -> list[float]:
        plain = self.plain.seconds()
        known = {n: cell.seconds(plain) for n, cell in self.verifications.items() if cell.known}
        return [plain, *(_interpolated_cost(known, tokens) for tokens in self.verifications)]

    def _read(self, feed: Callable[[Sequence[int]], None]) -> None:
        """Feed the context in chunks; check the time limit before every chunk."""
        at, size = 0, _FIRST_CHUNK
        while at < self.context:
            self._budget.check()
            began = time.perf_counter()
            feed(self._ids[at : min(at + size, self.context)])
            at += size
            size *= 2 if time.perf_counter() - began < _QUICK else 1

    def _turn(self, kind: int, tokens: int) -> tuple[float, float]:
        """Return the seconds of a draft phase and of a verification of ``tokens`` tokens.

        ``kind``: the index in ``_PHASES`` of the draft phase.
        """
        self._budget.step()
        drafting = self._steps.draft_phase(*_PHASES[kind]) if self._steps.drafts else 0.0
        self._budget.step()
        return drafting, self._steps.verification(tokens)

    def _plain_row(self) -> list[float]:
        """Return the seconds of plain steps, after a warm-up that fills the processor caches."""
        self._budget.step()
        warming = self._steps.plain_step()
        while warming < _WARM_UP:
            self._budget.check()
            warming += self._steps.plain_step()
        found: list[float] = []
        for _ in range(PLAIN_ROW):
            self._budget.step()
            found.append(self._steps.plain_step())
        return found

    def _tree_round(self) -> tuple[float, float]:
        """Return the seconds of drafting a tree and of verifying it."""
        self._budget.step()
        self._budget.step()
        return self._steps.tree_round()


def _known_or_worse_error(known: dict[int, float], tokens: int) -> float:
    if tokens in known:
        return known[tokens]
    left = max(each for each in known if each < tokens)
    right = min(each for each in known if each > tokens)
    return max(known[left], known[right])


def _interpolated_cost(known: dict[int, float], tokens: int) -> float:
    """Return the cost of verifying ``tokens`` tokens, given the measured costs in ``known``.

    A cost that was not measured is interpolated linearly between its two measured neighbours.
    """
    if tokens in known:
        return known[tokens]
    left = max(each for each in known if each < tokens)
    right = min(each for each in known if each > tokens)
    share = (tokens - left) / (right - left)
    return known[left] + share * (known[right] - known[left])
