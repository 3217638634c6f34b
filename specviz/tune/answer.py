"""What is known of a question so far: every candidate's surface, their ranking, the advice.

A candidate is ranked by its best gamma at one temperature, the one asked about, whether its speed
is expected, has a bound, or was measured in short runs. Whoever chooses the best of many looks at
the luckiest too, so the interval stands beside every value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from specviz.comparison.plan import Lane
from specviz.figures.expectation import Floats, knows_rounds
from specviz.figures.step_times import StepTimes, step_times
from specviz.record.scores import ScoredText
from specviz.record.trace import PairInfo, RunConfig, StepCosts
from specviz.theory.along import accepted_along, rounds_along
from specviz.tune.methods import Form, WayRun, chances_of, form_of, is_plain
from specviz.tune.question import Question
from specviz.tune.surface import Cell, OddsOf, Surface, odds_of, surface, with_runs

_MORE_ACCEPTED = 0.1


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One way to speculate, with the texts it was scored on and the short runs of it; ``costs`` by
    temperature."""

    label: str
    lane: Lane
    texts: tuple[ScoredText, ...]
    costs: Mapping[float, StepCosts]
    gammas: tuple[int, ...]
    runs: tuple[WayRun, ...] = ()
    info: PairInfo | None = None
    memory_bytes: int | None = None

    @property
    def config(self) -> RunConfig:
        return self.lane.config

    @cached_property
    def form(self) -> Form:
        return form_of(self.config)

    @cached_property
    def surface(self) -> Surface:
        texts = () if self.form == "none" else self.texts
        found = surface(texts, self._known_costs, self.gammas, self.chances)
        if self.form == "at least":
            cells = tuple(replace(each, basis="at least") for each in found.cells)
            found = Surface(cells=cells)
        return with_runs(found, self.runs, known_tau=self.form == "exact")

    def chances(self, text: ScoredText) -> Floats:
        """That its tokens stand, as ``theory.along`` reads them."""
        return chances_of(self.config, text)

    def _known_costs(self, temperature: float) -> StepCosts | None:
        """Those that tell what its rounds take."""
        costs = self.costs.get(temperature)
        return costs if costs is not None and knows_rounds(costs, self.config) else None

    @cached_property
    def matching(self) -> Surface:
        """As if the draft's likeliest token were proposed, as several engines do by default."""
        return surface(self._scored, self.costs.get, self.gammas, matches_of)

    @property
    def _scored(self) -> list[ScoredText]:
        return [each for each in self.texts if each.scores is not None]

    def at(self, temperature: float) -> list[ScoredText]:
        return [each for each in self.texts if each.law.temperature == temperature]

    def alpha(self, temperature: float) -> float | None:
        """Mean odds of the texts' tokens; None for a drafter that is no model, and where candidates
        have no odds each of its own."""
        if not self.config.has_alpha:
            return None
        odds = [p for each in self._possible(temperature) for p in odds_of(each)]
        return fmean(odds) if odds else None

    def _possible(self, temperature: float) -> list[ScoredText]:
        """Those that the surface is made of, if a model drafts."""
        found = self.at(temperature)
        return [each for each in found if each.scores and each.scores.impossible_at is None]

    def costs_of(self, cell: Cell) -> StepTimes | None:
        costs, texts = self._known_costs(cell.temperature), self.at(cell.temperature)
        if costs is None or not texts:
            return None
        context = fmean(each.num_prompt + len(each.token_ids) / 2 for each in texts)
        drafts = self.config.draft_method.has_steps
        return step_times(costs, context, cell.gamma, drafts=drafts)

    def cumulative(self, cell: Cell, *, matching: bool = False) -> tuple[float, ...]:
        """Of all rounds, the share that accepts at least 1, 2, … candidates; never rising."""
        read, gamma = matches_of if matching else self.chances, cell.gamma
        texts = [read(each) for each in self._possible(cell.temperature)]
        weights = [rounds_along(each, gamma).rounds for each in texts]
        shares = [accepted_along(each, gamma) for each in texts]
        known = [(row, weight) for row, weight in zip(shares, weights, strict=True) if weight]
        return tuple(
            math.fsum(row[place] * weight for row, weight in known) / math.fsum(weights)
            for place in range(gamma if known else 0)
        )


