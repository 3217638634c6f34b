"""The exact law of what batch speculation writes on a small chain (Yin et al. 2024, algorithm 4).

By enumeration of all texts, apart from the theorem that it is held against.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from specviz.theory.tradeoff import Law

Kernel = NDArray[np.float64]  # [states, states], from row to column


def batch_bias(
    draft: Kernel, target: Kernel, num_drafts: int, *, length: int, renew: bool = True
) -> float:
    """Total variation between the law of a text of this length and the target's.

    The state before the text is drawn uniformly. ``renew`` False is a deliberate fault: every
    draft of the batch is held against the first leftover, not against its own.
    """
    size = len(draft)
    difference = 0.0
    for text in itertools.product(range(size), repeat=length + 1):
        wanted = np.prod([target[pair] for pair in itertools.pairwise(text)])
        written = _chance(draft, target, num_drafts, text, renew)
        difference += abs(written - float(wanted)) / size
    return difference / 2


def _chance(
    draft: Kernel, target: Kernel, num_drafts: int, text: tuple[int, ...], renew: bool
) -> float:
    """Of this text after its first state; carried apart: with all drafts ahead, and within one."""
    fresh, within = 1.0, 0.0
    for before, after in itertools.pairwise(text):
        laws = draft[before], target[before]
        chosen, none = (each[after] for each in root_step(*laws, num_drafts, renew))
        kept, lost = (each[after] for each in root_step(*laws, 1, True))
        fresh, within = fresh * none + within * lost, fresh * chosen + within * kept
    return fresh + within


def root_step(draft: Law, target: Law, num_drafts: int, renew: bool) -> tuple[Law, Law]:
    """Chances to emit each token: as the first of an accepted draft, and after all have failed."""
    wanted, reached, accepted = target, 1.0, np.zeros_like(target)
    for tried in range(num_drafts):
        accepted = accepted + reached * np.minimum(draft, wanted)
        rest = np.maximum(wanted - draft, 0.0)
        failed = float(rest.sum())
        reached *= failed
        if failed == 0.0:
            break
        if renew or tried == 0:
            wanted = rest / failed
    return accepted, reached * wanted
