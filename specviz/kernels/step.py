"""A whole step of a Llama-shaped model, for few tokens at a time.

Weights are read where the model holds them, each once for all rows. Several threads may run the
same step together: each takes its own rows of every matrix, and they meet after each. Every
number is summed by one thread in one order, so its bits depend neither on the number of threads
nor on how many tokens are fed together.

The tokens follow each other, or they are nodes of a tree, which lie in the cache behind the text in
the order they came. While a node is mixed, its ancestors' values stand in a row behind the text, so
that it is summed as if its path had been fed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from specviz.kernels.compiled import compiled, kernel
from specviz.kernels.product import product, share
from specviz.kernels.simd import at, meet, narrow, rounded, size_of, widen
from specviz.kernels.softmax import exp, soften

MOST_ROWS = 17  # tokens of one step: 16 candidates and the pending one
CHAIN, NO_PATHS = np.arange(MOST_ROWS), np.zeros((0, 0), np.int64)  # how a feed is described

# Columns of a layer's row in ``layers``: addresses, 0 where there is none, and the window.
LAYER_COLUMNS = (
    "attention_norm",
    "qkv",
    "qkv_bias",
    "query_norm",
    "key_norm",
    "output",
    "output_bias",
    "feed_forward_norm",
    "gate_up",
    "gate_up_bias",
    "down",
    "down_bias",
    "window",  # 0: all positions
)
(
    _ATTENTION_NORM,
    _QKV,
    _QKV_BIAS,
    _QUERY_NORM,
    _KEY_NORM,
    _OUTPUT,
    _OUTPUT_BIAS,
    _FEED_FORWARD_NORM,
    _GATE_UP,
    _GATE_UP_BIAS,
    _DOWN,
    _DOWN_BIAS,
    _WINDOW,
) = range(len(LAYER_COLUMNS))


@compiled
def _norm(like: Any, x: Any, weight: int, eps: Any, out: Any) -> None:
    """The root-mean-square norm of one row, rounded where the library rounds."""
    total = np.float32(0.0)
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    scale = np.float32(1.0) / math.sqrt(total / np.float32(x.shape[0]) + eps)
    for i in range(x.shape[0]):
        out[i] = rounded(like, rounded(like, x[i] * scale) * at(like, weight, i))


@compiled
def _turn(like: Any, head: Any, cos: Any, sin: Any) -> None:
    """Rotate one head to its position; the sine's first half is negative."""
    half = head.shape[0] // 2
    for i in range(half):
        low, high = head[i], head[half + i]
        head[i] = rounded(like, rounded(like, low * cos[i]) + rounded(like, high * sin[i]))
        head[half + i] = rounded(
            like, rounded(like, high * cos[half + i]) + rounded(like, low * sin[half + i])
        )


@compiled
def _mix(like: Any, weights: Any, total: Any, values: Any, out: Any) -> None:
    """out = the weighted mean of the values [position, head_width]."""
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
def _line_up(path: Any, scores: Any, values: Any, begin: int, first: int) -> None:
    """A node's path, in a row behind the text. No step moves what a later one needs: nodes of a
    path rise, so each stands at its place in the row or behind it."""
    for place in range(path.shape[0]):
        if path[place] != place:
            scores[begin + place - first] = scores[begin + path[place] - first]
            _swap(values, begin + place, begin + path[place])


@compiled
def _put_back(path: Any, values: Any, begin: int) -> None:
    for place in range(path.shape[0] - 1, -1, -1):
        if path[place] != place:
            _swap(values, begin + place, begin + path[place])


