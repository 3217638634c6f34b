"""The probability that an emitted token was an accepted candidate, given that it was emitted.

These odds score a text along its tokens, from the draft and target distributions at each position.
A token with target probability 0 makes the text impossible, so it is refused.
"""

from __future__ import annotations

import numpy as np

from specviz.errors import TheoryError
from specviz.theory.rounds import PositionOutcome
from specviz.theory.tradeoff import Chances, Distribution, distribution_pair

_NOTHING = 1e-15


def token_odds(draft: Chances, target: Chances, token: int) -> float:
    """Return token verification's odds: min(1, draft/target)."""
    draft_probs, target_probs = _possible(draft, target, token)
    return min(1.0, float(draft_probs[token] / target_probs[token]))


def match_odds(draft: Chances, target: Chances, token: int) -> float:
    """Return 1 if the token is the draft's likeliest, else 0."""
    draft_probs, _ = _possible(draft, target, token)
    return float(int(draft_probs.argmax()) == token)


def coupled_odds(draft: Chances, target: Chances, token: int) -> float:
    """Return 1 / (q(x) Σ_w max(p_w/p_x, q_w/q_x)); Daliri et al. 2024 for the sum."""
    draft_probs, target_probs = _possible(draft, target, token)
    if draft_probs[token] == 0.0:
        return 0.0
    waiting = np.maximum(draft_probs * (target_probs[token] / draft_probs[token]), target_probs)
    return min(1.0, 1.0 / float(waiting.sum()))


def multi_draft_odds(draft: Chances, target: Chances, token: int, num_drafts: int) -> float:
    """Return 1 − r_1 … r_M q_(M+1)(x)/q(x), for drafts with replacement at the root of a round.

    After the root there is one candidate, with ``token_odds`` (derived here).
    """
    draft_probs, target_probs = _possible(draft, target, token)
    rest = target_probs  # r_1 … r_k q_(k+1)
    for _ in range(num_drafts):
        rest = np.maximum(rest - float(rest.sum()) * draft_probs, 0.0)
        if float(rest.sum()) <= _NOTHING:
            return 1.0
    return 1.0 - float(rest[token] / target_probs[token])


def odds_from_outcome(outcome: PositionOutcome, token: int) -> float:
    """Return the odds by enumeration, for any rule that preserves the target's distribution."""
    emitted = float(outcome.emitted[token])
    if emitted <= 0.0:
        raise _impossible(token)
    return float(outcome.accepted[token]) / emitted


def _possible(draft: Chances, target: Chances, token: int) -> tuple[Distribution, Distribution]:
    draft_probs, target_probs = distribution_pair(draft, target)
    if target_probs[token] <= 0.0:
        raise _impossible(token)
    return draft_probs, target_probs


def _impossible(token: int) -> TheoryError:
    return TheoryError(
        f"The target gives token {token} probability 0 there.",
        remedy="Score a text sampled from this target with these settings.",
    )
