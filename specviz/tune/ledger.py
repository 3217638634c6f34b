"""Expected against observed, over the runs that were kept: whether expectations hold here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

from specviz.record.numbers import PERCENT

_ENOUGH = 5  # runs, before it is said whether expectations run high or low
_FAIR = 0.05


def ledger_sentence(pairs: Sequence[tuple[float, float]]) -> str:
    """``pairs``: expected and observed speedups of runs; at least one."""
    errors = [abs(observed / expected - 1) for expected, observed in pairs]
    if len(pairs) == 1:
        return f"One run, {PERCENT.shown(errors[0])} off from what was expected."
    near = PERCENT.shown(median(errors))
    told = f"Of {len(pairs)} runs, half were within {near} of what was expected."
    if len(pairs) < _ENOUGH:
        return told
    shift = math.exp(fmean(math.log(observed / expected) for expected, observed in pairs)) - 1
    if abs(shift) < _FAIR:
        return f"{told} They lie on both sides: in the mean {PERCENT.signed(shift)}."
    side = "faster" if shift > 0 else "slower"
    return (
        f"{told} In the mean runs were {PERCENT.shown(abs(shift))} {side} than expected: the step "
        "costs may be of another moment of this machine. Measure them again under The pair."
    )
