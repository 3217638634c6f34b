"""Rules by which the target's own word decides: a candidate stands if it is the same token.

A coupling is the joint law of both words at a place, ``[size, size]``: the draft's, the target's.
The target's is emitted, so a coupling is exact if its columns sum to the target's law. *match*: the
draft proposes its likeliest token (llama.cpp). *coupled*: each says the token whose exponential
over its chance is least, with the same exponentials (Daliri et al. 2024).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from specviz.theory.rounds import Judged, Judging
from specviz.theory.tradeoff import Chances, Law, distribution_pair, total_variation

Coupling = Callable[[Chances, Chances], Law]


def match(draft: Chances, target: Chances) -> Law:
    """The draft's word is fixed; the first of the likeliest where several are."""
    drafted, wanted = distribution_pair(draft, target)
    joint = np.zeros((drafted.size, drafted.size))
    joint[int(drafted.argmax())] = wanted
    return joint


def coupled(draft: Chances, target: Chances) -> Law:
    """By integrals over the two exponentials that win, piece by piece (worked out here)."""
    drafted, wanted = distribution_pair(draft, target)
    joint = np.zeros((drafted.size, drafted.size))
    for said in np.flatnonzero(drafted).tolist():
        for own in np.flatnonzero(wanted).tolist():
            joint[said, own] = (
                1.0 / _waiting(drafted, wanted, said)
                if said == own
                else _apart(drafted, wanted, said, own)
            )
    return joint


def coupled_acceptance(draft: Chances, target: Chances) -> float:
    """Σ_v 1 / Σ_w max(p_w/p_v, q_w/q_v): Daliri et al. 2024."""
    drafted, wanted = distribution_pair(draft, target)
    both = np.flatnonzero((drafted > 0.0) & (wanted > 0.0)).tolist()
    return sum(1.0 / _waiting(drafted, wanted, token) for token in both)


def coupled_floor(draft: Chances, target: Chances) -> float:
    """(1 − TV) / (1 + TV): the acceptance is never below it (Daliri et al. 2024)."""
    distance = total_variation(draft, target)
    return (1.0 - distance) / (1.0 + distance)


def equal_words(coupling: Coupling) -> Judging:
    """As a rule of a chain."""

    def judged(draft: Chances, target: Chances) -> Judged:
        joint = coupling(draft, target)
        stands = joint.diagonal().copy()
        return Judged(stands=stands, instead=(joint - np.diag(stands)).sum(axis=0))

    return judged


def _waiting(draft: Law, target: Law, token: int) -> float:
    """Σ_w max(p_w/p_v, q_w/q_v), v the token: one over the chance that both say it."""
    return float(np.maximum(draft / draft[token], target / target[token]).sum())


def _apart(draft: Law, target: Law, said: int, own: int) -> float:
    """P(the draft says one token, the target another).

    With s the ratio of their exponentials, the others must come after max(p_u/p_v, s q_u/q_w):
    the integral of 1 / (a + b s)² over the s between which both win, a and b changing where one of
    the others does.
    """
    low = draft[own] / draft[said]
    high = target[own] / target[said] if target[said] > 0.0 else np.inf
    if low >= high:
        return 0.0
    others = np.ones(draft.size, bool)
    others[[said, own]] = False
    early, late = draft[others] / draft[said], target[others] / target[own]
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
