"""The lean step, specviz's own forward pass, for a few tokens on a CPU: one call of compiled code.

The code reads the lean weights, or copies of them in tiles, and writes to the same caches as the
torch code, so each pass may use the compiled code or torch. One call feeds one sequence or several
sequences; every sequence has a separate cache. The buffers have room for ``MOST_ROWS`` tokens of
each sequence, so a larger tree is appended in parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from specviz.engine.model.tensors import address, array, kernel_readable, type_name
from specviz.engine.model.tiles import can_tile_all, tiles_of
from specviz.engine.model.trees import OpenNodes
from specviz.kernels.arrays import scratch
from specviz.kernels.packed import make_room
from specviz.kernels.readiness import ready
from specviz.kernels.step import CHAIN, LAYER_COLUMNS, MOST_ROWS, NO_PATHS, step
from specviz.kernels.threads import run_in_parallel
from specviz.values import Value

_MATRICES = ("qkv", "output", "gate_up", "down")  # of a layer
_HEAD = 2  # place of the output matrix among the outer weights


class CompiledWeights(Value, eq=False):
    """A model's shape and the addresses of its weights.

    ``LeanWeights`` and ``tiles`` keep the weights in memory. Tiles are copies, so later changes of
    the model's own matrices have no effect on them.

    For a packed (quantised) matrix, the address points to the table in the matrix's
    ``PackedProduct``.
    """

    layers: np.ndarray  # int64 [layer, len(LAYER_COLUMNS)]
    outer: np.ndarray  # int64: addresses of embedding, norm, head, head bias; 1 if tiled, else 0
    tiles: tuple[torch.Tensor, ...]  # empty if the kernels read the matrices in place
    eps: float  # of the residual stream's norms
    head_eps: float  # of the norms of queries and keys
    width: int
    heads: int
    key_heads: int
    head_width: int
    feed_forward: int
    packed: bool  # whether the matrices are quantised

    @staticmethod
    def of(
        layers: Iterable[dict[str, torch.Tensor | int | None]],
        outer: Iterable[torch.Tensor | int | None],
        **shape: Any,
    ) -> CompiledWeights | None:
        """Return the weights' addresses; None if kernels cannot run or cannot read the weights."""
        rows, ends = list(layers), list(outer)
        tensors = [each for row in (*(each.values() for each in rows), ends) for each in row]
        present = [each for each in tensors if isinstance(each, torch.Tensor)]
        dtype = present[0].dtype
        if not all(kernel_readable(each) and each.dtype == dtype for each in present):
            return None
        if not ready(type_name(dtype)):
            return None
        tiles = _tiles(rows, ends, shape["feed_forward"])
        return CompiledWeights(
            layers=np.array(
                [[_number(row.get(name)) for name in LAYER_COLUMNS] for row in rows], np.int64
            ),
            outer=np.array([*(_number(each) for each in ends), bool(tiles)], np.int64),
            tiles=tiles,
            **shape,
        )


def _tiles(
    layers: list[dict[str, torch.Tensor | int | None]],
    outer: list[torch.Tensor | int | None],
    feed_forward: int,
) -> tuple[torch.Tensor, ...]:
    """Replace all matrices but the embedding by copies in tiles, and return the copies.

    If this model gets no tiles, the result is empty.
    """
    places = [(layer, name) for layer in layers for name in _MATRICES]
    matrices = [*(layer[name] for layer, name in places), outer[_HEAD]]
    tensors = [each for each in matrices if isinstance(each, torch.Tensor)]
    if len(tensors) < len(matrices) or not can_tile_all(tensors, feed_forward):
        return ()
    tiles = tuple(tiles_of(each) for each in tensors)
    for (layer, name), each in zip(places, tiles, strict=False):
        layer[name] = each
    outer[_HEAD] = tiles[-1]
    return tiles


def _number(value: torch.Tensor | int | None) -> int:
    return value if isinstance(value, int) else address(value)


# The positions of a sequence's new tokens: how many nodes come before the first new token, then the
# depth and the path of each new token.
_Positions: TypeAlias = tuple[int, np.ndarray, np.ndarray]
_CHAIN: _Positions = (0, CHAIN, NO_PATHS)


class Rows(Value):
    """The rows of one sequence in a pass: ``count`` tokens from position ``begin`` on.

    ``outputs``: the rows whose logits are returned, counted from the sequence's first row.
    """

    cache: int  # which of the caches is the sequence's
    begin: int
    count: int
    outputs: range


def _node_positions(nodes: OpenNodes, num_nodes: int, count: int) -> _Positions:
    newest = nodes.paths[num_nodes : num_nodes + count]
    depths = np.array([len(path) - 1 for path in newest])
    paths = np.zeros((count, int(depths.max()) + 1), np.int64)
    for row, path in zip(paths, newest, strict=True):
        row[: len(path)] = path
    return num_nodes, depths, paths


