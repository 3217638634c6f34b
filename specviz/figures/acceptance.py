"""The tested candidates of a run, and their expected acceptance."""

from __future__ import annotations

import math
from collections.abc import Sequence

from specviz.record.trace import Candidate, Round


def tested_in(rounds: Sequence[Round]) -> list[Candidate]:
    return [entry for each in rounds for entry in each.candidates if entry.tested]


def expected_alpha(tested: Sequence[Candidate]) -> float | None:
    total = math.fsum(entry.expected_acceptance for entry in tested)
    # Sums of float32 probabilities can slightly exceed 1.
    return min(1.0, total / len(tested)) if tested else None
