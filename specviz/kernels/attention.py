"""Compute attention to cached keys and values, for the query heads that share a key head.

The new tokens follow each other (a chain) or are nodes of a tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from specviz.kernels.compiled import compiled
from specviz.kernels.dots import x_size
from specviz.kernels.product import cached_product, narrow_rows
from specviz.kernels.simd import rounded, size_of, widen
from specviz.kernels.softmax import soften


@compiled
def _weighted_mean(like: Any, weights: Any, total: Any, values: Any, out: Any) -> None:
    """Write the mean of ``values`` [position, head_width], weighted by ``weights / total``."""
    for i in range(out.shape[0]):
        out[i] = np.float32(0.0)
    whole = weights.shape[0] // 4 * 4
    for place in range(0, whole, 4):
        a, b = weights[place], weights[place + 1]
        c, d = weights[place + 2], weights[place + 3]
        for i in range(out.shape[0]):
            first = a * widen(values[place, i]) + b * widen(values[place + 1, i])
            second = c * widen(values[place + 2, i]) + d * widen(values[place + 3, i])
            out[i] += first + second
    for place in range(whole, weights.shape[0]):
        for i in range(out.shape[0]):
            out[i] += weights[place] * widen(values[place, i])
    for i in range(out.shape[0]):
        out[i] = rounded(like, out[i] / total)


@compiled
def _swap(values: Any, one: int, other: int) -> None:
    for i in range(values.shape[1]):
        values[one, i], values[other, i] = values[other, i], values[one, i]


@compiled
def _gather_path(path: Any, scores: Any, values: Any, begin: int, first: int) -> None:
    """Move the scores and values of a node and its ancestors to consecutive rows after the text.

    ``path``: the indices of these nodes. Rows can be swapped in place: indices increase along a
    path, so ``path[i] >= i``, and no swap moves a row that a later swap needs.
    """
    for place in range(path.shape[0]):
        if path[place] != place:
            scores[begin + place - first] = scores[begin + path[place] - first]
            _swap(values, begin + place, begin + path[place])


@compiled
def _restore_path(path: Any, values: Any, begin: int) -> None:
    """Move the values back to the rows from which ``_gather_path`` moved them."""
    for place in range(path.shape[0] - 1, -1, -1):
        if path[place] != place:
            _swap(values, begin + place, begin + path[place])


@compiled
def attend(
    like: Any,
    room: int,
    first_head: int,
    last_head: int,
    rows: int,
    begin: int,
    num_nodes: int,
    depths: Any,
    paths: Any,
    window: int,
    qkv: Any,
    scale: Any,
    keys: Any,
    values: Any,
    scores: Any,
    attended: Any,
) -> None:
    """Write the attention output of the heads that share ``keys``, for all new tokens.

    ``keys``, ``values``: [position, head_width]. ``room``: the address of this thread's buffer
    for queries that are converted to the type of ``keys``.
    """
    width = keys.shape[1]
    first = max(0, begin + 1 - window) if window else 0
    address = np.int64(keys.ctypes.data) + first * width * size_of(like)
    into, nothing, exact = np.int64(scores.ctypes.data), np.int64(0), np.int64(0)
    for head in range(first_head, last_head):
        queries, stride = np.int64(qkv.ctypes.data) + 4 * head * width, qkv.shape[1]
        if x_size(like) < 4:
            narrow_rows(like, queries, stride, rows, width, room)
            queries, stride = room, width
        cached_product(
            like,
            address,
            nothing,
            nothing,
            begin + num_nodes + rows - first,
            queries,
            rows,
            width,
            stride,
            into,
            scores.shape[1],
            exact,
        )
        for row in range(rows):
            last = begin + depths[row] + 1
            seen = max(0, last - window) if window else 0
            if paths.shape[0]:
                _gather_path(paths[row, : depths[row] + 1], scores[row], values, begin, first)
            weights = scores[row, seen - first : last - first]
            total = soften(weights, scale)
            place = attended[row, head * width : (head + 1) * width]
            _weighted_mean(like, weights, total, values[seen:last], place)
            if paths.shape[0]:
                _restore_path(paths[row, : depths[row] + 1], values, begin)
