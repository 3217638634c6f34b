"""Acceptance probabilities from servers that list only a distribution's likeliest tokens.

The listed log-probabilities are at temperature 1 without filters (top-k and top-p). If the text was
sampled with these parameters too, the acceptance probability of its tokens (``odds``) is exact,
because servers also report the log-probability of the text's own token. With other parameters, the
odds are exact if all tokens are listed or the filters keep only listed tokens; otherwise `score`
raises TheoryError. If some tokens are unlisted, only bounds of the overlap, sum min(draft, target),
are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specviz.errors import TheoryError
from specviz.values import Value

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
_LIKELY = 8  # likeliest tokens whose frequency in the text is tested
_BETS = (1.0, 4.0, 16.0)
_STAKE = 0.9  # maximum share of the wealth at risk
_ROUNDING = 1e-4  # tolerance for the sum of listed probabilities


@dataclass(frozen=True, slots=True, eq=False)
class ListedDistribution:
    """The listed tokens at one position, at temperature 1.

    ``own`` is the log-probability of the text's token at this position, even if that token is not
    in the list. ``whole`` means that all tokens of the vocabulary are listed.
    """

    token_ids: Ids  # likeliest first
    logprobs: Floats
    own: float
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Filters:
    """Sampling parameters. Temperature 0 is greedy; top-k 0 and top-p 1 switch the filters off."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    @property
    def none(self) -> bool:
        return (self.temperature, self.top_k, self.top_p) == (1.0, 0, 1.0)


class ListedScore(Value):
    """The acceptance probability of one token of a text, and bounds of the overlap.

    ``low`` and ``high`` bound the overlap, sum min(draft, target). They are equal if the overlap
    is known exactly, and None if no bound is known.
    """

    odds: float
    target_prob: float
    low: float | None
    high: float | None
    matches: bool  # the token is the draft's likeliest
    agrees: bool  # both models have the same likeliest token
    likely: bool  # the token is among the target's 8 likeliest tokens under the filters
    mass: float  # total probability of these 8 tokens

    @property
    def exact(self) -> bool:
        return self.low is not None and self.low == self.high


def needed(filters: Filters) -> int | None:
    """Return how many tokens must be listed per position for exact odds; None means all tokens.

    At least one token must be listed, because the models' likeliest tokens are compared.
    """
    if filters.none or filters.temperature == 0.0:
        return 1
    return filters.top_k or None


def score(
    target: ListedDistribution, draft: ListedDistribution, token: int, filters: Filters
) -> ListedScore:
    """Return the `ListedScore` of ``token``, the text's token at this position.

    Raises:
        TheoryError: The lists do not determine the odds.
    """
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
    filtered_probs = [dict(zip(*filtered(each, filters), strict=True)) for each in (target, draft)]
    of_target, of_draft = (float(each.get(token, 0.0)) for each in filtered_probs)
    overlap = sum(
        min(prob, filtered_probs[1].get(other, 0.0)) for other, prob in filtered_probs[0].items()
    )
    return ListedScore(
        odds=min(1.0, of_draft / of_target) if of_target > 0 else 0.0, target_prob=of_target,
        low=min(1.0, float(overlap)), high=min(1.0, float(overlap)), matches=matches, agrees=agrees,
        likely=token in list(filtered_probs[0])[:_LIKELY],
        mass=sum(list(filtered_probs[0].values())[:_LIKELY]),
    )  # fmt: skip


def filtered(listed: ListedDistribution, filters: Filters) -> tuple[list[int], list[float]]:
    """Return the tokens that the filters keep, with their probabilities."""
    if filters.temperature == 0.0:
        return [int(listed.token_ids[0])], [1.0]
    count = filters.top_k or len(listed.logprobs)
    if not listed.whole and (not filters.top_k or filters.top_k > len(listed.logprobs)):
        raise TheoryError(
            f"Only {len(listed.logprobs)} tokens are listed; these settings need "
            f"{filters.top_k or 'all tokens'}.",
            remedy="Use temperature 1 without filters, temperature 0 or a smaller top-k, "
            "or let the server list all tokens.",
        )
    scaled = listed.logprobs[:count] / filters.temperature
    probs = np.exp(scaled - scaled.max())
    probs /= probs.sum()
    if filters.top_p < 1.0:
        before = np.cumsum(probs) - probs
        probs = np.where((before >= filters.top_p) & (before > 0.0), 0.0, probs)
        probs /= probs.sum()
    kept = probs > 0.0
    return listed.token_ids[:count][kept].tolist(), probs[kept].tolist()


def overlap_bounds(target: ListedDistribution, draft: ListedDistribution) -> tuple[float, float]:
    """Return the lower and upper bound of sum min(draft, target) without filters."""
    p, q = (dict(zip(each.token_ids.tolist(), np.exp(each.logprobs), strict=True))
            for each in (draft, target))  # fmt: skip
    shared = sum(min(prob, q[token]) for token, prob in p.items() if token in q)
    rest_p, rest_q = _rest(draft), _rest(target)
    least_p, least_q = _least(draft), _least(target)
    a = min(rest_q, sum(min(prob, least_q) for token, prob in p.items() if token not in q))
    b = min(rest_p, sum(min(prob, least_p) for token, prob in q.items() if token not in p))
    low = min(1.0, float(shared))
    return low, min(1.0, float(shared + min(rest_q + b, rest_p + a)))


def _rest(listed: ListedDistribution) -> float:
    """Return the total probability of the unlisted tokens."""
    return 0.0 if listed.whole else max(0.0, 1.0 - float(np.exp(listed.logprobs).sum()))


def _least(listed: ListedDistribution) -> float:
    """Return the least listed probability, which no unlisted token exceeds; 0 if ``whole``."""
    return 0.0 if listed.whole else float(np.exp(listed.logprobs[-1]))


def evidence_against(scores: Sequence[ListedScore]) -> float:
    """Return the evidence that a text was not sampled from the target's distribution.

    The evidence is an e-value. Three bettors start with a wealth of 1 and differ in their stakes.
    At every token, they bet that the token is not among the target's 8 likeliest tokens. The bets
    are fair if the text was sampled from the target. The evidence is the bettors' mean wealth at
    the end. For a text sampled from the target, the evidence reaches 1,000 with probability at most
    0.001.
    """
    wealth = np.ones(len(_BETS))
    for each in scores:
        left = max(0.0, 1.0 - each.mass)
        stakes = np.minimum(_BETS, _STAKE / left) if left > 0 else np.array(_BETS)
        wealth *= 1.0 + stakes * (-left if each.likely else 1.0 - left)
    return float(wealth.mean())


def is_raw(listed: ListedDistribution) -> bool:
    """Return whether the listed numbers can be unmodified log-probabilities.

    Up to rounding, no log-probability may exceed 0, and the probabilities must sum to at most 1; if
    all tokens are listed, they must sum to 1.
    """
    if max(listed.own, listed.logprobs.max(initial=-np.inf)) > _ROUNDING:
        return False
    total = float(np.exp(listed.logprobs).sum())
    if total > 1.0 + _ROUNDING:
        return False
    return not listed.whole or abs(total - 1.0) <= _ROUNDING
