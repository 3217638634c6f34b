"""Several drafts for one position: the probability that one of k candidates is accepted.

Every rule here is lossless. Candidates are independent draws from the draft, unless a docstring
says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specviz.errors import TheoryError
from specviz.theory.tradeoff import Chances, Distribution, distribution_pair
from specviz.values import Value

_ZERO = 1e-15
_MAX_ORDERS = 400_000
_HALVINGS = 100


class Curves(Value):
    """For each rule, the probability that one of k candidates is accepted, at k = 1, 2, …"""

    naive: tuple[float, ...]
    recursive: tuple[float, ...]
    k_sequential: tuple[float, ...]
    optimal: tuple[float, ...]
    without_replacement: tuple[float, ...]
    top: tuple[float, ...]


def acceptance_curves(draft: Chances, target: Chances, most: int) -> Curves:
    ks = range(1, most + 1)
    return Curves(
        naive=tuple(naive(draft, target, k) for k in ks),
        recursive=tuple(recursive(draft, target, k) for k in ks),
        k_sequential=tuple(k_sequential(draft, target, k)[0] for k in ks),
        optimal=tuple(optimal(draft, target, k) for k in ks),
        without_replacement=without_replacement(draft, target, most),
        top=tuple(top(draft, target, k) for k in ks),
    )


def naive(draft: Chances, target: Chances, k: int) -> float:
    """Return the probability that a token sampled from the target is among the k candidates.

    This is the naive sampling of SpecInfer (Miao et al. 2024): the token sampled from the target is
    always emitted, and a candidate equal to it counts as accepted. The probability is
    sum target (1 - (1 - draft)^k) (derived here).
    """
    draft_probs, target_probs = distribution_pair(draft, target)
    return float(target_probs @ (1.0 - (1.0 - draft_probs) ** k))


def recursive(draft: Chances, target: Chances, k: int) -> float:
    """Return the probability that recursive rejection accepts one of k candidates.

    The candidates are tested in turn, each against the residual after the rejections so far. The
    probability is 1 - r_1 ... r_k, where r_m is the total variation between the draft and the
    residual after m - 1 rejections. SpecInfer (Miao et al. 2024) uses this rule; so does algorithm
    4 of Yin et al. 2024, at a round's first position.
    """
    draft_probs, rest = distribution_pair(draft, target)
    missed = 1.0
    for _ in range(k):
        left = np.maximum(rest - draft_probs, 0.0)
        total = float(left.sum())
        if total <= _ZERO:
            return 1.0
        missed, rest = missed * total, left / total
    return 1.0 - missed


def k_sequential(draft: Chances, target: Chances, k: int) -> tuple[float, float]:
    """Return the probability that K-SEQ accepts one of k candidates, and the parameter rho.

    K-SEQ is the rule of SpecTr (Sun et al. 2023). It accepts each candidate with probability
    min(1, target / (rho draft)). rho is the smallest number from 1 to k with
    1 - (1 - beta)^k <= rho beta, where beta = sum min(draft, target / rho).
    """
    draft_probs, target_probs = distribution_pair(draft, target)

    def beta(rho: float) -> float:
        return min(1.0, float(np.minimum(draft_probs, target_probs / rho).sum()))

    low, high = 1.0, float(k)
    for _ in range(_HALVINGS):
        rho = 0.5 * (low + high)
        if 1.0 - (1.0 - beta(rho)) ** k > rho * beta(rho):
            low = rho
        else:
            high = rho
    return 1.0 - (1.0 - beta(high)) ** k, high


def optimal(draft: Chances, target: Chances, k: int) -> float:
    """Return the greatest probability with which a lossless rule can accept one of k candidates.

    It is 1 + min_H (target(H) - draft(H)^k), where H ranges over sets of tokens. The minimum is at
    a prefix of the tokens sorted by target / draft (Hu et al. 2025).
    """
    draft_probs, target_probs = distribution_pair(draft, target)
    with np.errstate(divide="ignore"):
        ratio = np.where(
            draft_probs > 0.0, target_probs / np.where(draft_probs > 0.0, draft_probs, 1.0), np.inf
        )
    order = np.argsort(ratio, kind="stable")
    above = np.concatenate([[0.0], np.cumsum(target_probs[order])])
    below = np.minimum(1.0, np.concatenate([[0.0], np.cumsum(draft_probs[order])]))
    return min(1.0, 1.0 + float((above - below**k).min()))


def top(draft: Chances, target: Chances, k: int) -> float:
    """Return the acceptance probability if the candidates are the draft's k likeliest tokens.

    It is the target's total probability of these tokens (derived here). Medusa (Cai et al. 2024)
    drafts such tokens.
    """
    draft_probs, target_probs = distribution_pair(draft, target)
    return min(1.0, float(target_probs[np.argsort(-draft_probs, kind="stable")[:k]].sum()))


def without_replacement(draft: Chances, target: Chances, most: int) -> tuple[float, ...]:
    """Return the acceptance probability of recursive rejection with k = 1 .. ``most`` candidates.

    The candidates are distinct, as in Sequoia (Chen et al. 2024), algorithm 2: a rejected token is
    removed from the draft, which is then normalised. If the draft has no probability left, it
    becomes uniform over the tokens not yet rejected. The result is exact, by enumeration of every
    order of rejected tokens.
    """
    draft_probs, target_probs = distribution_pair(draft, target)
    live = _Orders(
        target_probs[None], draft_probs[None], np.ones(1), np.ones((1, draft_probs.size), bool)
    )
    accepted, curve = 0.0, list[float]()
    for _ in range(most):
        if len(live.chance):
            gained, live = live.step()
            accepted += gained
        curve.append(min(1.0, accepted))
    return tuple(curve)


@dataclass(frozen=True, slots=True, eq=False)
class _Orders:
    """Every sequence of rejected tokens so far, with the distributions that remain after it."""

    residual: Distribution  # [orders, vocabulary]
    draft: Distribution  # [orders, vocabulary]
    chance: Distribution  # [orders], the probability of the order
    left: NDArray[np.bool_]  # [orders, vocabulary], tokens not yet rejected

    def step(self) -> tuple[float, _Orders]:
        """Return the probability that the next candidate is tested and accepted.

        Also return the sequences of rejected tokens in case the candidate is rejected.
        """
        taken = np.minimum(self.residual, self.draft)
        lost = self.draft - taken  # [orders, vocabulary]
        order, token = np.nonzero(lost * self.chance[:, None] > _ZERO)
        if order.size > _MAX_ORDERS // self.draft.shape[1]:
            raise TheoryError(
                "Too many orders of rejected tokens to enumerate.",
                remedy="Use fewer drafts or fewer tokens.",
            )
        rest = _normalised(self.residual - taken)[order]
        left = self.left[order]
        left[np.arange(order.size), token] = False
        going = left.any(axis=1)
        draft = _renewed(self.draft[order] * left, left)
        chance = self.chance[order] * lost[order, token]
        gained = float(self.chance @ taken.sum(axis=1))
        return gained, _Orders(rest[going], draft[going], chance[going], left[going])


def _renewed(draft: Distribution, left: NDArray[np.bool_]) -> Distribution:
    empty = draft.sum(axis=1) <= _ZERO
    return _normalised(np.where(empty[:, None], left.astype(np.float64), draft))


def _normalised(rows: Distribution) -> Distribution:
    totals = rows.sum(axis=1, keepdims=True)
    return rows / np.where(totals > 0.0, totals, 1.0)
