"""Token-matching verification: a candidate is accepted if the target samples the same token.

A coupling is the joint distribution of both tokens at a position, ``[size, size]``: the draft's,
the target's. The target's token is emitted, so a coupling is exact if its columns sum to the
target's distribution. *match*: the draft proposes its likeliest token (llama.cpp). *coupled*: each
model picks the token whose exponential variate over its probability is least, with the same
variates for both (Daliri et al. 2024).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from specviz.theory.rounds import PositionOutcome, PositionRule
from specviz.theory.tradeoff import Chances, Distribution, distribution_pair, total_variation

Coupling = Callable[[Chances, Chances], Distribution]


def match(draft: Chances, target: Chances) -> Distribution:
    """Couple the draft's likeliest token (the first in a tie) with the target's sample."""
    draft_probs, target_probs = distribution_pair(draft, target)
    joint = np.zeros((draft_probs.size, draft_probs.size))
    joint[int(draft_probs.argmax())] = target_probs
    return joint


def coupled(draft: Chances, target: Chances) -> Distribution:
    """Compute the coupling by piecewise integrals over both minimal exponentials (derived here)."""
    draft_probs, target_probs = distribution_pair(draft, target)
    joint = np.zeros((draft_probs.size, draft_probs.size))
    for draft_token in np.flatnonzero(draft_probs).tolist():
        for target_token in np.flatnonzero(target_probs).tolist():
            joint[draft_token, target_token] = (
                1.0 / _waiting(draft_probs, target_probs, draft_token)
                if draft_token == target_token
                else _apart(draft_probs, target_probs, draft_token, target_token)
            )
    return joint


def coupled_acceptance(draft: Chances, target: Chances) -> float:
    """Return Σ_v 1 / Σ_w max(p_w/p_v, q_w/q_v), the acceptance probability: Daliri et al. 2024."""
    draft_probs, target_probs = distribution_pair(draft, target)
    both = np.flatnonzero((draft_probs > 0.0) & (target_probs > 0.0)).tolist()
    return sum(1.0 / _waiting(draft_probs, target_probs, token) for token in both)


def coupled_floor(draft: Chances, target: Chances) -> float:
    """Return (1 − TV) / (1 + TV), a lower bound of the acceptance (Daliri et al. 2024)."""
    distance = total_variation(draft, target)
    return (1.0 - distance) / (1.0 + distance)


def token_matching_rule(coupling: Coupling) -> PositionRule:
    """Return the verification rule of a coupling."""

    def decide(draft: Chances, target: Chances) -> PositionOutcome:
        joint = coupling(draft, target)
        accepted = joint.diagonal().copy()
        return PositionOutcome(accepted=accepted, recovered=(joint - np.diag(accepted)).sum(axis=0))

    return decide


def _waiting(draft: Distribution, target: Distribution, token: int) -> float:
    """Return Σ_w max(p_w/p_v, q_w/q_v), v the token: 1 / P(both models choose v)."""
    return float(np.maximum(draft / draft[token], target / target[token]).sum())


def _apart(draft: Distribution, target: Distribution, draft_token: int, target_token: int) -> float:
    """Return P(the draft chooses one token, the target another).

    With s the ratio of their exponentials, the others must come after max(p_u/p_v, s q_u/q_w):
    the integral of 1 / (a + b s)² over the s for which both win, where a and b change where one of
    the others does.
    """
    low = draft[target_token] / draft[draft_token]
    high = target[target_token] / target[draft_token] if target[draft_token] > 0.0 else np.inf
    if low >= high:
        return 0.0
    others = np.ones(draft.size, bool)
    others[[draft_token, target_token]] = False
    early, late = draft[others] / draft[draft_token], target[others] / target[target_token]
    turns = early[late > 0.0] / late[late > 0.0]
    ends = [low, *np.sort(turns[(turns > low) & (turns < high)]).tolist(), high]
    total = 0.0
    for start, end in itertools.pairwise(ends):
        inside = start + 1.0 if np.isinf(end) else (start + end) / 2.0
        by_target = late * inside > early
        first = 1.0 + float(early[~by_target].sum())
        slope = 1.0 + float(late[by_target].sum())
        total += _piece(first, slope, start, end)
    return total


def _piece(first: float, slope: float, start: float, end: float) -> float:
    if np.isinf(end):
        return 1.0 / (slope * (first + slope * start))
    return (end - start) / ((first + slope * start) * (first + slope * end))
