"""Draft and target with vocabularies of their own: speculation on the tokens that both have.

The draft's law is cut to shared tokens, made a law again and read as target tokens (Timor et al.
2025, token level). It is exact since candidates are judged by the law that they are drawn from.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from specviz.errors import TheoryError
from specviz.theory.rounds import Kernel
from specviz.theory.tradeoff import Chances, Law, law

Shared = Mapping[int, int]  # the draft's token -> the target's


def shared_distribution(draft: Chances, shared: Shared, vocabulary: int) -> Law:
    """The draft's law on the target's ``vocabulary``."""
    cut = shared_chances(draft, shared, vocabulary)
    total = float(cut.sum())
    if total <= 0.0:
        raise TheoryError(
            "The draft gives shared tokens no chance.",
            remedy="Choose a draft that shares more.",
        )
    return cut / total


def shared_chances(draft: Chances, shared: Shared, vocabulary: int) -> Law:
    """The same before it is made a law again; judged by these, the text is biased."""
    drafted = law(draft, "draft")
    cut = np.zeros(vocabulary)
    cut[list(shared.values())] = drafted[list(shared)]
    return cut


def shared_kernel(draft: Kernel, shared: Shared, vocabulary: int) -> Kernel:
    """``draft`` reads the target's tokens, in whatever way, and gives a law of its own tokens."""
    return lambda text: shared_distribution(draft(text), shared, vocabulary)
