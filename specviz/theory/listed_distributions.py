"""Laws of which only the likeliest tokens are listed, and what still follows from them exactly.

A law is listed at temperature 1 without filters. Odds along a text need two log-probabilities a
token, so there they are exact. Any other law must be made of the one that is listed: exactly where
all of it is listed, or where the filter leaves only listed tokens. Otherwise nothing is said.
Expected acceptance, sum min(draft, target), has bounds where something is unlisted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specviz.errors import TheoryError

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
_LIKELY = 8  # tokens, of which it is seen how often the text has them
_BETS = (1.0, 4.0, 16.0)
_STAKE = 0.9  # at most, of what is there
_ROUNDING = 1e-4  # that listed probabilities may add up to more than 1


@dataclass(frozen=True, slots=True, eq=False)
class ListedDistribution:
    """At one position, at temperature 1. ``own``: the log-probability of the text's own token,
    which need not be listed. ``whole``: no token is unlisted."""

    token_ids: Ids  # likeliest first
    logprobs: Floats
    own: float
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Filters:
    """Temperature 0 is greedy, top-k 0 and top-p 1 are off."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    @property
    def none(self) -> bool:
        return (self.temperature, self.top_k, self.top_p) == (1.0, 0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedScore:
    """What two listed laws say of the text's token. Overlaps are equal where they are exact, and
    None where no bound is known."""

    odds: float
    target_prob: float
    low: float | None
    high: float | None
    matches: bool  # the token is the draft's likeliest
    agrees: bool  # both have the same likeliest token
    likely: bool  # the token is among the target's likeliest under the law,
    mass: float  # which together have this probability

    @property
    def exact(self) -> bool:
        return self.low is not None and self.low == self.high


def needed(filters: Filters) -> int | None:
    """How many tokens must be listed at each position for exact odds; None for all of them.

    One is always listed, since the likeliest tells whether the models agree.
    """
    if filters.none or filters.temperature == 0.0:
        return 1
    return filters.top_k or None


def score(
    target: ListedDistribution, draft: ListedDistribution, token: int, filters: Filters
) -> ListedScore:
    """Raises TheoryError where the lists do not tell the odds."""
    likeliest = int(draft.token_ids[0]), int(target.token_ids[0])
    matches, agrees = likeliest[0] == token, likeliest[0] == likeliest[1]
    if filters.none:
        odds = float(np.exp(min(0.0, draft.own - target.own)))
        low, high = overlap_bounds(target, draft)
        return ListedScore(
            odds=odds, target_prob=min(1.0, float(np.exp(target.own))), low=low, high=high,
            matches=matches, agrees=agrees, likely=token in target.token_ids[:_LIKELY],
            mass=float(np.exp(target.logprobs[:_LIKELY]).sum()),
        )  # fmt: skip
    laws = [dict(zip(*filtered(each, filters), strict=True)) for each in (target, draft)]
    of_target, of_draft = (float(each.get(token, 0.0)) for each in laws)
    overlap = sum(min(prob, laws[1].get(other, 0.0)) for other, prob in laws[0].items())
    return ListedScore(
        odds=min(1.0, of_draft / of_target) if of_target > 0 else 0.0, target_prob=of_target,
        low=min(1.0, float(overlap)), high=min(1.0, float(overlap)), matches=matches, agrees=agrees,
        likely=token in list(laws[0])[:_LIKELY], mass=sum(list(laws[0].values())[:_LIKELY]),
    )  # fmt: skip


def filtered(law: ListedDistribution, filters: Filters) -> tuple[list[int], list[float]]:
    """The tokens that the filters leave, with their probabilities."""
    if filters.temperature == 0.0:
        return [int(law.token_ids[0])], [1.0]
    count = filters.top_k or len(law.logprobs)
    if not law.whole and (not filters.top_k or filters.top_k > len(law.logprobs)):
        raise TheoryError(
            f"{len(law.logprobs)} tokens are listed, and this law needs "
            f"{filters.top_k or 'all'} of them.",
            remedy="Ask for temperature 1 without filters, for temperature 0, for a smaller top-k, "
            "or let the server list whole laws.",
        )
    scaled = law.logprobs[:count] / filters.temperature
    probs = np.exp(scaled - scaled.max())
    probs /= probs.sum()
    if filters.top_p < 1.0:
        before = np.cumsum(probs) - probs
        probs = np.where((before >= filters.top_p) & (before > 0.0), 0.0, probs)
        probs /= probs.sum()
    kept = probs > 0.0
    return law.token_ids[:count][kept].tolist(), probs[kept].tolist()


def overlap_bounds(target: ListedDistribution, draft: ListedDistribution) -> tuple[float, float]:
    """Between which sum min(draft, target) lies, of laws without filters."""
    p, q = (dict(zip(each.token_ids.tolist(), np.exp(each.logprobs), strict=True))
            for each in (draft, target))  # fmt: skip
    shared = sum(min(prob, q[token]) for token, prob in p.items() if token in q)
    rest_p, rest_q = _rest(draft), _rest(target)
    least_p, least_q = _least(draft), _least(target)
    a = min(rest_q, sum(min(prob, least_q) for token, prob in p.items() if token not in q))
    b = min(rest_p, sum(min(prob, least_p) for token, prob in q.items() if token not in p))
    low = min(1.0, float(shared))
    return low, min(1.0, float(shared + min(rest_q + b, rest_p + a)))


def _rest(law: ListedDistribution) -> float:
    """The mass that is not listed."""
    return 0.0 if law.whole else max(0.0, 1.0 - float(np.exp(law.logprobs).sum()))


def _least(law: ListedDistribution) -> float:
    """No unlisted token has more."""
    return 0.0 if law.whole else float(np.exp(law.logprobs[-1]))


def evidence_against(scores: Sequence[ListedScore]) -> float:
    """How much rather a text has another law than the target's: an e-value, the mean of three bets
    that its tokens are among the likeliest too seldom. Under the target's law it reaches 1,000 with
    a probability of 0.001 at most, however long the text is."""
    wealth = np.ones(len(_BETS))
    for each in scores:
        left = max(0.0, 1.0 - each.mass)
        stakes = np.minimum(_BETS, _STAKE / left) if left > 0 else np.array(_BETS)
        wealth *= 1.0 + stakes * (-left if each.likely else 1.0 - left)
    return float(wealth.mean())


def is_raw(law: ListedDistribution) -> bool:
    """Whether the numbers can be log-probabilities of a law that nothing was done to: none above
    0, and together no more than 1; all of them together 1."""
    if max(law.own, law.logprobs.max(initial=-np.inf)) > _ROUNDING:
        return False
    total = float(np.exp(law.logprobs).sum())
    if total > 1.0 + _ROUNDING:
        return False
    return not law.whole or abs(total - 1.0) <= _ROUNDING