def matches_of(text: ScoredText) -> Sequence[float]:
    """Odds where the draft's likeliest token is proposed: 1 where it is the text's, else 0."""
    assert text.scores is not None
    return [float(each) for each in text.scores.matches]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """``temperature``: the one asked about."""

    question: Question
    candidates: tuple[Candidate, ...]
    complete: bool

    @property
    def temperature(self) -> float:
        return self.question.temperature

    @cached_property
    def ranked(self) -> tuple[tuple[Candidate, Cell], ...]:
        """The candidates with a speedup at the temperature asked about, the fastest first."""
        found = [(each, each.surface.best_at(self.temperature)) for each in self.candidates]
        known = [(each, cell) for each, cell in found if cell is not None]
        return tuple(sorted(known, key=lambda row: -(row[1].speedup or 0.0)))

    @property
    def best(self) -> tuple[Candidate, Cell] | None:
        return self.ranked[0] if self.ranked else None

    @property
    def best_plain(self) -> tuple[Candidate, Cell] | None:
        """The first of those that serving engines run too."""
        return next((row for row in self.ranked if is_plain(row[0].config)), None)

    @property
    def without_speed(self) -> tuple[Candidate, ...]:
        """Those whose speed is not known at the temperature asked about."""
        ranked = {id(each) for each, _ in self.ranked}
        return tuple(each for each in self.candidates if id(each) not in ranked)

    @property
    def best_of_all(self) -> tuple[Candidate, Cell] | None:
        """At any temperature."""
        found = [(each, cell) for each in self.candidates if (cell := each.surface.best)]
        return max(found, key=lambda row: row[1].speedup or 0.0, default=None)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why texts that a server wrote may not be its target's."""
        texts = (text for each in self.candidates for text in each.texts)
        told = (f"T {each.law.temperature:g}: {each.doubt}" for each in texts if each.doubt)
        return tuple(dict.fromkeys(told))

    @property
    def impossible(self) -> tuple[ScoredText, ...]:
        """Texts that the target never writes under the law they were scored for."""
        texts = (text for each in self.candidates for text in each.texts)
        return tuple(
            each for each in texts if each.scores and each.scores.impossible_at is not None
        )


# What another draft would be worth


def worth_of_speed(candidate: Candidate, temperature: float) -> float | None:
    """What the best speedup would gain if every draft step took half the time."""
    return _worth(candidate, temperature, costs=_quicker)


def worth_of_acceptance(candidate: Candidate, temperature: float) -> float | None:
    """What it would gain if candidates were accepted 0.1 more often, at every token alike in the
    share of its rejections that is spared."""
    alpha = candidate.alpha(temperature)
    if alpha is None or alpha >= 1.0:
        return None
    spared = min(1.0, _MORE_ACCEPTED / (1.0 - alpha))

    def lifted(text: ScoredText) -> list[float]:
        return [each + (1.0 - each) * spared for each in odds_of(text)]

    return _worth(candidate, temperature, odds=lifted)


def _worth(
    candidate: Candidate,
    temperature: float,
    *,
    costs: Callable[[StepCosts], StepCosts] = lambda costs: costs,
    odds: OddsOf | None = None,
) -> float | None:
    now, known = candidate.surface.best_at(temperature), candidate.costs.get(temperature)
    drafts = candidate.config.draft_method.has_steps and candidate.form == "exact"
    if now is None or known is None or not drafts or now.basis == "measured":
        return None
    changed = costs(known)
    other = surface(
        candidate.at(temperature), lambda _: changed, candidate.gammas, odds or candidate.chances
    )
    then = other.best_at(temperature)
    return None if then is None else (then.speedup or 0.0) - (now.speedup or 0.0)


def _quicker(costs: StepCosts) -> StepCosts:
    return replace(
        costs,
        draft=tuple(tuple(each / 2 for each in row) for row in costs.draft),
        draft_next=tuple(each / 2 for each in costs.draft_next),
    )
