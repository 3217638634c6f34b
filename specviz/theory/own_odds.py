"""Given what the target wrote at a place, the chance that a candidate said it.

This is what scores a text along its tokens: draft and target laws at the place, and the text's
token there. A token that the target gives no chance makes the text impossible, so it is refused.
"""

from __future__ import annotations

import numpy as np

from specviz.errors import TheoryError
from specviz.theory.rounds import Judged
from specviz.theory.tradeoff import Chances, Law, distribution_pair

_NOTHING = 1e-15


def token_odds(draft: Chances, target: Chances, token: int) -> float:
    """Token by token: min(1, draft/target)."""
    drafted, wanted = _possible(draft, target, token)
    return min(1.0, float(drafted[token] / wanted[token]))


def match_odds(draft: Chances, target: Chances, token: int) -> float:
    """1 if it is the draft's likeliest, else 0."""
    drafted, _ = _possible(draft, target, token)
    return float(int(drafted.argmax()) == token)


def coupled_odds(draft: Chances, target: Chances, token: int) -> float:
    """1 / (q(x) Σ_w max(p_w/p_x, q_w/q_x)); Daliri et al. 2024 for the sum."""
    drafted, wanted = _possible(draft, target, token)
    if drafted[token] == 0.0:
        return 0.0
    waiting = np.maximum(drafted * (wanted[token] / drafted[token]), wanted)
    return min(1.0, 1.0 / float(waiting.sum()))


def several_odds(draft: Chances, target: Chances, token: int, num_drafts: int) -> float:
    """1 − r_1 … r_M q_(M+1)(x)/q(x): several drafts with replacement, at the root of a round.

    Behind the root there is one candidate, which has ``token_odds`` (derived here).
    """
    drafted, wanted = _possible(draft, target, token)
    rest = wanted  # r_1 … r_k q_(k+1)
    for _ in range(num_drafts):
        rest = np.maximum(rest - float(rest.sum()) * drafted, 0.0)
        if float(rest.sum()) <= _NOTHING:
            return 1.0
    return 1.0 - float(rest[token] / wanted[token])


def odds_of(judged: Judged, token: int) -> float:
    """By enumeration, for any rule that keeps the target's law."""
    emitted = float(judged.emitted[token])
    if emitted <= 0.0:
        raise _impossible(token)
    return float(judged.stands[token]) / emitted


def _possible(draft: Chances, target: Chances, token: int) -> tuple[Law, Law]:
    drafted, wanted = distribution_pair(draft, target)
    if wanted[token] <= 0.0:
        raise _impossible(token)
    return drafted, wanted


def _impossible(token: int) -> TheoryError:
    return TheoryError(
        f"The target never writes token {token} there.",
        remedy="Score a text that was written under this law.",
    )
