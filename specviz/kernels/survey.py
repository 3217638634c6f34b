"""Compute, in one pass, what a trace records about the draft's and the target's distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from specviz.kernels.compiled import compiled, kernel
from specviz.kernels.simd import larger
from specviz.kernels.softmax import softmax

_LEAST = np.finfo(np.float32).min  # in place of -inf, whose product with 0 is NaN
_BLOCK = 64  # entries per block; only blocks whose maximum may be in the top k are searched


@compiled
def _insert(values: Any, ids: Any, value: Any, index: int) -> None:
    """Insert a value and its id into a descending row, after equal values; drop the last value."""
    place = values.shape[0] - 1
    while place > 0 and values[place - 1] < value:
        values[place] = values[place - 1]
        ids[place] = ids[place - 1]
        place -= 1
    values[place] = value
    ids[place] = index


@compiled
def _top(probs: Any, maxima: Any, values: Any, ids: Any) -> None:
    """Write the k largest values of one distribution and their token ids.

    ``maxima``: the largest value of each block of the vocabulary.
    ``probs``: the draft's probabilities, the target's, and the number of the distribution to read
    (0: draft, 1: target, 2: residual).
    The k blocks with the largest maxima contain the k largest values (or values equal to them);
    only these blocks are read.
    """
    draft, target, which = probs
    values[:] = np.float32(0.0)
    ids[:] = 0
    for block in range(maxima.shape[0]):
        if maxima[block] > values[-1]:
            _insert(values, ids, maxima[block], 0)
    least = values[-1]
    values[:] = np.float32(0.0)
    ids[:] = 0
    for block in range(maxima.shape[0]):
        if maxima[block] >= least and maxima[block] > values[-1]:
            begin = block * _BLOCK
            for i in range(begin, min(draft.shape[0], begin + _BLOCK)):
                value = draft[i] if which == 0 else target[i]
                if which == 2:
                    value = max(value - draft[i], np.float32(0.0))
                if value >= least and value > values[-1]:
                    _insert(values, ids, value, i)


@compiled
def _block_facts(
    draft: Any, target: Any, draft_logits: Any, target_logits: Any, maxima: Any
) -> Any:
    """Return three sums over a block of tokens; write the block's ``maxima``.

    The sums are draft probability * draft logit, target probability * target logit, and residual
    (target - draft, at least 0). The maxima are the highest draft probability, the highest target
    probability and the highest residual in the block.
    """
    max_draft = max_target = max_residual = np.float32(0.0)
    draft_mean = target_mean = total = np.float32(0.0)
    for i in range(draft.shape[0]):
        p, q = draft[i], target[i]
        residual = larger(q - p, np.float32(0.0))
        max_draft = larger(max_draft, p)
        max_target = larger(max_target, q)
        max_residual = larger(max_residual, residual)
        draft_mean += p * larger(draft_logits[i], _LEAST)
        target_mean += q * target_logits[i]
        total += residual
    maxima[0], maxima[1], maxima[2] = max_draft, max_target, max_residual
    return draft_mean, target_mean, total


@kernel
def survey(
    draft: Any,  # float32 [row, vocabulary]
    target: Any,
    draft_logits: Any,  # float32 [row, vocabulary]
    target_logits: Any,
    softens: int,  # softmax of the logits instead of the probabilities: 1: of target, 2: of both
    space: Any,  # float32 [2, vocabulary]
    candidates: Any,  # int64 [row]
    top_probs: Any,  # float32 [3 (draft, target, residual), row, place]
    top_ids: Any,  # int64 of the same shape
    facts: Any,  # float64 [7, row]
) -> None:
    """Find the likeliest tokens of draft, target and residual, and other facts about each row.

    Row by row, the probabilities are computed and read while they are in a cache. In ``top_probs``,
    an entry with probability 0 is empty. The values in ``facts``:

    * ``facts[0]`` (draft) and ``facts[1]`` (target): the candidate's probability.
    * ``facts[2]`` (draft) and ``facts[3]`` (target): the likeliest token's logit.
    * ``facts[4]`` (draft) and ``facts[5]`` (target): the expected logit Σ p·logit.
    * ``facts[6]``: the residual's sum Σ max(0, target - draft).
    """
    size = draft.shape[1]
    maxima = np.empty((3, (size + _BLOCK - 1) // _BLOCK), np.float32)
    for row in range(candidates.shape[0]):
        p, q, a, b = draft[row], target[row], draft_logits[row], target_logits[row]
        if softens > 0:
            q = space[1]
            softmax(b, q)
        if softens > 1:
            p = space[0]
            softmax(a, p)
        draft_mean, target_mean, total = 0.0, 0.0, 0.0
        for block in range(maxima.shape[1]):
            part = slice(block * _BLOCK, (block + 1) * _BLOCK)
            found = _block_facts(p[part], q[part], a[part], b[part], maxima[:, block])
            draft_mean += found[0]
            target_mean += found[1]
            total += found[2]
        for which in range(3):
            _top((p, q, which), maxima[which], top_probs[which, row], top_ids[which, row])
        facts[0, row] = p[candidates[row]]
        facts[1, row] = q[candidates[row]]
        facts[2, row] = a[top_ids[0, row, 0]]
        facts[3, row] = b[top_ids[1, row, 0]]
        facts[4, row] = draft_mean
        facts[5, row] = target_mean
        facts[6, row] = total
