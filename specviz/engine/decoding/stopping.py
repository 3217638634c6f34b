"""When drafting ends before γ candidates.

Whether to go on may depend on what was drafted so far and on rounds that are over, never on what
would be drafted next; a candidate that was drafted is judged. So the text keeps the target's law.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from specviz.engine.decoding.sampling import on_one_thread
from specviz.errors import ConfigError
from specviz.record.run_config import RunConfig
from specviz.record.trace import DraftingCosts

_EDGES = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)  # of the bins of a draft's chance
_MIDDLES = tuple((low + high) / 2 for low, high in zip((0.0, *_EDGES), (*_EDGES, 1.0), strict=True))
_PRIOR = 5.0  # candidates that a bin, and the mean, is taken to have seen before the run
_BEFORE = 8.0  # plain steps that λ begins with
_KEPT = 0.98  # of what was learned, after another round


class Stopper(Protocol):
    def goes_on(self, drafted: int) -> bool:
        """Whether to draft one more after so many candidates of this round."""
        ...

    def saw(self, logits: torch.Tensor, law: torch.Tensor, token: torch.Tensor) -> None:
        """A candidate [1] was drafted, of this law [1, vocabulary]."""
        ...

    def learn(self, index: int, accepted: int, emitted: int) -> None:
        """What became of the round of this index."""
        ...

    def go_back(self, index: int) -> None:
        """To the moment before the round of this index."""
        ...


class WhileSure:
    """Ends after a candidate that the draft gives less than the threshold."""

    def __init__(self, threshold: float, *, greedy: bool) -> None:
        self._threshold = threshold
        self._greedy = greedy
        self._sure = True

    def goes_on(self, drafted: int) -> bool:
        return drafted == 0 or self._sure

    def saw(self, logits: torch.Tensor, law: torch.Tensor, token: torch.Tensor) -> None:
        self._sure = _sureness(logits, law, token, greedy=self._greedy) >= self._threshold

    def learn(self, index: int, accepted: int, emitted: int) -> None:
        """It knows only the round it is in."""

    def go_back(self, index: int) -> None:
        """It knows only the round it is in."""


@dataclass(frozen=True, slots=True)
class _Share:
    """Candidates that stood of those that were tested, older ones counting less."""

    stood: float
    tested: float

    @property
    def mean(self) -> float:
        return self.stood / self.tested

    def fading(self, prior: _Share) -> _Share:
        return _Share(
            prior.stood + _KEPT * (self.stood - prior.stood),
            prior.tested + _KEPT * (self.tested - prior.tested),
        )

    def plus(self, stood: bool) -> _Share:
        return _Share(self.stood + stood, self.tested + 1)


def _believed(chance: float) -> _Share:
    """Before any is judged: half of what the draft doubts is right."""
    return _Share(_PRIOR * (1 + chance) / 2, _PRIOR)


_BINS = tuple(map(_believed, _MIDDLES))
_ANY = _believed(0.5)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the rounds before taught. ``bins``: by the draft's chance; ``any``: of all;
    ``tokens`` a step of the target are λ."""

    tokens: float
    bins: tuple[_Share, ...] = _BINS
    any: _Share = _ANY
    steps: float = _BEFORE

    @property
    def rate(self) -> float:
        """Tokens a step of the target; alone it always writes one."""
        return max(1.0, self.tokens / self.steps)

    def faded(self) -> _Known:
        return replace(
            self,
            bins=tuple(now.fading(at) for now, at in zip(self.bins, _BINS, strict=True)),
            any=self.any.fading(_ANY),
        )

    def judged(self, place: int, stood: bool) -> _Known:
        bins = (*self.bins[:place], self.bins[place].plus(stood), *self.bins[place + 1 :])
        return replace(self, bins=bins, any=self.any.plus(stood))