@compiled
def _attend(
    like: Any,
    first_head: int,
    last_head: int,
    rows: int,
    begin: int,
    held: int,
    depths: Any,
    paths: Any,
    window: int,
    qkv: Any,
    scale: Any,
    keys: Any,
    values: Any,
    scores: Any,
    mixed: Any,
) -> None:
    """The heads that share these keys [position, head_width], for all new tokens."""
    width = keys.shape[1]
    first = max(0, begin + 1 - window) if window else 0
    address = np.int64(keys.ctypes.data) + first * width * size_of(like)
    into, nothing, exact = np.int64(scores.ctypes.data), np.int64(0), np.int64(0)
    for head in range(first_head, last_head):
        queries = np.int64(qkv.ctypes.data) + 4 * head * width
        product(
            like,
            address,
            nothing,
            nothing,
            begin + held + rows - first,
            queries,
            rows,
            width,
            qkv.shape[1],
            into,
            scores.shape[1],
            exact,
        )
        for row in range(rows):
            last = begin + depths[row] + 1
            seen = max(0, last - window) if window else 0
            if paths.shape[0]:
                _line_up(paths[row, : depths[row] + 1], scores[row], values, begin, first)
            weights = scores[row, seen - first : last - first]
            total = soften(weights, scale)
            place = mixed[row, head * width : (head + 1) * width]
            _mix(like, weights, total, values[seen:last], place)
            if paths.shape[0]:
                _put_back(paths[row, : depths[row] + 1], values, begin)


@compiled
def _add(like: Any, x: Any, added: Any, rows: int, first: int, last: int) -> None:
    for row in range(rows):
        for i in range(first, last):
            x[row, i] = rounded(like, x[row, i] + added[row, i])


