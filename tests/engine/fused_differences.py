"""Run the Triton kernels in Triton's interpreter, and print how far they are from the static step.

``python -m tests.engine.fused_differences FILE`` reads weights that ``test_fused_step.py`` pickled.
This module does not import transformers, which would take longer than the kernels.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from specviz.engine.model.fused_step import FusedStep
from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.static_step import StaticStep

VOCABULARY, ROWS = 50, 600
# The position and number of the tokens of a pass. One row, two and more have kernels of their own;
# 254 and 300 cache rows are several chunks; -1 is a text of one token after padding.
PASSES = ((63, 2), (254, 5), (300, 1), (-1, 2))


@torch.inference_mode()
def differences(weights: LeanWeights) -> Iterator[tuple[str, float]]:
    """Yield the largest differences of logits and caches between fused and static step."""
    ids = torch.arange(ROWS) * 7 % VOCABULARY
    fused, static = (kind(weights, VOCABULARY, ROWS) for kind in (FusedStep, StaticStep))
    for begin, count in PASSES:
        for step in (fused, static):
            if begin > 0:
                step.prefill(ids[:begin], 0)
        fed, first = ids[max(begin, 0)][None], torch.tensor(begin)
        fed = ids[begin : begin + count] if begin >= 0 else fed.repeat(count)
        asked = count if begin >= 0 else 1  # the logits of padding have no meaning
        logits = [step.feed_at(fed, first, 512, asked) for step in (fused, static)]
        yield f"{begin} {count}", float((logits[0] - logits[1]).abs().max())
        for caches in ((fused._keys, static._keys), (fused._values, static._values)):
            ours, known = (each[:, :, : begin + count] for each in caches)
            yield f"{begin} {count}", float((ours - known).abs().max())


if __name__ == "__main__":
    print(json.dumps(list(differences(pickle.loads(Path(sys.argv[1]).read_bytes())))))
