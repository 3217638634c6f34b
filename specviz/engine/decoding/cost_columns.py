"""One column of step costs: both models at one context length, stepping in turns.

The steps are timed as a run makes them (``step_timer.py``): draft phases of one kind and
verifications of one number take turns, so that each starts from the processor's caches as the other
left them. Rows of plain target steps come in between, and a row is counted in the plain steps
around it: c and v are quotients, and a machine that gets slower for a second slows both parts.
Rounds of a tree take turns of their own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

import torch

from specviz.engine.decoding.step_timer import step_timer
from specviz.engine.model.pair import Pair
from specviz.record.pairs import Progress, ProgressCallback
from specviz.record.run_config import RunConfig
from specviz.record.step_costs import ENOUGH_SAMPLES

MAX_TOKENS = 17
LATER_STEPS = 3  # draft steps after the first, in the phases that tell what a later one costs
PLAIN_ROW = 2  # plain steps that count after a row
_PHASES = ((1, 1), (2, 1), (1, 1 + LATER_STEPS))  # tokens fed first, candidates drafted
_USUAL = 9  # tokens; verifying more leaves less in the caches of what drafting needs
_WARM_UP = 0.01  # seconds of plain steps before them; the first at any rate
_FIRST_CHUNK = 32  # tokens of a context, read at once; twice as many after a quick one
_QUICK = 0.1


class OutOfTimeError(Exception):
    pass


class Pace:
    """Called before every step: tells how far the work is, and ends it when the time is over."""

    def __init__(self, seconds: float, steps: int, tell: ProgressCallback | None) -> None:
        self.out_of_time = False
        self._seconds = seconds
        self._steps = steps
        self._tell = tell
        self._began = time.perf_counter()
        self._done = 0
        self._told = -1

    def look(self) -> None:
        spent = (time.perf_counter() - self._began) / self._seconds
        self._tell_share(max(spent, self._done / self._steps))
        if spent >= 1.0:
            self.out_of_time = True
            raise OutOfTimeError

    def step(self) -> None:
        self.look()
        self._done += 1

    def _tell_share(self, share: float) -> None:
        tenths = min(10, int(10 * share))
        if self._tell is not None and tenths > self._told:
            self._told = tenths
            self._tell(
                Progress(activity="measuring", text=f"measuring step costs: {10 * tenths} %")
            )


@dataclass(slots=True)
class Cell:
    """Times of one kind of step, in seconds or in plain steps beside it.

    Uncounted seconds stand in until a time counts.
    """

    counted: list[float] = field(default_factory=list)
    stand_in: float | None = None

    @property
    def known(self) -> bool:
        return bool(self.counted) or self.stand_in is not None

    def seconds(self, unit: float = 1.0) -> float:
        """``unit``: how many seconds that is which the counted times are in."""
        if self.counted:
            return median(self.counted) * unit
        assert self.stand_in is not None
        return self.stand_in

    @property
    def error(self) -> float:
        """Half the 95 % interval of the median, as a share of it; 1 where nobody can tell.

        The ends are those of the sorted times between which the median lies so often: that
        asks for no law of the times. With fewer than six, no two of them are far enough apart.
        """
        ranked, count = sorted(self.counted), len(self.counted)
        if count < ENOUGH_SAMPLES:
            return 1.0
        outside = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))
        return (ranked[-1 - outside] - ranked[outside]) / 2 / median(ranked)


class _Tree:
    """Rounds of a run's tree, or of its drafts side by side: their times."""

    def __init__(self) -> None:
        self.phase = Cell()
        self.verification = Cell()