@kernel
def step(
    thread: int,
    threads: int,
    meeting: Any,  # int64 [1], nought at the start
    token_ids: Any,  # int64 [rows]
    begin: int,  # tokens of the text in the cache
    held: int,  # nodes behind them; nought for a feed
    depths: Any,  # int64 [rows]: positions behind the text; in a feed 0, 1, 2 and so on
    paths: Any,  # int64 [rows, deepest + 1]: nodes from the text on to each; in a feed empty
    layers: Any,  # int64 [layer, LAYER_COLUMNS]
    outer: Any,  # int64: addresses of the embedding, the norm, the head, its bias
    eps: Any,  # float32 [2]: of the norms of the stream, and of the heads
    scale: Any,  # float32, of the scores
    keys: Any,  # stored type [layer, key_head, position, head_width]
    values: Any,
    cos: Any,  # float32 [position, head_width]
    sin: Any,
    x: Any,  # float32 [rows, width]
    normed: Any,  # float32 [threads, rows, width]
    qkv: Any,  # float32 [rows, (heads + 2 * key_heads) * head_width]
    mixed: Any,  # float32 [rows, heads * head_width]
    scores: Any,  # float32 [threads, rows, capacity]
    inner: Any,  # float32 [rows, 2 * feed_forward]
    added: Any,  # float32 [rows, width]
    logits: Any,  # float32 [num_logits, vocabulary]
    hidden: Any,  # float32 [num_hidden, width]
) -> None:
    """Feed tokens or append nodes: write their keys and values, and hidden states and logits of the
    last ones."""
    like = keys[0, 0, 0, 0]
    rows, width = token_ids.shape[0], x.shape[1]
    key_heads, head_width = keys.shape[1], keys.shape[3]
    joined, query_width, feed_forward = qkv.shape[1], mixed.shape[1], inner.shape[1] // 2
    heads = query_width // head_width
    shared = heads // key_heads
    own = normed[thread]
    own_place, qkv_place = np.int64(own.ctypes.data), np.int64(qkv.ctypes.data)
    mixed_place, inner_place = np.int64(mixed.ctypes.data), np.int64(inner.ctypes.data)
    added_place = np.int64(added.ctypes.data)
    counter, met, rounds = np.int64(meeting.ctypes.data), threads, np.int64(1)
    first_column, last_column = share(width, thread, threads)
    first_joined, last_joined = share(joined, thread, threads)
    first_unit, last_unit = share(feed_forward, thread, threads)
    first_group, last_group = key_heads * thread // threads, key_heads * (thread + 1) // threads
    for row in range(rows):
        for i in range(first_column, last_column):
            x[row, i] = at(like, outer[0], token_ids[row] * width + i)
    meet(counter, met)
    for layer in range(layers.shape[0]):
        entry = layers[layer]
        for row in range(rows):
            _norm(like, x[row], entry[_ATTENTION_NORM], eps[0], own[row])
        product(
            like,
            entry[_QKV],
            entry[_QKV_BIAS],
            first_joined,
            last_joined,
            own_place,
            rows,
            width,
            width,
            qkv_place,
            joined,
            rounds,
        )
        met += threads
        meet(counter, met)
        for group in range(first_group, last_group):
            for row in range(rows):
                for head in range(group * shared, (group + 1) * shared):
                    query = qkv[row, head * head_width : (head + 1) * head_width]
                    if entry[_QUERY_NORM]:
                        _norm(like, query, entry[_QUERY_NORM], eps[1], query)
                    _turn(like, query, cos[begin + depths[row]], sin[begin + depths[row]])
                at_key = (heads + group) * head_width
                key = qkv[row, at_key : at_key + head_width]
                if entry[_KEY_NORM]:
                    _norm(like, key, entry[_KEY_NORM], eps[1], key)
                _turn(like, key, cos[begin + depths[row]], sin[begin + depths[row]])
                at_value = at_key + key_heads * head_width
                for i in range(head_width):
                    keys[layer, group, begin + held + row, i] = narrow(like, key[i])
                    values[layer, group, begin + held + row, i] = narrow(
                        like, qkv[row, at_value + i]
                    )
            _attend(
                like,
                group * shared,
                (group + 1) * shared,
                rows,
                begin,
                held,
                depths,
                paths,
                entry[_WINDOW],
                qkv,
                scale,
                keys[layer, group],
                values[layer, group],
                scores[thread],
                mixed,
            )
        met += threads
        meet(counter, met)
        product(
            like,
            entry[_OUTPUT],
            entry[_OUTPUT_BIAS],
            first_column,
            last_column,
            mixed_place,
            rows,
            query_width,
            query_width,
            added_place,
            width,
            rounds,
        )
        _add(like, x, added, rows, first_column, last_column)
        met += threads
        meet(counter, met)
        for row in range(rows):
            _norm(like, x[row], entry[_FEED_FORWARD_NORM], eps[0], own[row])
        for half in range(0, 2 * feed_forward, feed_forward):
            product(
                like,
                entry[_GATE_UP],
                entry[_GATE_UP_BIAS],
                half + first_unit,
                half + last_unit,
                own_place,
                rows,
                width,
                width,
                inner_place,
                2 * feed_forward,
                rounds,
            )
        for row in range(rows):
            for i in range(first_unit, last_unit):
                gate = inner[row, i]
                gate = rounded(like, gate / (np.float32(1.0) + exp(-gate)))
                inner[row, i] = rounded(like, gate * inner[row, feed_forward + i])
        met += threads
        meet(counter, met)
        product(
            like,
            entry[_DOWN],
            entry[_DOWN_BIAS],
            first_column,
            last_column,
            inner_place,
            rows,
            feed_forward,
            2 * feed_forward,
            added_place,
            width,
            rounds,
        )
        _add(like, x, added, rows, first_column, last_column)
        met += threads
        meet(counter, met)
    kept = hidden.shape[0]
    for row in range(kept):
        _norm(like, x[rows - kept + row], outer[1], eps[0], own[row])
        if thread == 0:
            for i in range(width):
                hidden[row, i] = own[row, i]
    if logits.shape[0]:
        first, last = share(logits.shape[1], thread, threads)
        into = np.int64(logits.ctypes.data)
        product(
            like,
            outer[2],
            outer[3],
            first,
            last,
            own_place,
            kept,
            width,
            width,
            into,
            logits.shape[1],
            rounds,
        )