class CompiledStep:
    """The compiled code's caches and buffers, for one lean step or for several steps at once."""

    def __init__(
        self,
        weights: CompiledWeights,
        keys: torch.Tensor,  # [cache, layer, key_head, position, head_width]
        values: torch.Tensor,
        cos: torch.Tensor,  # [position, head_width]
        sin: torch.Tensor,
    ) -> None:
        self._weights = weights
        self._dtype = keys.dtype
        self._caches = (array(keys), array(values))
        self._rotations = (cos.float().numpy(), sin.float().numpy())
        eps = np.array([weights.eps, weights.head_eps], np.float32)
        self._numbers = (eps, np.float32(weights.head_width**-0.5))
        self._barrier = np.zeros(1, np.int64)
        self._threads = 0
        self._buffers: tuple[np.ndarray, ...] = ()
        self._room: np.ndarray | None = None  # for converted activations
        self._most_rows = MOST_ROWS * len(self._caches[0])

    def feed(
        self,
        token_ids: torch.Tensor,
        begin: int,
        num_logits: int,
        vocabulary: int,
        kept: int,
        places: np.ndarray,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Feed tokens of one sequence from position ``begin`` on; return logits and hidden states.

        The logits, float32 `[num_logits, vocabulary]`, belong to the last tokens. The hidden states
        belong to the last ``kept`` tokens; ``places`` selects the layers.
        """
        sequences, outputs = _one_sequence(begin, len(token_ids), kept)
        return self._run(token_ids, sequences, outputs, _CHAIN, num_logits, vocabulary, places)

    def feed_rows(
        self, token_ids: torch.Tensor, rows: Sequence[Rows], vocabulary: int, places: np.ndarray
    ) -> torch.Tensor:
        """Feed the tokens of several sequences in one pass.

        Args:
            token_ids: The tokens of all sequences, in the order of ``rows``.

        Returns:
            The logits float32 `[num_outputs, vocabulary]`, in the order of ``rows``.
        """
        first, sequences, outputs = 0, list[tuple[int, ...]](), list[int]()
        for each in rows:
            sequences.append((first, each.count, each.begin, each.cache))
            outputs += (first + row for row in each.outputs)
            first += each.count
        given = np.array(sequences, np.int64), np.array(outputs, np.int64)
        return self._run(token_ids, *given, _CHAIN, len(outputs), vocabulary, places)[0]

    def branch(
        self,
        token_ids: torch.Tensor,
        begin: int,
        nodes: OpenNodes,
        vocabulary: int,
        places: np.ndarray,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Feed the newest nodes of a tree; return their logits and hidden states.

        ``token_ids``: the tokens of the newest nodes. ``nodes``: all nodes, including the newest.
        ``begin``: the length of the text before the tree.
        """
        num_nodes, parts = len(nodes) - token_ids.shape[0], []
        for part in token_ids.split(MOST_ROWS):
            count = len(part)
            positions = _node_positions(nodes, num_nodes, count)
            sequences, outputs = _one_sequence(begin, count, count)
            parts.append(self._run(part, sequences, outputs, positions, count, vocabulary, places))
            num_nodes += count
        logits, hidden = zip(*parts, strict=True)
        return torch.cat(logits), torch.cat(hidden)

    def _run(
        self,
        token_ids: torch.Tensor,
        sequences: np.ndarray,
        outputs: np.ndarray,
        positions: _Positions,
        num_logits: int,
        vocabulary: int,
        places: np.ndarray,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        threads = torch.get_num_threads()
        if threads != self._threads:
            self._buffers = self._make_buffers(threads)
            self._room = self._make_room(threads)
            self._threads = threads
        weights = self._weights
        logits = torch.empty(num_logits, vocabulary)
        hidden = torch.empty(len(outputs), len(places) * weights.width)
        self._barrier[0] = 0
        shared = (
            self._barrier,
            token_ids.numpy(),
            sequences,
            outputs,
            *positions,
            weights.layers,
            weights.outer,
            *self._numbers,
            *self._caches,
            *self._rotations,
            *self._buffers,
            logits.numpy(),
            places,
            hidden.numpy(),
            self._room,
        )
        run_in_parallel(threads, lambda thread: step(thread, threads, *shared))
        return logits, hidden if self._dtype == torch.float32 else hidden.to(self._dtype)

    def _make_buffers(self, threads: int) -> tuple[np.ndarray, ...]:
        weights, rows = self._weights, self._most_rows
        query_width = weights.heads * weights.head_width
        key_width = weights.key_heads * weights.head_width
        capacity = self._caches[0].shape[3]
        return (
            scratch(rows, weights.width),
            scratch(threads, rows, weights.width),
            scratch(rows, query_width + 2 * key_width),
            scratch(rows, query_width),
            scratch(threads, MOST_ROWS, capacity),
            scratch(rows, 2 * weights.feed_forward),
            scratch(rows, weights.width),
        )

    def _make_room(self, threads: int) -> np.ndarray | None:
        weights = self._weights
        widest = max(weights.width, weights.heads * weights.head_width, weights.feed_forward)
        dtype = type_name(self._dtype)
        return make_room(dtype, threads, self._most_rows, widest, packed=weights.packed)


def _one_sequence(begin: int, count: int, kept: int) -> tuple[np.ndarray, np.ndarray]:
    """Describe a pass over one sequence: its rows, and the indices of the last ``kept`` rows."""
    return np.array([[0, count, begin, 0]], np.int64), np.arange(count - kept, count)
