"""Step costs: what each kind of step takes, measured before any run is judged.

The steps are timed as a run makes them: draft phases of one kind and verifications of one number
take turns, so that each starts from the processor's caches as the other left them. Rows of plain
target steps come in between, and a row is counted in the plain steps around it: c and v are
quotients, and a machine that gets slower for a second slows both parts. A step includes its
processors, its draw and the host's wait, as in the loop; a draft phase draws the uniforms of its
whole round.

The time is limited, and the limit is checked before every step, also while the contexts are read.
So the table is filled breadth first, every kind of step once and then row by row at every context,
and all costs rest on about as many samples. A table that was cut short says on how many, and which
of its verifications are interpolated for want of samples. A context for which a draft phase or an
end of the column is missing is left out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median

import torch

from specviz.engine.decoding.judges import make_judge
from specviz.engine.decoding.model_drafting import ModelDrafter
from specviz.engine.decoding.plain_decoding import PlainLane
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Draws, Noise, Sampler, Uniforms, make_chooser, one_hot
from specviz.engine.decoding.target_pass import TargetPass
from specviz.engine.model.memory import memory_errors
from specviz.engine.model.pair import Pair
from specviz.record.pairs import Progress, Tell
from specviz.record.trace import ENOUGH_SAMPLES, RunConfig, StepCosts

MAX_TOKENS = 17
SECONDS = 10.0  # for a whole table
_LATER_STEPS = 3  # draft steps after the first, in the phases that tell what a later one costs
_PHASES = ((1, 1), (2, 1), (1, 1 + _LATER_STEPS))  # tokens fed first, candidates drafted
_PARTS = 4  # of the plain steps, to see whether the machine held still
_ROWS = (1, 3, 4)  # how often in a row a number is verified; the last is repeated
_USUAL = 9  # tokens; verifying more leaves less in the caches of what drafting needs
_PLAIN_ROW = 2  # plain steps that count after a row
_WARM_UP = 0.01  # seconds of plain steps before them; the first at any rate
_FIRST_CHUNK = 32  # tokens of a context, read at once; twice as many after a quick one
_QUICK = 0.1


class _OutOfTimeError(Exception):
    pass


def measure_step_costs(
    pair: Pair,
    config: RunConfig,
    *,
    contexts: Sequence[int],
    repeats: int = 12,
    seconds: float = SECONDS,
    tell: Tell | None = None,
) -> StepCosts | None:
    """The table for this pair under this sampling, at the given context lengths.

    ``tell`` hears of every tenth of the work or of the time, and may raise to stop it. None if
    the time was too short for a single context.
    """
    order, rows = _order(config.gamma + 1), tuple(_rows(repeats))
    pace = _Pace(seconds, len(contexts) * _steps(len(order), rows), tell)
    columns: list[_Column] = []
    with memory_errors(pair.device), suppress(_OutOfTimeError):
        for context in contexts:
            columns.append(_Column(pair, config, context, pace))
            columns[-1].begin(order)
        for turns in rows:
            for tokens in order:
                for column in columns:
                    column.row(tokens, turns)
    return _table([each for each in columns if each.usable], cut_short=pace.out_of_time)


def _order(wanted: int) -> tuple[int, ...]:
    """The ends first, then the wanted number, then numbers that halve the gaps."""
    halving = (n for stride in (8, 4, 2, 1) for n in range(1 + stride, MAX_TOKENS + 1, stride))
    order = dict.fromkeys((MAX_TOKENS, 2, wanted, *halving))
    return tuple(tokens for tokens in order if tokens <= MAX_TOKENS)


def _rows(repeats: int) -> Iterator[int]:
    left, index = repeats, 0
    while left:
        turns = min(left, _ROWS[min(index, len(_ROWS) - 1)])
        yield turns
        left, index = left - turns, index + 1


def _steps(numbers: int, rows: Sequence[int]) -> int:
    """Steps in a whole column, to tell how much of it is done."""
    return 1 + 2 * numbers + sum(2 * (turns + 1) + _PLAIN_ROW + 1 for turns in rows) * numbers


class _Pace:
    """Called before every step: tells how far the work is, and ends it when the time is over."""

    def __init__(self, seconds: float, steps: int, tell: Tell | None) -> None:
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
            raise _OutOfTimeError

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
class _Cell:
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


class _Column:
    """Both models with caches of a given length, stepping without getting longer."""

    def __init__(self, pair: Pair, config: RunConfig, context: int, pace: _Pace) -> None:
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(pair.vocabulary, (context + MAX_TOKENS,), generator=generator)
        self.context = context
        self.plain = _Cell()
        self.phases = [_Cell() for _ in _PHASES]
        self.verifications = {tokens: _Cell() for tokens in range(2, MAX_TOKENS + 1)}
        self._pace = pace
        self._ids: list[int] = ids.tolist()
        self._device = pair.device
        self._rows = 0
        self._drawn = Uniforms(0)
        capacity = context + MAX_TOKENS + 1
        sampler = Sampler(config)
        self._lane = PlainLane(pair, self._ids[:1], config, capacity)
        judge = make_judge(config, sampler)
        self._pass = TargetPass(pair.target_step(capacity), sampler, judge, pair.device)
        shares = config.rule == "coupled"
        self._noise = Noise(0, pair.vocabulary, pair.device) if shares else None
        self._draft_step = self._drafter = None
        if pair.draft is not None and config.draft_method.needs_draft:
            self._draft_step = pair.draft_step(capacity)
            self._drafter = ModelDrafter(
                self._draft_step, make_chooser(config, sampler), pair.vocabulary
            )
        self._proposals = {
            tokens: self._proposal(tokens - 1, pair.vocabulary) for tokens in self.verifications
        }

    def begin(self, order: Sequence[int]) -> None:
        """Read the context; then every kind of step once, none of which counts."""
        self._read(self._lane.read)
        steps = (self._pass.step, self._draft_step)
        for step in [each for each in steps if each is not None]:
            self._read(lambda ids, step=step: step.feed(torch.tensor(ids, device=step.device), 0))
        self._pace.step()
        self.plain.stand_in = self._plain_step()
        for index, tokens in enumerate(order):
            kind = index % len(_PHASES)
            self.phases[kind].stand_in, self.verifications[tokens].stand_in = self._turn(
                kind, tokens
            )

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
        before = max(0, len(self.plain.counted) - _PLAIN_ROW)
        found: list[tuple[float, float]] = []
        try:
            self._turn(kind, tokens)
            found.extend(self._turn(kind, tokens) for _ in range(turns))
            self.plain.counted += self._plain_row()
        finally:
            here = median(self.plain.counted[before:] or [self.plain.seconds()])
            if tokens <= _USUAL or not self.phases[kind].counted:
                self.phases[kind].counted += [drafting / here for drafting, _ in found]
            self.verifications[tokens].counted += [checking / here for _, checking in found]

    @property
    def cells(self) -> list[_Cell]:
        phases = self.phases if self._drafter else []
        return [self.plain, *phases, *self.verifications.values()]

    @property
    def usable(self) -> bool:
        """Whether every unknown cost lies between two known ones."""
        ends = (self.verifications[2], self.verifications[MAX_TOKENS])
        phases = self.phases if self._drafter else []
        return all(cell.known for cell in (self.plain, *phases, *ends))

    @property
    def unknown(self) -> list[int]:
        return [tokens for tokens, cell in self.verifications.items() if not cell.known]

    @property
    def draft_costs(self) -> list[float]:
        """First steps of one and of two tokens, and later ones; none without a draft model."""
        if self._drafter is None:
            return []
        one, two, longer = (cell.seconds(self.plain.seconds()) for cell in self.phases)
        return [one, two, max(1e-9, (longer - one) / _LATER_STEPS)]

    @property
    def draft_errors(self) -> list[float]:
        """As ``draft_costs``. A later step's is that of the longer phases, which hold three."""
        return [] if self._drafter is None else [cell.error for cell in self.phases]

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

    def _read(self, feed: Callable[[list[int]], object]) -> None:
        """Read the context in pieces, since the limit of time holds here too."""
        at, size = 0, _FIRST_CHUNK
        while at < self.context:
            self._pace.look()
            piece = self._ids[at : min(at + size, self.context)]
            seconds = self._time(lambda piece=piece: feed(piece))
            at += size
            size *= 2 if seconds < _QUICK else 1

    def _turn(self, kind: int, tokens: int) -> tuple[float, float]:
        """Seconds of drafting and of verifying."""
        self._pace.step()
        drafting = self._draft_phase(*_PHASES[kind])
        self._pace.step()
        return drafting, self._verification(tokens)

    def _plain_row(self) -> list[float]:
        """Seconds of plain steps, after some that bring the weights into the caches."""
        self._pace.step()
        warming = self._plain_step()
        while warming < _WARM_UP:
            self._pace.look()
            warming += self._plain_step()
        found: list[float] = []
        for _ in range(_PLAIN_ROW):
            self._pace.step()
            found.append(self._plain_step())
        return found

    def _plain_step(self) -> float:
        seconds = self._time(lambda: self._lane.step(self._ids[self.context], 0))
        self._lane.forget(1)
        return seconds

    def _draft_phase(self, tokens: int, count: int) -> float:
        if self._drafter is None:
            return 0.0
        drafter, history = self._drafter, self._ids[: self.context + tokens]
        drafter.settle(self.context)
        with torch.inference_mode():
            return self._time(lambda: drafter.propose(history, count, self._draws(count), None))

    def _verification(self, tokens: int) -> float:
        proposal, draws = self._proposals[tokens], self._draws(tokens - 1)
        pending = self._ids[self.context]
        seconds = self._time(lambda: self._pass.check(pending, proposal, draws))
        self._pass.step.forget(tokens)
        return seconds

    def _proposal(self, count: int, vocabulary: int) -> Proposal:
        ids = torch.tensor(self._ids[self.context + 1 :][:count], device=self._device)
        return Proposal(ids, one_hot(ids[:, None], vocabulary), None, 1)

    def _draws(self, count: int) -> Draws:
        uniforms = torch.from_numpy(self._drawn.of_round(0, count)).to(self._device)
        return Draws(uniforms, self._noise.rows(0, count + 1) if self._noise else None)

    def _time(self, work: Callable[[], object]) -> float:
        self._wait()
        began = time.perf_counter()
        work()
        self._wait()
        return time.perf_counter() - began

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def _table(columns: Sequence[_Column], *, cut_short: bool) -> StepCosts | None:
    if not columns:
        return None
    draft_rows = tuple(zip(*(each.draft_costs for each in columns), strict=True))
    least = min(len(cell.counted) for each in columns for cell in each.cells)
    return StepCosts(
        contexts=tuple(each.context for each in columns),
        draft=draft_rows[:2],
        target=tuple(zip(*(each.target_costs for each in columns), strict=True)),
        draft_next=draft_rows[2] if draft_rows else (),
        drift=max(_drift(each.plain.counted) for each in columns),
        samples=least if cut_short else None,
        interpolated=tuple(sorted({tokens for each in columns for tokens in each.unknown})),
        draft_errors=_worst(each.draft_errors for each in columns),
        target_errors=_worst(each.target_errors for each in columns),
    )


def _worst(columns: Iterable[Sequence[float]]) -> tuple[float, ...]:
    return tuple(max(errors) for errors in zip(*columns, strict=True))


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


def _drift(seconds: Sequence[float]) -> float:
    """The slowest part of a measurement over its fastest, less 1, by their medians."""
    size = max(1, len(seconds) // _PARTS)
    parts = [median(seconds[i : i + size]) for i in range(0, len(seconds), size)][:_PARTS]
    return max(parts) / min(parts) - 1.0 if parts else 0.0
