"""The exact output distribution of batch speculation (several drafts) on a small Markov chain.

All texts that algorithm 4 of Yin et al. 2024 can emit are enumerated; theorem 3 of that paper is
not used.
"""

from __future__ import annotations

import numpy as np

from specviz.errors import TheoryError
from specviz.theory.chains import Chains, Floats

_MAX_TEXTS = 1_000_000


def batch_bias(chains: Chains, num_drafts: int, *, length: int, renew: bool = True) -> float:
    """Return the bias of batch speculation: its total variation from the target.

    The distributions of a text's first ``length`` tokens are compared. Theorem 3 of Yin et al. 2024
    states that algorithm 4 is unbiased. With ``renew`` False, the algorithm has a deliberate bug:
    the residual is computed only after the first rejection, and all further drafts are tested
    against this residual.
    """
    if not 1 <= length <= chains.horizon or chains.size ** (length + 1) > _MAX_TEXTS:
        raise TheoryError(
            f"Texts of {length} tokens are too many to enumerate, or longer than the horizon.",
            remedy="Use shorter texts.",
        )
    # wanted: P(text) under the target. fresh, within: P(text, and a batch begins or continues).
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
    """Return the probabilities of emitting each token at a round's first position.

    All drafts are tried at this position. The first array has, for each token, the probability that
    a draft with this token is accepted. The second array has the probability that all drafts are
    rejected and this token is drawn instead. The rule is algorithm 4 of Yin et al. 2024.
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
