"""What the record needs of two models' distributions, in one pass over them."""

from __future__ import annotations

from typing import Any

import numpy as np

from specviz.kernels.compiled import compiled, kernel

_BLOCK = 64  # entries of which only the largest is looked at, unless it may belong to the top


@compiled
def _insert(values: Any, ids: Any, value: Any, index: int) -> None:
    """Into a falling row, whose last value is lost; equals keep their order."""
    place = values.shape[0] - 1
    while place > 0 and values[place - 1] < value:
        values[place] = values[place - 1]
        ids[place] = ids[place - 1]
        place -= 1
    values[place] = value
    ids[place] = index


@compiled
def _top(laws: Any, mosts: Any, values: Any, ids: Any) -> None:
    """The largest values of one law, and where they stand, from the largest of each block.

    As many blocks as there are places have the largest of all, or one as large; so few are read.
    """
    draft, target, which = laws
    values[:] = np.float32(0.0)
    ids[:] = 0
    for block in range(mosts.shape[0]):
        if mosts[block] > values[-1]:
            _insert(values, ids, mosts[block], 0)
    least = values[-1]
    values[:] = np.float32(0.0)
    ids[:] = 0
    for block in range(mosts.shape[0]):
        if mosts[block] >= least and mosts[block] > values[-1]:
            begin = block * _BLOCK
            for i in range(begin, min(draft.shape[0], begin + _BLOCK)):
                value = draft[i] if which == 0 else target[i]
                if which == 2:
                    value = max(value - draft[i], np.float32(0.0))
                if value > values[-1]:
                    _insert(values, ids, value, i)


@compiled
def _look(draft: Any, target: Any, draft_logits: Any, target_logits: Any, mosts: Any) -> Any:
    """Of a block: the largest of draft, target and residual; both mean logits, and the residual."""
    most_draft = most_target = most_left = np.float32(0.0)
    draft_mean = target_mean = total = np.float32(0.0)
    for i in range(draft.shape[0]):
        p, q = draft[i], target[i]
        left = max(q - p, np.float32(0.0))
        most_draft = max(most_draft, p)
        most_target = max(most_target, q)
        most_left = max(most_left, left)
        draft_mean += p * draft_logits[i]
        target_mean += q * target_logits[i]
        total += left
    mosts[0], mosts[1], mosts[2] = most_draft, most_target, most_left
    return draft_mean, target_mean, total


@kernel
def survey(
    draft: Any,  # float32 [row, vocabulary]
    target: Any,
    draft_logits: Any,  # float32 [row, vocabulary]
    target_logits: Any,
    candidates: Any,  # int64 [row]
    top_probs: Any,  # float32 [draft, target and residual; row; place]
    top_ids: Any,  # int64 of the same shape
    facts: Any,  # float64 [own, likeliest and mean of draft and target, residual total; row]
) -> None:
    """Fill the last three; a place whose probability is nought stands for no token."""
    size = draft.shape[1]
    mosts = np.empty((3, (size + _BLOCK - 1) // _BLOCK), np.float32)
    for row in range(candidates.shape[0]):
        p, q, a, b = draft[row], target[row], draft_logits[row], target_logits[row]
        draft_mean, target_mean, total = 0.0, 0.0, 0.0
        for block in range(mosts.shape[1]):
            part = slice(block * _BLOCK, (block + 1) * _BLOCK)
            found = _look(p[part], q[part], a[part], b[part], mosts[:, block])
            draft_mean += found[0]
            target_mean += found[1]
            total += found[2]
        for which in range(3):
            _top((p, q, which), mosts[which], top_probs[which, row], top_ids[which, row])
        facts[0, row] = p[candidates[row]]
        facts[1, row] = q[candidates[row]]
        facts[2, row] = a[top_ids[0, row, 0]]
        facts[3, row] = b[top_ids[1, row, 0]]
        facts[4, row] = draft_mean
        facts[5, row] = target_mean
        facts[6, row] = total
