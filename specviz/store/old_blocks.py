"""Convert the timing of traces older than schema 5.

Such a trace has the times of every token or round in each timed pass (a block). All passes become
one slice, which has the total time of each pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from specviz.record.trace import MAX_PASSES, Baseline, Round, Slice, Trace
from specviz.store.dataclass_json import MisfitError, fit_to_type
from specviz.values import Value


class _Block(Value):
    """One timed pass: seconds of each token (target alone) or of each round (speculative)."""

    lane: Literal["target", "speculative"]
    seconds: tuple[float, ...]


class _Blocks(Value):
    blocks: tuple[_Block, ...]
    prefill: float


def baseline_of_blocks(value: object, trace: Trace) -> Baseline:
    """Convert timed passes to a Baseline; raises MisfitError if they do not fit ``trace``."""
    old = fit_to_type(value, _Blocks)
    sizes = {"target": len(trace.token_ids), "speculative": len(trace.rounds)}
    if any(len(block.seconds) != sizes[block.lane] for block in old.blocks):
        raise MisfitError("baseline contains a timed block with too few or too many times")
    if any(each < 0 for block in old.blocks for each in block.seconds):
        raise MisfitError("baseline contains a negative time")
    return Baseline(slices=_slices(old, trace.rounds), prefill=old.prefill)


def _slices(old: _Blocks, rounds: Sequence[Round]) -> tuple[Slice, ...]:
    """Return one slice: the seconds that each timed pass took for all whole rounds.

    The result is empty if there are no whole rounds, or if there are no times of the target alone
    or of speculation.
    """
    last = next((i for i, entry in enumerate(rounds) if not entry.whole), len(rounds))
    tokens = sum(len(entry.emitted) for entry in rounds[:last])
    passes = {
        lane: tuple(
            math.fsum(block.seconds[:end]) for block in old.blocks if block.lane == lane
        )[:MAX_PASSES]
        for lane, end in (("target", tokens), ("speculative", last))
    }  # fmt: skip
    if not tokens or not all(each and min(each) > 0 for each in passes.values()):
        return ()
    return (Slice(first=0, last=last, target=passes["target"], speculative=passes["speculative"]),)
