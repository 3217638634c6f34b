"""What the record needs of two models' distributions, in one pass over them."""

from __future__ import annotations

from typing import Any

import numpy as np

from specviz.engine.kernels.compiled import compiled, kernel

_BLOCK = 64  # entries of which only the largest is looked at, unless it belongs to the top


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
    size, places = draft.shape[1], top_ids.shape[2]
    for row in range(candidates.shape[0]):
        tops, ids = top_probs[:, row], top_ids[:, row]
        for law in range(3):
            for place in range(places):
                tops[law, place] = np.float32(0.0)
                ids[law, place] = 0
        draft_mean, target_mean, total = 0.0, 0.0, 0.0
        for begin in range(0, size, _BLOCK):
            end = min(size, begin + _BLOCK)
            most_draft = most_target = most_left = np.float32(0.0)
            part_draft = part_target = part_left = np.float32(0.0)
            for i in range(begin, end):
                p, q = draft[row, i], target[row, i]
                left = max(q - p, np.float32(0.0))
                most_draft = max(most_draft, p)
                most_target = max(most_target, q)
                most_left = max(most_left, left)
                part_draft += p * draft_logits[row, i]
                part_target += q * target_logits[row, i]
                part_left += left
            draft_mean += part_draft
            target_mean += part_target
            total += part_left
            if most_draft > tops[0, places - 1]:
                for i in range(begin, end):
                    if draft[row, i] > tops[0, places - 1]:
                        _insert(tops[0], ids[0], draft[row, i], i)
            if most_target > tops[1, places - 1]:
                for i in range(begin, end):
                    if target[row, i] > tops[1, places - 1]:
                        _insert(tops[1], ids[1], target[row, i], i)
            if most_left > tops[2, places - 1]:
                for i in range(begin, end):
                    left = max(target[row, i] - draft[row, i], np.float32(0.0))
                    if left > tops[2, places - 1]:
                        _insert(tops[2], ids[2], left, i)
        facts[0, row] = draft[row, candidates[row]]
        facts[1, row] = target[row, candidates[row]]
        facts[2, row] = draft_logits[row, ids[0, 0]]
        facts[3, row] = target_logits[row, ids[1, 0]]
        facts[4, row] = draft_mean
        facts[5, row] = target_mean
        facts[6, row] = total
