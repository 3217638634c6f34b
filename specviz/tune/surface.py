"""The expected speedup for every γ and temperature, from texts that were scored once.

The speedup follows from the acceptance along each text and the step costs. Expected rounds along a
text are computed exactly from the acceptance probability of each token (``theory.along``). Rounds
cut short by the end of a text are left out, as in the figures of a run. The interval combines the
error of the step costs and the error of the texts. For the error of the texts, it uses Student's t
over the texts. If there are few texts, it uses Student's t over their segments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from specviz.figures.arithmetic import log_interval
from specviz.figures.expectation import (
    ExpectedRounds,
    expected_rounds,
    rounds_of_copies,
)
from specviz.figures.paired import ratio_of
from specviz.figures.step_times import covers_gamma, step_times
from specviz.record.scores import ScoredText
from specviz.record.trace import StepCosts
from specviz.theory.student import t_quantile
from specviz.tune.methods import Basis, ShortRun
from specviz.values import Value

CONFIDENCE = 0.95
AIM = 0.1  # half-width at which an answer's interval is narrow enough
_ENOUGH_TEXTS = 5  # for an interval over texts; with fewer texts, the interval is over segments
_BESIDE_COSTS = 0.2  # enough texts: their squared width is at most this share of that of the costs
_SEGMENT = 32  # tokens; with 16, the coverage of intervals from one text is off by a tenth
_FEWEST, _SHORTEST = 4, 16  # segments of a short text, and tokens of the shortest segment
CostsAt = Callable[[float], StepCosts | None]  # temperature -> step costs
KnownRounds = dict[int, tuple[ScoredText, list[ExpectedRounds]]]  # by the text's identity
OddsOf = Callable[[ScoredText], ArrayLike]


class Cell(Value):
    """A candidate's speedup and tokens per round at one γ and temperature.

    ``speedup`` is None without step costs or runs. ``basis``: whether the speedup is expected,
    measured, or a lower bound ("at least"). If the speedup is a lower bound, so is ``tau``.
    """

    gamma: int
    temperature: float
    tau: float
    speedup: float | None
    low: float | None
    high: float | None
    num_texts: int
    basis: Basis = "expected"
    num_runs: int = 0
    from_texts: float | None = None  # share of the squared width that the texts cause


class Surface(Value):
    cells: tuple[Cell, ...]

    @property
    def gammas(self) -> tuple[int, ...]:
        return tuple(sorted({each.gamma for each in self.cells}))

    @property
    def temperatures(self) -> tuple[float, ...]:
        return tuple(sorted({each.temperature for each in self.cells}))

    def best_at(self, temperature: float) -> Cell | None:
        """Return the values at the fastest γ for a temperature; None if no speedup is known."""
        at = [each for each in self.cells if each.temperature == temperature and each.speedup]
        return max(at, key=lambda each: each.speedup or 0.0, default=None)

    def cell(self, gamma: int, temperature: float) -> Cell | None:
        place = (gamma, temperature)
        return next((each for each in self.cells if (each.gamma, each.temperature) == place), None)


def odds_of(text: ScoredText) -> Sequence[float]:
    """Return each token's probability of acceptance, if all candidates before it are accepted."""
    assert text.scores is not None
    return text.scores.odds


def surface(
    texts: Sequence[ScoredText],
    costs_at: CostsAt,
    gammas: Sequence[int],
    odds: OddsOf = odds_of,
    known: KnownRounds | None = None,
) -> Surface:
    """Return the expected speedup and tokens per round for every γ and temperature.

    Texts that contain a token with target probability 0 are left out.

    Args:
        known: A cache of each text's expected rounds for these ``gammas`` and ``odds``. Rounds of
            new texts are added to it.
    """
    possible = [each for each in texts if each.scores is None or each.scores.impossible_at is None]
    by_temperature: dict[float, list[ScoredText]] = {}
    for each in possible:
        by_temperature.setdefault(each.sampling.temperature, []).append(each)
    cells: list[Cell] = []
    for temperature, own in sorted(by_temperature.items()):
        costs = costs_at(temperature)
        rounds = [_known_rounds(each, gammas, odds, known) for each in own]
        for place, gamma in enumerate(gammas):
            cells += _cell(gamma, temperature, [each[place] for each in rounds], costs)
    return Surface(cells=tuple(cells))


def _known_rounds(
    text: ScoredText, gammas: Sequence[int], odds: OddsOf, known: KnownRounds | None
) -> list[ExpectedRounds]:
    if known is None:
        return _rounds_along(text, gammas, odds)
    if id(text) not in known:
        known[id(text)] = text, _rounds_along(text, gammas, odds)
    return known[id(text)][1]


def _rounds_along(text: ScoredText, gammas: Sequence[int], odds: OddsOf) -> list[ExpectedRounds]:
    length, prompt = len(text.token_ids), text.num_prompt
    if text.scores is not None:
        return expected_rounds(odds(text), gammas, ends=text.ends, num_prompt=prompt)
    copied = {each.gamma: each for each in text.copied}
    return [rounds_of_copies(copied[g], length=length, num_prompt=prompt) for g in gammas]


