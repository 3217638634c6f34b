"""The exact law of what batch speculation writes on a small chain (Yin et al. 2024, algorithm 4).

By enumeration of all texts, apart from the theorem that it is held against.
"""

from __future__ import annotations

import numpy as np

from specviz.errors import TheoryError
from specviz.theory.chains import Chains, Floats

_MAX_TEXTS = 1_000_000


def batch_bias(chains: Chains, num_drafts: int, *, length: int, renew: bool = True) -> float:
    """Total variation between the law of a text's first ``length`` tokens and the target's.

    Yin et al. 2024, algorithm 4, which theorem 3 calls unbiased; each text's chance is worked
    out here. ``renew`` False is a deliberate fault: every draft of the batch is held against
    the first leftover, not against its own.
    """
    if not 1 <= length <= chains.horizon or chains.size ** (length + 1) > _MAX_TEXTS:
        raise TheoryError(
            f"The texts of {length} tokens are too many, or longer than the chain.",
            remedy="Take shorter ones.",
        )
    # Chances of a text so far: in all, with all drafts ahead, and within an accepted one.
    wanted = fresh = chains.start
    within = np.zeros_like(fresh)
    for step in range(length):
        draft, target = chains.draft_kernels[step], chains.target_kernels[step]
        chosen, none = root_step(draft, target, num_drafts, renew)
        kept, lost = root_step(draft, target, 1, True)
        fresh, within, wanted = fresh[..., None], within[..., None], wanted[..., None] * target
        fresh, within = fresh * none + within * lost, fresh * chosen + within * kept
    return float(np.abs(fresh + within - wanted).sum()) / 2


def root_step(
    draft: Floats, target: Floats, num_drafts: int, renew: bool
) -> tuple[Floats, Floats]:  # [..., size] each
    """Chances to emit each token: as the first of an accepted draft, and after all have failed.

    Yin et al. 2024, algorithm 4, at the root of a batch.
    """
    wanted, accepted = target, np.zeros_like(target)
    reached = np.ones((*target.shape[:-1], 1))
    for tried in range(num_drafts):
        accepted = accepted + reached * np.minimum(draft, wanted)
        rest = np.maximum(wanted - draft, 0.0)
        failed = rest.sum(axis=-1, keepdims=True)
        reached = reached * failed
        if renew or tried == 0:
            wanted = np.where(failed > 0.0, rest / np.where(failed > 0.0, failed, 1.0), wanted)
    return accepted, reached * wanted
