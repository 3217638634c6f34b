"""A whole step of a Llama-shaped model, for few tokens of one or several sequences.

Each weight is read once for up to six tokens, from the model's memory or from a copy in tiles.
Several threads may run one step together: a thread computes a share of every matrix product, then
waits at a barrier. Each sum is computed by a single thread, in a fixed order, so the bits of a
result depend neither on the number of threads nor on which other tokens are fed in the same step.

Each sequence attends to its own cache; all other work is done for the rows of all sequences at
once. A sequence's tokens follow each other (a chain) or, in a step of one sequence, are nodes of a
tree. The cache contains the nodes after the text, in the order in which they were added. To compute
a node's attention, the kernel moves the cached values on the node's path to consecutive rows after
the text. Afterwards, it moves the values back. So the result is the same as if only this path had
been fed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from specviz.kernels.attention import attend
from specviz.kernels.compiled import compiled, kernel
from specviz.kernels.packed import converted_rows, embed, matrix_product
from specviz.kernels.product import share
from specviz.kernels.simd import at, barrier, narrow, rounded
from specviz.kernels.softmax import exp

MOST_ROWS = 17  # tokens per sequence: 16 candidates and the pending token
CHAIN, NO_PATHS = (
    np.arange(MOST_ROWS),
    np.zeros((0, 0), np.int64),
)  # ``depths`` and ``paths`` of a chain

# Columns of ``layers``: addresses (0 if absent), and the attention window. With quantised weights,
# the address of a matrix is that of its table of parts. If the last value of ``outer`` is 1, all
# matrices but the embedding are stored in tiles.
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
    """Write the RMSNorm of one row to ``out``, rounded where transformers rounds."""
    total = np.float32(0.0)
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    scale = np.float32(1.0) / math.sqrt(total / np.float32(x.shape[0]) + eps)
    for i in range(x.shape[0]):
        out[i] = rounded(like, rounded(like, x[i] * scale) * at(like, weight, i))


@compiled
def _rotate(like: Any, head: Any, cos: Any, sin: Any) -> None:
    """Apply the rotary embedding to one head, in place; the first half of ``sin`` is negated."""
    half = head.shape[0] // 2
    for i in range(half):
        low, high = head[i], head[half + i]
        head[i] = rounded(like, rounded(like, low * cos[i]) + rounded(like, high * sin[i]))
        head[half + i] = rounded(
            like, rounded(like, high * cos[half + i]) + rounded(like, low * sin[half + i])
        )


@compiled
def _add(like: Any, x: Any, added: Any, rows: int, first: int, last: int) -> None:
    for row in range(rows):
        for i in range(first, last):
            x[row, i] = rounded(like, x[row, i] + added[row, i])


@compiled
def _keep(x: Any, rows: Any, first: int, last: int, places: Any, place: int, hidden: Any) -> None:
    """Copy these rows of x to ``hidden`` if the hidden states of layer ``place`` are requested.

    ``places``: the layers whose hidden states are requested. Only columns ``first`` to ``last``
    are copied.
    """
    for number in range(places.shape[0]):
        if places[number] == place:
            for row in range(hidden.shape[0]):
                for i in range(first, last):
                    hidden[row, number * x.shape[1] + i] = x[rows[row], i]


@kernel
def step(
    thread: int,
    threads: int,
    barrier_counter: Any,  # int64 [1], starts at 0
    token_ids: Any,  # int64 [rows]
    sequences: Any,  # int64 [sequence, 4]: first row, rows, tokens of the text in cache, cache
    outputs: Any,  # int64 [num_hidden]: rows whose hidden states are kept
    num_nodes: int,  # tree nodes in the cache after the text; 0 for a chain
    depths: Any,  # int64: positions of a sequence's tokens from its end; 0, 1, 2, … for a chain
    paths: Any,  # int64 [rows, max_depth + 1]: path to each node; empty for a chain
    layers: Any,  # int64 [layer, LAYER_COLUMNS]
    outer: Any,  # int64: addresses of embedding, final norm, head, head bias; 1 if tiled, else 0
    eps: Any,  # float32 [2]: for the residual stream's norms and the heads' norms
    scale: Any,  # float32, multiplies the scores
    keys: Any,  # stored type [cache, layer, key_head, position, head_width]
    values: Any,
    cos: Any,  # float32 [position, head_width]
    sin: Any,
    x: Any,  # float32 [rows, width]
    normed: Any,  # float32 [threads, rows, width]
    qkv: Any,  # float32 [rows, (heads + 2 * key_heads) * head_width]
    attended: Any,  # float32 [rows, heads * head_width]
    scores: Any,  # float32 [threads, rows, capacity]
    inner: Any,  # float32 [rows, 2 * feed_forward]
    added: Any,  # float32 [rows, width]
    logits: Any,  # float32 [num_logits, vocabulary]
    places: Any,  # int64: layers before which hidden states are kept; -1: after the norm
    hidden: Any,  # float32 [num_hidden, width * len(places)]
    room: Any,  # uint8 [threads, byte]: for converted activations; None if products read float32
) -> None:
    """Feed the next tokens of one or several sequences, or append nodes to a tree.

    Writes the tokens' keys and values, the hidden states of the rows ``outputs``, and logits. If
    ``logits`` has fewer rows than ``outputs``, they belong to the last of ``outputs``.
    """
    like, tiled = keys[0, 0, 0, 0, 0], outer[4]
    rows, width = token_ids.shape[0], x.shape[1]
    key_heads, head_width = keys.shape[2], keys.shape[4]
    joined, query_width, feed_forward = qkv.shape[1], attended.shape[1], inner.shape[1] // 2
    heads = query_width // head_width
    shared = heads // key_heads
    own = normed[thread]
    own_place, qkv_place = np.int64(own.ctypes.data), np.int64(qkv.ctypes.data)
    attended_place, inner_place = np.int64(attended.ctypes.data), np.int64(inner.ctypes.data)
    added_place = np.int64(added.ctypes.data)
    counter, arrivals = np.int64(barrier_counter.ctypes.data), threads
    first_column, last_column = share(width, thread, threads)
    first_joined, last_joined = share(joined, thread, threads)
    first_unit, last_unit = share(feed_forward, thread, threads)
    tasks = sequences.shape[0] * key_heads
    first_task, last_task = tasks * thread // threads, tasks * (thread + 1) // threads
    for row in range(rows):
        embed(like, room, outer[0], token_ids[row], x[row], first_column, last_column)
    barrier(counter, arrivals)
    kept = hidden.shape[0]
    for layer in range(layers.shape[0]):
        _keep(x, outputs, first_column, last_column, places, layer, hidden)
        entry = layers[layer]
        for row in range(rows):
            _norm(like, x[row], entry[_ATTENTION_NORM], eps[0], own[row])
        converted = converted_rows(like, room, thread, own_place, rows, width, width)
        matrix_product(
            like,
            room,
            converted,
            tiled,
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
        )
        arrivals += threads
        barrier(counter, arrivals)
        for task in range(first_task, last_task):
            group, sequence = task % key_heads, sequences[task // key_heads]
            first_row, count, begin, cache = sequence[0], sequence[1], sequence[2], sequence[3]
            own_qkv = qkv[first_row : first_row + count]
            for row in range(count):
                place = begin + depths[row]
                for head in range(group * shared, (group + 1) * shared):
                    query = own_qkv[row, head * head_width : (head + 1) * head_width]
                    if entry[_QUERY_NORM]:
                        _norm(like, query, entry[_QUERY_NORM], eps[1], query)
                    _rotate(like, query, cos[place], sin[place])
                at_key = (heads + group) * head_width
                key = own_qkv[row, at_key : at_key + head_width]
                if entry[_KEY_NORM]:
                    _norm(like, key, entry[_KEY_NORM], eps[1], key)
                _rotate(like, key, cos[place], sin[place])
                at_value = at_key + key_heads * head_width
                for i in range(head_width):
                    keys[cache, layer, group, begin + num_nodes + row, i] = narrow(like, key[i])
                    values[cache, layer, group, begin + num_nodes + row, i] = narrow(
                        like, own_qkv[row, at_value + i]
                    )
            attend(
                like,
                converted,
                group * shared,
                (group + 1) * shared,
                count,
                begin,
                num_nodes,
                depths,
                paths,
                entry[_WINDOW],
                own_qkv,
                scale,
                keys[cache, layer, group],
                values[cache, layer, group],
                scores[thread],
                attended[first_row : first_row + count],
            )
        arrivals += threads
        barrier(counter, arrivals)
        converted = converted_rows(
            like, room, thread, attended_place, rows, query_width, query_width
        )
        matrix_product(
            like,
            room,
            converted,
            tiled,
            entry[_OUTPUT],
            entry[_OUTPUT_BIAS],
            first_column,
            last_column,
            attended_place,
            rows,
            query_width,
            query_width,
            added_place,
            width,
        )
        _add(like, x, added, rows, first_column, last_column)
        arrivals += threads
        barrier(counter, arrivals)
        for row in range(rows):
            _norm(like, x[row], entry[_FEED_FORWARD_NORM], eps[0], own[row])
        converted = converted_rows(like, room, thread, own_place, rows, width, width)
        for half in range(0, 2 * feed_forward, feed_forward):
            matrix_product(
                like,
                room,
                converted,
                tiled,
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
            )
        for row in range(rows):
            for i in range(first_unit, last_unit):
                gate = inner[row, i]
                gate = rounded(like, gate / (np.float32(1.0) + exp(-gate)))
                inner[row, i] = rounded(like, gate * inner[row, feed_forward + i])
        arrivals += threads
        barrier(counter, arrivals)
        converted = converted_rows(
            like, room, thread, inner_place, rows, feed_forward, 2 * feed_forward
        )
        matrix_product(
            like,
            room,
            converted,
            tiled,
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
        )
        _add(like, x, added, rows, first_column, last_column)
        arrivals += threads
        barrier(counter, arrivals)
    _keep(x, outputs, first_column, last_column, places, layers.shape[0], hidden)
    for row in range(kept):
        _norm(like, x[outputs[row]], outer[1], eps[0], own[row])
    _keep(own, np.arange(kept), first_column, last_column, places, -1, hidden)
    if logits.shape[0]:
        own_place += 4 * width * (kept - logits.shape[0])
        first, last = share(logits.shape[1], thread, threads)
        into = np.int64(logits.ctypes.data)
        converted = converted_rows(like, room, thread, own_place, logits.shape[0], width, width)
        matrix_product(
            like,
            room,
            converted,
            tiled,
            outer[2],
            outer[3],
            first,
            last,
            own_place,
            logits.shape[0],
            width,
            width,
            into,
            logits.shape[1],
        )
