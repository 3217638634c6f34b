"""The expected speedup for every gamma and temperature, from texts that were scored once.

Acceptance along a text and the costs of steps are all that it needs. The expected rounds are exact
along each text (``theory.along``): no acceptance rate is taken for all tokens. A text counts as the
engine counts it, so rounds that its end cuts short are left out. The interval is of two things: of
the texts (Student's t over texts, or over stretches of the text where there are few) and of the
step costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

import numpy as np
from numpy.typing import ArrayLike

from specviz.figures.expectation import (
    ExpectedRounds,
    copied_as_expected,
    expected_rounds,
    reaches,
)
from specviz.figures.step_times import step_times
from specviz.record.scores import ScoredText
from specviz.record.trace import StepCosts
from specviz.theory.student import t_quantile
from specviz.tune.methods import Basis, WayRun

CONFIDENCE = 0.95
_ENOUGH_TEXTS = 5  # for an interval over texts; with fewer it is over stretches of them
_STRETCH = 32  # tokens: with 16, intervals of single texts cover a tenth too seldom
_FEWEST, _SHORTEST = 4, 16  # stretches of a short text, and tokens of the shortest one
CostsAt = Callable[[float], StepCosts | None]  # by temperature
OddsOf = Callable[[ScoredText], ArrayLike]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is expected at one gamma and temperature. No speedup without step costs or runs.

    ``basis``: what the speedup is; where it is *at least*, ``tau`` is, too.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    cells: tuple[Cell, ...]

    @property
    def gammas(self) -> tuple[int, ...]:
        return tuple(sorted({each.gamma for each in self.cells}))

    @property
    def temperatures(self) -> tuple[float, ...]:
        return tuple(sorted({each.temperature for each in self.cells}))

    @property
    def best(self) -> Cell | None:
        return _best(self.cells)

    def best_at(self, temperature: float) -> Cell | None:
        return _best([each for each in self.cells if each.temperature == temperature])

    def cell(self, gamma: int, temperature: float) -> Cell | None:
        place = (gamma, temperature)
        return next((each for each in self.cells if (each.gamma, each.temperature) == place), None)


def _best(cells: Sequence[Cell]) -> Cell | None:
    known = [each for each in cells if each.speedup is not None]
    return max(known, key=lambda each: each.speedup or 0.0, default=None)


def odds_of(text: ScoredText) -> Sequence[float]:
    """Of a candidate behind others that stand."""
    assert text.scores is not None
    return text.scores.odds


def surface(
    texts: Sequence[ScoredText],
    costs_at: CostsAt,
    gammas: Sequence[int],
    odds: OddsOf = odds_of,
) -> Surface:
    """All texts of one temperature count together; of a text that is impossible, none does."""
    possible = [each for each in texts if each.scores is None or each.scores.impossible_at is None]
    by_law: dict[float, list[ScoredText]] = {}
    for each in possible:
        by_law.setdefault(each.law.temperature, []).append(each)
    cells: list[Cell] = []
    for temperature, own in sorted(by_law.items()):
        costs = costs_at(temperature)
        walked = [_walked(each, gammas, odds) for each in own]
        for place, gamma in enumerate(gammas):
            cells += _cell(gamma, temperature, [each[place] for each in walked], costs)
    return Surface(cells=tuple(cells))


def _walked(text: ScoredText, gammas: Sequence[int], odds: OddsOf) -> list[ExpectedRounds]:
    length, prompt = len(text.token_ids), text.num_prompt
    if text.scores is not None:
        return expected_rounds(odds(text), gammas, ends=text.ends, num_prompt=prompt)
    copied = {each.gamma: each for each in text.copied}
    return [copied_as_expected(copied[g], length=length, num_prompt=prompt) for g in gammas]


def with_runs(found: Surface, runs: Sequence[WayRun], *, known_tau: bool) -> Surface:
    """With the speeds that were measured; ``known_tau``: the surface knows the tokens a round."""
    cells = {(each.gamma, each.temperature): each for each in found.cells}
    by_place: dict[tuple[int, float], list[WayRun]] = {}
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


def _measured(runs: Sequence[WayRun]) -> Cell:
    """The mean of the logarithms, with its interval over the runs."""
    logs = [math.log(each.speedup) for each in runs]
    speedup, ends = math.exp(fmean(logs)), (None, None)
    if len(logs) > 1:
        quantile = t_quantile(0.5 + CONFIDENCE / 2, len(logs) - 1)
        ends = _ends(speedup, quantile * stdev(logs) / math.sqrt(len(logs)))
    return Cell(
        gamma=runs[0].gamma, temperature=runs[0].temperature,
        tau=sum(each.tokens for each in runs) / sum(each.rounds for each in runs),
        speedup=speedup, low=ends[0], high=ends[1], num_texts=0, basis="measured",
        num_runs=len(runs),
    )  # fmt: skip


# One cell


def _cell(
    gamma: int, temperature: float, texts: Sequence[ExpectedRounds], costs: StepCosts | None
) -> list[Cell]:
    """None where every text is too short for a whole round."""
    whole = [each for each in texts if each.rounds > 0]
    if not whole:
        return []
    tau = sum(each.tokens for each in whole) / sum(each.rounds for each in whole)
    speedup = error = None
    if costs is not None and reaches(costs, gamma):
        speedup, error = _speedup(gamma, whole, costs)
    ends = (None, None) if speedup is None or error is None else _ends(speedup, error)
    return [
        Cell(
            gamma=gamma, temperature=temperature, tau=tau, speedup=speedup,
            low=ends[0], high=ends[1], num_texts=len(whole),
        )
    ]  # fmt: skip


def _ends(speedup: float, error: float) -> tuple[float, float]:
    return speedup * math.exp(-error), speedup * math.exp(error)


def _speedup(
    gamma: int, texts: Sequence[ExpectedRounds], costs: StepCosts
) -> tuple[float, float | None]:
    """The ratio of all seconds; half the 95 % interval of its logarithm."""
    alone = [each.seconds_alone(costs) for each in texts]
    drafted = [each.seconds(costs) for each in texts]
    ratio = math.fsum(alone) / math.fsum(drafted)
    if len(texts) >= _ENOUGH_TEXTS:
        units = list(zip(alone, drafted, strict=True))
    else:
        units = [
            unit
            for text, own, other in zip(texts, alone, drafted, strict=True)
            for unit in _stretches(text, own, other)
        ]
    return ratio, _joint(_error_over(units), _cost_error(gamma, texts, costs))


def _stretches(text: ExpectedRounds, alone: float, drafted: float) -> list[tuple[float, float]]:
    """Seconds of both lanes in each stretch of a text, by the rounds that begin in it."""
    length = len(text.begins)
    count = max(1, round(length / _STRETCH), min(_FEWEST, length // _SHORTEST))
    parts = np.array_split(text.begins, count)
    total = float(text.begins.sum())
    return [
        (alone * len(part) / len(text.begins), drafted * float(part.sum()) / total)
        for part in parts
    ]


def _error_over(units: Sequence[tuple[float, float]]) -> float | None:
    """Half the interval of log(sum of the first / sum of the second), by linearisation."""
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


def _joint(of_texts: float | None, of_costs: float | None) -> float | None:
    """Costs that came without an error, such as given ones, add none."""
    return None if of_texts is None else math.hypot(of_texts, of_costs or 0.0)
