"""Draw tokens from distributions, and judge a chain of candidates by the lossless rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from specviz.kernels.compiled import compiled, compiled_in_order, kernel
from specviz.kernels.simd import larger

_BLOCK = 64  # weights that are summed before the search for the drawn token


@compiled
def _sum(weights: Any) -> Any:
    total = 0.0
    for i in range(weights.shape[0]):
        total += np.float64(weights[i])
    return total


@compiled_in_order
def _draw(weights: Any, uniform: Any) -> Any:
    """Return the first index at which the cumulative weight exceeds ``uniform`` * the total.

    Sums are in double precision. ``uniform`` is below 1, so a weight of 0 is never drawn, unless
    all weights are 0; then the last index is returned.
    """
    size = weights.shape[0]
    sums = np.empty((size + _BLOCK - 1) // _BLOCK)
    total = 0.0
    for block in range(sums.shape[0]):
        sums[block] = _sum(weights[block * _BLOCK : (block + 1) * _BLOCK])
        total += sums[block]
    level, before = uniform * total, 0.0
    for block in range(sums.shape[0]):
        if before + sums[block] > level:
            begin = block * _BLOCK
            last = begin
            for i in range(begin, min(begin + _BLOCK, size)):
                before += np.float64(weights[i])
                if weights[i] > np.float32(0.0):
                    last = i
                    if before > level:
                        break
            return last  # if rounding keeps the sum below the level, the last weight above 0
        before += sums[block]
    return size - 1


@compiled
def _likeliest(weights: Any) -> Any:
    """Return the index of the largest weight, the first one if several are equal."""
    highest = weights[0]
    for i in range(weights.shape[0]):
        highest = larger(highest, weights[i])
    for i in range(weights.shape[0]):
        if weights[i] == highest:
            return i
    return 0


@compiled
def _overlap(draft: Any, target: Any) -> Any:
    total = 0.0
    for i in range(draft.shape[0]):
        total += np.float64(min(draft[i], target[i]))
    return total


@compiled
def _residual(draft: Any, target: Any, out: Any) -> Any:
    """Write max(0, target - draft) to ``out``; return whether any entry is above 0."""
    highest = np.float32(0.0)
    for i in range(draft.shape[0]):
        out[i] = larger(target[i] - draft[i], np.float32(0.0))
        highest = larger(highest, out[i])
    return highest > np.float32(0.0)


@kernel
def draw_rows(
    probs: Any,  # float32 [row, vocabulary]
    uniforms: Any,  # float32 [row]
    token_ids: Any,  # int64 [row]
) -> None:
    """Draw a token from each distribution."""
    for row in range(probs.shape[0]):
        token_ids[row] = _draw(probs[row], np.float64(uniforms[row]))


@kernel
def judge_chain(
    draft: Any,  # float32 [count, vocabulary]
    target: Any,  # float32 [count + 1, vocabulary]
    candidates: Any,  # int64 [count]
    uniforms: Any,  # float32 [count]
    last_uniform: Any,
    greedy: Any,
    values: Any,  # float64 [4 * count + 4]
) -> None:
    """Judge candidates up to the first rejection, and draw the token after the accepted ones.

    ``greedy``: choose the likeliest token instead of drawing the last one. ``values`` receives:

    * ``[:count]``: the candidates' token ids.
    * ``[count : 2 * count]`` and ``[2 * count : 3 * count]``: their draft and target probabilities.
    * ``[3 * count : 4 * count]``: the overlap of both distributions at each position.
    * ``[4 * count]``: the number of accepted candidates.
    * ``[4 * count + 1]``: the id of the last token.
    * ``[4 * count + 2 :]``: its draft probability (without candidates, its target probability) and
      its target probability.
    """
    count, size = candidates.shape[0], target.shape[1]
    accepted = count
    for i in range(count):
        token = candidates[i]
        p, q = draft[i, token], target[i, token]
        values[i] = token
        values[count + i] = p
        values[2 * count + i] = q
        values[3 * count + i] = _overlap(draft[i], target[i])
        passes = np.float64(uniforms[i]) * np.float64(p) < np.float64(q)
        if accepted == count and not passes:
            accepted = i
    row = target[accepted]
    if accepted < count:
        residual = np.empty(size, np.float32)
        if _residual(draft[accepted], target[accepted], residual):
            row = residual
    extra = _likeliest(row) if greedy else _draw(row, last_uniform)
    values[4 * count] = accepted
    values[4 * count + 1] = extra
    values[4 * count + 2] = draft[min(accepted, count - 1), extra] if count else target[0, extra]
    values[4 * count + 3] = target[accepted, extra]
