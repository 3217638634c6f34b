"""The answer to a question so far: each candidate's speedup by γ and temperature, and a ranking.

A candidate is ranked by its speedup with its best γ, at the question's temperature. A speedup
is either expected (computed from texts), a lower bound, or measured in short runs. The best of many
candidates may be best by chance: the intervals of the speedups show whether it is clearly faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean

from specviz.comparison.plan import Lane
from specviz.figures.expectation import Floats, covers_rounds
from specviz.figures.step_times import StepTimes, step_times
from specviz.record.scores import ScoredText
from specviz.record.trace import PairInfo, RunConfig, StepCosts
from specviz.theory.along import accepted_along, rounds_along
from specviz.tune.methods import Form, ShortRun, chances_of, form_of, is_plain
from specviz.tune.question import Question
from specviz.tune.surface import Cell, KnownRounds, OddsOf, Surface, odds_of, surface, with_runs

_MORE_ACCEPTED = 0.1


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A pair and its settings, with its scored texts, short runs, and step costs by temperature."""

    label: str
    lane: Lane
    texts: tuple[ScoredText, ...]
    costs: Mapping[float, StepCosts]
    gammas: tuple[int, ...]
    runs: tuple[ShortRun, ...] = ()
    info: PairInfo | None = None
    memory_bytes: int | None = None
    known_rounds: KnownRounds = field(default_factory=dict, compare=False, repr=False)

    @property
    def config(self) -> RunConfig:
        return self.lane.config

    @cached_property
    def form(self) -> Form:
        return form_of(self.config)

    @cached_property
    def surface(self) -> Surface:
        texts = () if self.form == "none" else self.texts
        found = surface(texts, self._known_costs, self.gammas, self.chances, self.known_rounds)
        if self.form == "at least":
            cells = tuple(replace(each, basis="at least") for each in found.cells)
            found = Surface(cells=cells)
        return with_runs(found, self.runs, known_tau=self.form == "exact")

    def chances(self, text: ScoredText) -> Floats:
        """Return each token's acceptance probability along a text, as input to ``theory.along``."""
        return chances_of(self.config, text)

    def _known_costs(self, temperature: float) -> StepCosts | None:
        """Return the step costs at a temperature if they cover this method's rounds, else None."""
        costs = self.costs.get(temperature)
        return costs if costs is not None and covers_rounds(costs, self.config) else None

    @cached_property
    def matching(self) -> Surface:
        """Return the expected speedups if the draft always proposes its likeliest token.

        Several engines draft this way by default.
        """
        return surface(self._scored, self.costs.get, self.gammas, matches_of)

    @property
    def _scored(self) -> list[ScoredText]:
        return [each for each in self.texts if each.scores is not None]

    def at(self, temperature: float) -> list[ScoredText]:
        return [each for each in self.texts if each.sampling.temperature == temperature]

    def alpha(self, temperature: float) -> float | None:
        """Return the mean acceptance probability of the texts' tokens.

        Return None for drafters without a model, and for methods without a probability per
        candidate.
        """
        if not self.config.has_alpha:
            return None
        odds = [p for each in self._texts_within_support(temperature) for p in odds_of(each)]
        return fmean(odds) if odds else None

    def _texts_within_support(self, temperature: float) -> list[ScoredText]:
        """Return the scored texts whose tokens all have a positive target probability."""
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
        """Return the share of rounds that accept at least n candidates, for n = 1, 2, …"""
        chances, gamma = matches_of if matching else self.chances, cell.gamma
        texts = [chances(each) for each in self._texts_within_support(cell.temperature)]
        weights = [rounds_along(each, gamma).rounds for each in texts]
        shares = [accepted_along(each, gamma) for each in texts]
        known = [(row, weight) for row, weight in zip(shares, weights, strict=True) if weight]
        return tuple(
            math.fsum(row[place] * weight for row, weight in known) / math.fsum(weights)
            for place in range(gamma if known else 0)
        )


def matches_of(text: ScoredText) -> Sequence[float]:
    """Return, for every token of a text, 1 if the token is the draft's likeliest, else 0."""
    assert text.scores is not None
    return [float(each) for each in text.scores.matches]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The candidates of a question and their ranking; both may change until ``complete``."""

    question: Question
    candidates: tuple[Candidate, ...]
    complete: bool

    @property
    def temperature(self) -> float:
        return self.question.temperature

    @cached_property
    def ranked(self) -> tuple[tuple[Candidate, Cell], ...]:
        """Return the candidates with a speedup at the question's temperature, fastest first."""
        found = [(each, each.surface.best_at(self.temperature)) for each in self.candidates]
        known = [(each, cell) for each, cell in found if cell is not None]
        return tuple(sorted(known, key=lambda row: -(row[1].speedup or 0.0)))

    @property
    def best(self) -> tuple[Candidate, Cell] | None:
        return self.ranked[0] if self.ranked else None

    @property
    def best_plain(self) -> tuple[Candidate, Cell] | None:
        """Return the best candidate with a method that serving engines support."""
        return next((row for row in self.ranked if is_plain(row[0].config)), None)

    @property
    def without_speed(self) -> tuple[Candidate, ...]:
        """Return the candidates whose speed at the question's temperature is not known."""
        ranked = {id(each) for each, _ in self.ranked}
        return tuple(each for each in self.candidates if id(each) not in ranked)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return the reasons why texts from a server may not follow the target's distribution."""
        texts = (text for each in self.candidates for text in each.texts)
        found = (f"T {each.sampling.temperature:g}: {each.doubt}" for each in texts if each.doubt)
        return tuple(dict.fromkeys(found))

    @property
    def impossible(self) -> tuple[ScoredText, ...]:
        """Return the texts that contain a token with target probability 0."""
        texts = (text for each in self.candidates for text in each.texts)
        return tuple(
            each for each in texts if each.scores and each.scores.impossible_at is not None
        )


# What a better draft would gain


def gain_from_speed(candidate: Candidate, temperature: float) -> float | None:
    """Return how much the best speedup would change if draft steps took half the time."""
    return _gain(candidate, temperature, costs=_faster_draft)


def gain_from_acceptance(candidate: Candidate, temperature: float) -> float | None:
    """Return how much the best speedup would change if α were 0.1 higher.

    α is the mean acceptance probability. To raise it, the function multiplies every token's
    probability of rejection by one common factor.
    """
    alpha = candidate.alpha(temperature)
    if alpha is None or alpha >= 1.0:
        return None
    spared = min(1.0, _MORE_ACCEPTED / (1.0 - alpha))

    def lifted(text: ScoredText) -> list[float]:
        return [each + (1.0 - each) * spared for each in odds_of(text)]

    return _gain(candidate, temperature, odds=lifted)


def _gain(
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


def _faster_draft(costs: StepCosts) -> StepCosts:
    return replace(
        costs,
        draft=tuple(tuple(each / 2 for each in row) for row in costs.draft),
        draft_next=tuple(each / 2 for each in costs.draft_next),
    )
