"""Several candidates for one position, and trees of them: the exact distribution of a round.

Siblings are tested in the order they were drawn, the k-th with min(1, q_k/p_k): p_k is the
distribution it was actually drawn from, and q_(k+1) is the residual (q_k - p_k)+, normalised. If
all are rejected, the token is drawn from the last residual. With replacement p_k is the draft's
distribution (Miao et al. 2023; Yin et al. 2024); without, the earlier tokens are removed (Jeon et
al. 2024). Where the draft has no more tokens, a node has fewer children. Below an accepted node
the round continues (Chen et al. 2024).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specviz.errors import TheoryError
from specviz.theory.rounds import Emitted, Kernel, PositionOutcome, PositionRule, round_distribution
from specviz.theory.tradeoff import (
    Chances,
    Distribution,
    distribution_pair,
    lossless,
    residual_distribution,
)

_MAX_ORDERS = 100_000


def sibling_outcome(
    draft: Chances, target: Chances, count: int, *, replacement: bool = False, own: bool = True
) -> PositionOutcome:
    """Return the outcome of one position with ``count`` siblings, over every order of rejection.

    ``own`` False is a deliberate bug: every sibling is tested as if drawn from the draft.
    """
    draft_probs, target_probs = distribution_pair(draft, target)
    accepted, recovered = np.zeros_like(target_probs), np.zeros_like(target_probs)
    live = [
        (1.0, draft_probs, target_probs)
    ]  # P(all rejected), next sibling's distribution, residual
    for _ in range(count):
        if len(live) * draft_probs.size > _MAX_ORDERS:
            raise TheoryError("Too many orders to enumerate.", remedy="Use fewer siblings.")
        falling: list[tuple[float, Distribution, Distribution]] = []
        for chance, drawn, residual in live:
            if not drawn.any():
                recovered += chance * residual
                continue
            assumed = drawn if own else draft_probs
            kept = drawn * lossless(assumed, residual)
            accepted += chance * kept
            rest = residual_distribution(assumed, residual)
            falling += [
                (chance * lost, next_probs, rest)
                for lost, next_probs in _fallen(drawn, drawn - kept, replacement)
            ]
        live = falling
    for chance, _, residual in live:
        recovered += chance * residual
    return PositionOutcome(accepted=accepted, recovered=recovered)


def sibling_rule(count: int, *, replacement: bool = False, own: bool = True) -> PositionRule:
    """Return ``sibling_outcome`` as a position's rule."""
    return lambda draft, target: sibling_outcome(
        draft, target, count, replacement=replacement, own=own
    )


def tree_distribution(
    draft: Kernel,
    target: Kernel,
    shape: Sequence[int],
    *,
    replacement: bool = False,
    own: bool = True,
) -> Emitted:
    """Return the distribution of a round whose nodes have ``shape[depth]`` children."""
    rules = [sibling_rule(count, replacement=replacement, own=own) for count in shape]
    return round_distribution(draft, target, rules)


def multi_draft_distribution(
    draft: Kernel,
    target: Kernel,
    num_drafts: int,
    gamma: int,
    *,
    replacement: bool = True,
    own: bool = True,
) -> Emitted:
    """Return the distribution of a round with ``num_drafts`` parallel chains.

    Several candidates at the root, then one.
    """
    shape = (num_drafts, *(1 for _ in range(gamma - 1)))
    return tree_distribution(draft, target, shape, replacement=replacement, own=own)


def _fallen(
    drawn: Distribution, lost: Distribution, replacement: bool
) -> list[tuple[float, Distribution]]:
    """Return each way to be rejected: its probability, and the next sibling's distribution."""
    if replacement:
        return [(float(lost.sum()), drawn)]
    return [(float(lost[token]), _without(drawn, token)) for token in np.flatnonzero(lost).tolist()]


def _without(drawn: Distribution, token: int) -> Distribution:
    left = drawn.copy()
    left[token] = 0.0
    total = float(left.sum())
    return left / total if total > 0.0 else left