class Column:
    """Both models with caches of a given length, stepping without getting longer."""

    def __init__(
        self, pair: Pair, config: RunConfig, context: int, pace: Pace, *, stepwise: bool
    ) -> None:
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(pair.vocabulary, (context + MAX_TOKENS,), generator=generator)
        self.context = context
        self.plain = Cell()
        self.phases = [Cell() for _ in _PHASES]
        self.verifications = {tokens: Cell() for tokens in range(2, MAX_TOKENS + 1)}
        self._pace = pace
        self._ids: list[int] = ids.tolist()
        self._rows = 0
        self._steps = step_timer(pair, self._ids, config, context, stepwise=stepwise)
        self._tree = _Tree() if self._steps.grows_trees else None

    def begin(self, order: Sequence[int]) -> None:
        """Read the context; then every kind of step once, none of which counts."""
        for feed in self._steps.readers:
            self._read(feed)
        self._pace.step()
        self.plain.stand_in = self._steps.plain_step()
        for index, tokens in enumerate(order):
            kind = index % len(_PHASES)
            self.phases[kind].stand_in, self.verifications[tokens].stand_in = self._turn(
                kind, tokens
            )
        if self._tree is not None:
            self._tree.phase.stand_in, self._tree.verification.stand_in = self._tree_turn()

    def row(self, tokens: int, turns: int) -> None:
        """Draft phases of one kind and verifications in turn; then plain steps.

        A run drafts and verifies the same numbers again and again, and so does a row. Its first
        turn does not count: the processor's caches still hold what another row left there.
        For the same reason plain steps count only after some others: weights that fit in the
        caches come back into them within about ten steps, and a run of the target alone goes on
        from there.
        """
        kind = self._rows % len(_PHASES)
        self._rows += 1
        phase = self.phases[kind]
        counts = tokens <= _USUAL or not phase.counted
        verification = self.verifications[tokens]
        self._row(lambda: self._turn(kind, tokens), turns, phase if counts else None, verification)

    def row_of_trees(self, turns: int) -> None:
        if self._tree is not None:
            self._row(self._tree_turn, turns, self._tree.phase, self._tree.verification)

    def _row(
        self,
        turn: Callable[[], tuple[float, float]],
        turns: int,
        phase: Cell | None,
        verification: Cell,
    ) -> None:
        before = max(0, len(self.plain.counted) - PLAIN_ROW)
        found: list[tuple[float, float]] = []
        try:
            turn()
            found.extend(turn() for _ in range(turns))
            self.plain.counted += self._plain_row()
        finally:
            here = median(self.plain.counted[before:] or [self.plain.seconds()])
            if phase is not None:
                phase.counted += [drafting / here for drafting, _ in found]
            verification.counted += [checking / here for _, checking in found]

    @property
    def cells(self) -> list[Cell]:
        phases = self.phases if self._steps.drafts else []
        trees = [self._tree.phase, self._tree.verification] if self._tree else []
        return [self.plain, *phases, *self.verifications.values(), *trees]

    @property
    def usable(self) -> bool:
        """Whether every unknown cost lies between two known ones."""
        ends = (self.verifications[2], self.verifications[MAX_TOKENS])
        phases = self.phases if self._steps.drafts else []
        return all(cell.known for cell in (self.plain, *phases, *ends))

    @property
    def unknown(self) -> list[int]:
        return [tokens for tokens, cell in self.verifications.items() if not cell.known]

    @property
    def tree(self) -> tuple[Cell, Cell] | None:
        """Draft phases and verifications of the run's tree, where they are known."""
        cells = (self._tree.phase, self._tree.verification) if self._tree else ()
        return (cells[0], cells[1]) if cells and all(cell.known for cell in cells) else None

    @property
    def draft_costs(self) -> list[float]:
        """First steps of one and of two tokens, and later ones; none without a draft model."""
        if not self._steps.drafts:
            return []
        one, two, longer = (cell.seconds(self.plain.seconds()) for cell in self.phases)
        return [one, two, max(1e-9, (longer - one) / LATER_STEPS)]

    @property
    def draft_errors(self) -> list[float]:
        """As ``draft_costs``. A later step's is that of the longer phases, which hold three."""
        return [] if not self._steps.drafts else [cell.error for cell in self.phases]

    @property
    def target_errors(self) -> list[float]:
        """Of what was not timed it is that of the worse neighbour."""
        found = {n: cell.error for n, cell in self.verifications.items() if cell.known}
        return [self.plain.error, *(_worse_neighbour(found, n) for n in self.verifications)]

    @property
    def target_costs(self) -> list[float]:
        plain = self.plain.seconds()
        known = {n: cell.seconds(plain) for n, cell in self.verifications.items() if cell.known}
        return [plain, *(_between(known, tokens) for tokens in self.verifications)]

    def _read(self, feed: Callable[[Sequence[int]], None]) -> None:
        """Read the context in pieces, since the limit of time holds here too."""
        at, size = 0, _FIRST_CHUNK
        while at < self.context:
            self._pace.look()
            began = time.perf_counter()
            feed(self._ids[at : min(at + size, self.context)])
            at += size
            size *= 2 if time.perf_counter() - began < _QUICK else 1

    def _turn(self, kind: int, tokens: int) -> tuple[float, float]:
        """Seconds of drafting and of verifying."""
        self._pace.step()
        drafting = self._steps.draft_phase(*_PHASES[kind]) if self._steps.drafts else 0.0
        self._pace.step()
        return drafting, self._steps.verification(tokens)

    def _plain_row(self) -> list[float]:
        """Seconds of plain steps, after some that bring the weights into the caches."""
        self._pace.step()
        warming = self._steps.plain_step()
        while warming < _WARM_UP:
            self._pace.look()
            warming += self._steps.plain_step()
        found: list[float] = []
        for _ in range(PLAIN_ROW):
            self._pace.step()
            found.append(self._steps.plain_step())
        return found

    def _tree_turn(self) -> tuple[float, float]:
        """Seconds of drafting a tree and of verifying it."""
        self._pace.step()
        self._pace.step()
        return self._steps.tree_round()


def _worse_neighbour(known: dict[int, float], tokens: int) -> float:
    if tokens in known:
        return known[tokens]
    left = max(each for each in known if each < tokens)
    right = min(each for each in known if each > tokens)
    return max(known[left], known[right])


def _between(known: dict[int, float], tokens: int) -> float:
    """The cost of verifying so many tokens, interpolated if it is not known."""
    if tokens in known:
        return known[tokens]
    left = max(each for each in known if each < tokens)
    right = min(each for each in known if each > tokens)
    share = (tokens - left) / (right - left)
    return known[left] + share * (known[right] - known[left])