class WhileItPays:
    """Drafts one more iff one or more further candidates are worth their cost together.

    One more row may cost much to verify where several more do not, so it looks ahead to every
    length up to γ: the tokens to expect of the further candidates against the draft steps and rows
    that they take, at the run's own tokens a step.
    A drafted candidate stands with the share that stood among those of a like draft's chance; one
    that is not drafted yet, with the share of all. The first rounds stand on a prior, and what was
    learned fades into it, so that a run which ceased to draft tries again where the prior would.
    """

    def __init__(self, costs: DraftingCosts, *, greedy: bool) -> None:
        self._costs = costs
        self._greedy = greedy
        self._places: list[int] = []  # the bins of this round's candidates
        self._known = [self._believing()]  # before each round

    def goes_on(self, drafted: int) -> bool:
        if drafted == 0:
            self._places.clear()
        known = self._known[-1]
        stands = math.prod(known.bins[place].mean for place in self._places)
        rate, ahead = known.rate, self._ahead(drafted, stands, known.any.mean)
        return any(tokens >= rate * cost for tokens, cost in ahead)

    def saw(self, logits: torch.Tensor, law: torch.Tensor, token: torch.Tensor) -> None:
        chance = _sureness(logits, law, token, greedy=self._greedy)
        self._places.append(bisect(_EDGES, chance))

    def learn(self, index: int, accepted: int, emitted: int) -> None:
        assert index == len(self._known) - 1
        known, drafted = self._known[-1].faded(), len(self._places)
        for number, place in enumerate(self._places[: accepted + 1]):
            known = known.judged(place, number < accepted)
        steps = known.steps + self._steps(drafted)
        self._known.append(replace(known, tokens=known.tokens + emitted, steps=steps))
        self._places.clear()

    def go_back(self, index: int) -> None:
        del self._known[index + 1 :]
        self._places.clear()

    def _believing(self) -> _Known:
        """Before the first round: the most tokens a step that the prior promises."""
        plain = self._costs.verify[0]
        ahead = self._ahead(0, 1.0, _ANY.mean)
        rate = max((1.0 + tokens) / (plain + cost) for tokens, cost in ((0.0, 0.0), *ahead))
        return _Known(tokens=rate * _BEFORE)

    def _ahead(self, drafted: int, stands: float, share: float) -> Iterator[tuple[float, float]]:
        """By the number of further candidates: tokens to expect of them, and what they cost.
        ``stands``: the chance that all drafted ones do; ``share``: that each further one does."""
        costs, tokens, drafting = self._costs, 0.0, 0.0
        step = costs.draft_next if drafted else costs.draft_first
        for rows in costs.verify[drafted + 1 :]:
            stands *= share
            tokens += stands
            drafting += step
            step = costs.draft_next
            yield tokens, drafting + rows - costs.verify[drafted]

    def _steps(self, drafted: int) -> float:
        """Of a round, in steps of the target alone."""
        costs = self._costs
        drafting = costs.draft_first + (drafted - 1) * costs.draft_next if drafted else 0.0
        return drafting + costs.verify[drafted]


@on_one_thread
def _sureness(
    logits: torch.Tensor, law: torch.Tensor, token: torch.Tensor, *, greedy: bool
) -> float:
    """The draft's chance of its token. At temperature 0 its law is a one-hot, which is always sure;
    there it is the chance at 1."""
    shown = logits.softmax(-1) if greedy else law
    return float(shown[0, token[0]])


def make_stopper(config: RunConfig, costs: DraftingCosts | None) -> Stopper | None:
    """None where nothing ends drafting before γ."""
    until = config.until
    match until.stopping.name:
        case "confidence":
            return WhileSure(until.threshold, greedy=config.greedy)
        case "cost":
            if costs is None or len(costs.verify) <= config.gamma:
                raise ConfigError(
                    f"draft_until=cost has no costs of drafting {config.gamma} tokens here.",
                    remedy="Use the draft model, whose steps can be measured, or count.",
                )
            return WhileItPays(costs, greedy=config.greedy)
        case _:
            return None