def with_runs(found: Surface, runs: Sequence[ShortRun], *, known_tau: bool) -> Surface:
    """Return ``found`` with measured speedups where there were short runs.

    Args:
        known_tau: Whether to keep the tokens per round of ``found``, because they are exact.
    """
    cells = {(each.gamma, each.temperature): each for each in found.cells}
    by_place: dict[tuple[int, float], list[ShortRun]] = {}
    for run in runs:
        by_place.setdefault((run.gamma, run.temperature), []).append(run)
    for place, own in by_place.items():
        made = _measured(own)
        before = cells.get(place)
        if before is not None:
            tau = before.tau if known_tau else made.tau
            made = replace(made, tau=tau, num_texts=before.num_texts)
        cells[place] = made
    ranked = sorted(cells.values(), key=lambda each: (each.temperature, each.gamma))
    return Surface(cells=tuple(ranked))


def _measured(runs: Sequence[ShortRun]) -> Cell:
    """Return the geometric mean of the speedups, with its interval over the runs."""
    found = ratio_of({(0, place): math.log(each.speedup) for place, each in enumerate(runs)})
    assert found is not None
    return Cell(
        gamma=runs[0].gamma, temperature=runs[0].temperature,
        tau=sum(each.tokens for each in runs) / sum(each.rounds for each in runs),
        speedup=found.value, low=found.low, high=found.high, num_texts=0, basis="measured",
        num_runs=len(runs),
    )  # fmt: skip


def enough_texts(cell: Cell) -> int:
    """Return how many texts are enough.

    Texts are enough if the interval is ± 10 %, or if most of its width comes from the step costs.
    """
    if cell.from_texts is None or not cell.low or not cell.high:
        return cell.num_texts
    squared = (math.log(cell.high / cell.low) / 2) ** 2
    of_texts = squared * cell.from_texts
    of_costs = squared - of_texts
    room = max(math.log1p(AIM) ** 2 - of_costs, _BESIDE_COSTS * of_costs)
    return math.ceil(cell.num_texts * of_texts / room)


# One cell


def _cell(
    gamma: int, temperature: float, texts: Sequence[ExpectedRounds], costs: StepCosts | None
) -> list[Cell]:
    """Return a list of one cell, or [] if every text is too short for a whole round."""
    whole = [each for each in texts if each.rounds > 0]
    if not whole:
        return []
    tau = sum(each.tokens for each in whole) / sum(each.rounds for each in whole)
    speedup = error = from_texts = None
    if costs is not None and covers_gamma(costs, gamma):
        speedup, of_texts = _speedup(whole, costs)
        of_costs = _cost_error(gamma, whole, costs) or 0.0  # costs without an error add nothing
        error = None if of_texts is None else math.hypot(of_texts, of_costs)
        from_texts = (of_texts / error) ** 2 if error and of_texts is not None else None
    low, high = log_interval(speedup, error) or (None, None)
    return [
        Cell(
            gamma=gamma, temperature=temperature, tau=tau, speedup=speedup,
            low=low, high=high, num_texts=len(whole), from_texts=from_texts,
        )
    ]  # fmt: skip


def _speedup(texts: Sequence[ExpectedRounds], costs: StepCosts) -> tuple[float, float | None]:
    """Return the speedup, and the half-width of the 95 % interval of its logarithm over texts."""
    alone = [each.seconds_alone(costs) for each in texts]
    drafted = [each.seconds(costs) for each in texts]
    ratio = math.fsum(alone) / math.fsum(drafted)
    if len(texts) >= _ENOUGH_TEXTS:
        units = list(zip(alone, drafted, strict=True))
    else:
        units = [
            unit
            for text, own, other in zip(texts, alone, drafted, strict=True)
            for unit in _segments(text, own, other)
        ]
    return ratio, _error_over(units)


def _segments(text: ExpectedRounds, alone: float, drafted: float) -> list[tuple[float, float]]:
    """Return the seconds (target alone, speculative) of each segment of a text.

    A segment's share of the speculative seconds is the share of rounds that begin in the segment.
    """
    length = len(text.begins)
    count = max(1, round(length / _SEGMENT), min(_FEWEST, length // _SHORTEST))
    parts = np.array_split(text.begins, count)
    total = float(text.begins.sum())
    return [
        (alone * len(part) / len(text.begins), drafted * float(part.sum()) / total)
        for part in parts
    ]


def _error_over(units: Sequence[tuple[float, float]]) -> float | None:
    """Return the half-width of the 95 % interval of a log ratio of sums, log(Σ first / Σ second).

    The interval is linearized. The result is None for fewer than two pairs of values.
    """
    count = len(units)
    if count < 2:
        return None
    first, second = (math.fsum(each[side] for each in units) for side in (0, 1))
    squares = math.fsum((own / first - other / second) ** 2 for own, other in units)
    error = math.sqrt(squares * count / (count - 1))
    return t_quantile(0.5 + CONFIDENCE / 2, count - 1) * error


def _cost_error(gamma: int, texts: Sequence[ExpectedRounds], costs: StepCosts) -> float | None:
    context = math.fsum(each.context for each in texts) / len(texts)
    drafts = texts[0].drafts
    return step_times(costs, context, gamma, drafts=drafts).round_cost_error
