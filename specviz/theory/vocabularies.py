"""Speculation with different vocabularies, restricted to the tokens both models share.

The draft's distribution is cut to shared tokens, normalised and mapped to target tokens (Timor et
al. 2025, token level). It is exact because candidates are verified against the distribution they
are drawn from.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from specviz.errors import TheoryError
from specviz.theory.rounds import Kernel
from specviz.theory.tradeoff import Chances, Distribution, as_distribution

Shared = Mapping[int, int]  # the draft's token -> the target's


def shared_distribution(draft: Chances, shared: Shared, vocabulary: int) -> Distribution:
    """Return the draft's distribution over the target's ``vocabulary``."""
    cut = shared_chances(draft, shared, vocabulary)
    total = float(cut.sum())
    if total <= 0.0:
        raise TheoryError(
            "The draft gives all shared tokens probability 0.",
            remedy="Choose a draft that shares more tokens.",
        )
    return cut / total


def shared_chances(draft: Chances, shared: Shared, vocabulary: int) -> Distribution:
    """Return the same before normalisation; verifying against it biases the text."""
    draft_probs = as_distribution(draft, "draft")
    cut = np.zeros(vocabulary)
    cut[list(shared.values())] = draft_probs[list(shared)]
    return cut


def shared_kernel(draft: Kernel, shared: Shared, vocabulary: int) -> Kernel:
    """Wrap ``draft``, which reads target tokens and returns probabilities of its own tokens."""
    return lambda text: shared_distribution(draft(text), shared, vocabulary)
