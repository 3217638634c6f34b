"""Rules that end drafting before γ candidates.

The rules do not change the distribution of the text: every drafted candidate is judged, and the
decision to draft another candidate depends only on the candidates drafted so far and on finished
rounds, never on the candidate to be drafted.
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

_EDGES = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)  # edges of bins of the draft's probability
_MIDDLES = tuple((low + high) / 2 for low, high in zip((0.0, *_EDGES), (*_EDGES, 1.0), strict=True))
_PRIOR = 5.0  # pseudo-count of tested candidates in each bin, and overall
_BEFORE = 8.0  # pseudo-count of target steps in the rate λ
_KEPT = 0.98  # factor on earlier evidence after each round


class Stopper(Protocol):
    def should_continue(self, drafted: int) -> bool:
        """Return whether to draft another candidate after ``drafted`` candidates in this round."""
        ...

    def observe(
        self, logits: torch.Tensor, distribution: torch.Tensor, token: torch.Tensor
    ) -> None:
        """Observe a candidate `[1]`, its logits and its distribution `[1, vocabulary]`."""
        ...

    def learn(self, index: int, accepted: int, emitted: int) -> None:
        """Observe how many candidates round ``index`` accepted and how many tokens it emitted."""
        ...

    def go_back(self, index: int) -> None:
        """Return to the state before round ``index``."""
        ...


class ConfidenceStopper:
    """Ends drafting after a candidate whose draft probability is below the threshold."""

    def __init__(self, threshold: float, *, greedy: bool) -> None:
        self._threshold = threshold
        self._greedy = greedy
        self._sure = True

    def should_continue(self, drafted: int) -> bool:
        return drafted == 0 or self._sure

    def observe(
        self, logits: torch.Tensor, distribution: torch.Tensor, token: torch.Tensor
    ) -> None:
        self._sure = _sureness(logits, distribution, token, greedy=self._greedy) >= self._threshold

    def learn(self, index: int, accepted: int, emitted: int) -> None:
        """Do nothing: earlier rounds do not matter."""

    def go_back(self, index: int) -> None:
        """Do nothing: earlier rounds do not matter."""


@dataclass(frozen=True, slots=True)
class _Share:
    """Weighted counts of accepted and tested candidates; older candidates weigh less."""

    accepted: float
    tested: float

    @property
    def mean(self) -> float:
        return self.accepted / self.tested

    def fading(self, prior: _Share) -> _Share:
        return _Share(
            prior.accepted + _KEPT * (self.accepted - prior.accepted),
            prior.tested + _KEPT * (self.tested - prior.tested),
        )

    def plus(self, accepted: bool) -> _Share:
        return _Share(self.accepted + accepted, self.tested + 1)


def _prior_share(chance: float) -> _Share:
    """Return the counts assumed at the start for candidates with draft probability ``chance``.

    Their acceptance rate is (1 + chance) / 2.
    """
    return _Share(_PRIOR * (1 + chance) / 2, _PRIOR)


_BINS = tuple(map(_prior_share, _MIDDLES))
_ANY = _prior_share(0.5)


@dataclass(frozen=True, slots=True)
class _Known:
    """Evidence from earlier rounds about acceptance and speed.

    ``bins``: counts of candidates in each bin of the draft's probability; ``any``: counts of all
    candidates. ``tokens``: tokens emitted; ``steps``: the rounds' cost in target steps. The rate λ
    is ``tokens`` divided by ``steps``.
    """

    tokens: float
    bins: tuple[_Share, ...] = _BINS
    any: _Share = _ANY
    steps: float = _BEFORE

    @property
    def rate(self) -> float:
        """λ, the tokens per target step; at least 1, because the target alone has rate 1."""
        return max(1.0, self.tokens / self.steps)

    def faded(self) -> _Known:
        return replace(
            self,
            bins=tuple(now.fading(at) for now, at in zip(self.bins, _BINS, strict=True)),
            any=self.any.fading(_ANY),
        )

    def updated(self, place: int, accepted: bool) -> _Known:
        bins = (*self.bins[:place], self.bins[place].plus(accepted), *self.bins[place + 1 :])
        return replace(self, bins=bins, any=self.any.plus(accepted))


class CostStopper:
    """Drafts another candidate if the next one, or the next k together, are worth their cost.

    Candidates are worth their cost if they are expected to add at least λ tokens for each target
    step that they cost. λ is the run's rate so far: its tokens per target step. Every k up to γ is
    tried: verifying one more row may be expensive, but further rows may then cost little.

    A drafted candidate's acceptance probability is estimated by the share accepted among earlier
    candidates of similar draft probability. For a candidate that is not drafted yet, the share
    among all earlier candidates is used. Evidence decays towards a prior, so a run that stopped
    drafting may try again.
    """

    def __init__(self, costs: DraftingCosts, *, greedy: bool) -> None:
        self._costs = costs
        self._greedy = greedy
        self._places: list[int] = []  # the bins of this round's candidates
        self._known = [self._initial()]  # the evidence before each round

    def should_continue(self, drafted: int) -> bool:
        if drafted == 0:
            self._places.clear()
        known = self._known[-1]
        chance = math.prod(known.bins[place].mean for place in self._places)
        rate, ahead = known.rate, self._ahead(drafted, chance, known.any.mean)
        return any(tokens >= rate * cost for tokens, cost in ahead)

    def observe(
        self, logits: torch.Tensor, distribution: torch.Tensor, token: torch.Tensor
    ) -> None:
        chance = _sureness(logits, distribution, token, greedy=self._greedy)
        self._places.append(bisect(_EDGES, chance))

    def learn(self, index: int, accepted: int, emitted: int) -> None:
        assert index == len(self._known) - 1
        known, drafted = self._known[-1].faded(), len(self._places)
        for number, place in enumerate(self._places[: accepted + 1]):
            known = known.updated(place, number < accepted)
        steps = known.steps + self._steps(drafted)
        self._known.append(replace(known, tokens=known.tokens + emitted, steps=steps))
        self._places.clear()

    def go_back(self, index: int) -> None:
        del self._known[index + 1 :]
        self._places.clear()

    def _initial(self) -> _Known:
        """Return the evidence that is assumed before the first round.

        λ is the highest expected number of tokens per target step, over all numbers of candidates.
        """
        plain = self._costs.verify[0]
        ahead = self._ahead(0, 1.0, _ANY.mean)
        rate = max((1.0 + tokens) / (plain + cost) for tokens, cost in ((0.0, 0.0), *ahead))
        return _Known(tokens=rate * _BEFORE)

    def _ahead(self, drafted: int, chance: float, share: float) -> Iterator[tuple[float, float]]:
        """Yield the expected tokens and the cost of one, two, … further candidates.

        ``chance``: probability that all drafted candidates are accepted; ``share``: acceptance
        probability of a further candidate.
        """
        costs, tokens, drafting = self._costs, 0.0, 0.0
        step = costs.draft_next if drafted else costs.draft_first
        for rows in costs.verify[drafted + 1 :]:
            chance *= share
            tokens += chance
            drafting += step
            step = costs.draft_next
            yield tokens, drafting + rows - costs.verify[drafted]

    def _steps(self, drafted: int) -> float:
        """Return the cost, in target steps, of a round with ``drafted`` candidates."""
        costs = self._costs
        drafting = costs.draft_first + (drafted - 1) * costs.draft_next if drafted else 0.0
        return drafting + costs.verify[drafted]


@on_one_thread
def _sureness(
    logits: torch.Tensor, distribution: torch.Tensor, token: torch.Tensor, *, greedy: bool
) -> float:
    """Return the draft's probability of the token that it drafted.

    At temperature 0 the distribution is a one-hot, so the probability at temperature 1 is used.
    """
    shown = logits.softmax(-1) if greedy else distribution
    return float(shown[0, token[0]])


def make_stopper(config: RunConfig, costs: DraftingCosts | None) -> Stopper | None:
    """Return the object that ends drafting early; None if every round drafts γ candidates."""
    until = config.until
    match until.stopping.name:
        case "confidence":
            return ConfidenceStopper(until.threshold, greedy=config.greedy)
        case "cost":
            if costs is None or len(costs.verify) <= config.gamma:
                raise ConfigError(
                    f"draft_until=cost needs the step costs of {config.gamma} candidates.",
                    remedy="Use the draft model (its steps can be measured) or draft_until=count.",
                )
            return CostStopper(costs, greedy=config.greedy)
        case _:
            return None
