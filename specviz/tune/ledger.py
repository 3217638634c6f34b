"""Compare expected with observed speedups of stored runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

from specviz.record.numbers import PERCENT

_ENOUGH = 5  # runs needed to report a bias of the expectations
_FAIR = 0.05  # a smaller bias is not worth a warning


def ledger_sentence(pairs: Sequence[tuple[float, float]]) -> str:
    """Return sentences on how far observed speedups are from the expected ones.

    Args:
        pairs: Expected and observed speedup of each run; at least one.
    """
    errors = [abs(observed / expected - 1) for expected, observed in pairs]
    if len(pairs) == 1:
        return f"One run was {PERCENT.shown(errors[0])} off the expected speedup."
    near = PERCENT.shown(median(errors))
    text = f"Half of {len(pairs)} runs were within {near} of the expected speedup."
    if len(pairs) < _ENOUGH:
        return text
    shift = math.exp(fmean(math.log(observed / expected) for expected, observed in pairs)) - 1
    if abs(shift) < _FAIR:
        return f"{text} The mean deviation is {PERCENT.signed(shift)}."
    side = "faster" if shift > 0 else "slower"
    return (
        f"{text} On average, runs were {PERCENT.shown(abs(shift))} {side} than expected: the step "
        "costs may be outdated. Measure the step costs again under “The pair”."
    )
