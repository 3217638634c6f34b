"""Several candidates for one place, and trees of them: what a round emits, exactly.

Siblings are tried in the order in which they were drawn, the k-th with min(1, q_k/p_k): p_k is the
law that it was really drawn from, and q_(k+1) is what is left of q_k, (q_k - p_k)+ normalised. When
all fall, the token is drawn from what is left last. With replacement p_k is the draft's law (Miao
et al. 2023; Yin et al. 2024); without, it has lost the tokens before (Jeon et al. 2024). Where the
draft has no more tokens, a node has fewer children. Below one that stands the round goes on (Chen
et al. 2024).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specviz.errors import TheoryError
from specviz.theory.rounds import Emitted, Judged, Judging, Kernel, round_distribution
from specviz.theory.tradeoff import Chances, Law, distribution_pair, leftover, lossless

_MAX_ORDERS = 100_000


def judged_siblings(
    draft: Chances, target: Chances, count: int, *, replacement: bool = False, own: bool = True
) -> Judged:
    """What becomes of one place with so many siblings, by every order in which they fall.

    ``own`` False is a deliberate fault: every sibling is judged as if drawn from the draft's law.
    """
    drafted, wanted = distribution_pair(draft, target)
    stands, instead = np.zeros_like(wanted), np.zeros_like(wanted)
    live = [(1.0, drafted, wanted)]  # chance that all fell, the next one's law, what is asked for
    for _ in range(count):
        if len(live) * drafted.size > _MAX_ORDERS:
            raise TheoryError("That is too many orders to count.", remedy="Take fewer siblings.")
        falling: list[tuple[float, Law, Law]] = []
        for chance, drawn, asked in live:
            if not drawn.any():
                instead += chance * asked
                continue
            assumed = drawn if own else drafted
            kept = drawn * lossless(assumed, asked)
            stands += chance * kept
            rest = leftover(assumed, asked)
            falling += [
                (chance * lost, law_after, rest)
                for lost, law_after in _fallen(drawn, drawn - kept, replacement)
            ]
        live = falling
    for chance, _, asked in live:
        instead += chance * asked
    return Judged(stands=stands, instead=instead)


def siblings(count: int, *, replacement: bool = False, own: bool = True) -> Judging:
    """``judged_siblings`` as a rule of a place."""
    return lambda draft, target: judged_siblings(
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
    """Of a round whose tree has so many children of a node, depth by depth."""
    rules = [siblings(count, replacement=replacement, own=own) for count in shape]
    return round_distribution(draft, target, rules)


def several_distribution(
    draft: Kernel,
    target: Kernel,
    num_drafts: int,
    gamma: int,
    *,
    replacement: bool = True,
    own: bool = True,
) -> Emitted:
    """Of a round with so many chains side by side: several candidates at the root, then one."""
    shape = (num_drafts, *(1 for _ in range(gamma - 1)))
    return tree_distribution(draft, target, shape, replacement=replacement, own=own)


def _fallen(drawn: Law, lost: Law, replacement: bool) -> list[tuple[float, Law]]:
    """Each way to fall: its chance, and the law of the next sibling."""
    if replacement:
        return [(float(lost.sum()), drawn)]
    return [(float(lost[token]), _without(drawn, token)) for token in np.flatnonzero(lost).tolist()]


def _without(drawn: Law, token: int) -> Law:
    left = drawn.copy()
    left[token] = 0.0
    total = float(left.sum())
    return left / total if total > 0.0 else left
