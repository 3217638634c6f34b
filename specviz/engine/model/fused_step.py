"""A static step whose passes of few tokens run as Triton kernels (see ``fused_products.py``)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from specviz.engine.model.static_step import StaticStep
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine.model.lean_weights import LeanLayer, LeanWeights, Norm
    from specviz.engine.model.product import Product

_FEW = 2  # rows that are multiplied without matrix units
_MOST_QUERIES = 64  # rows times query heads per key head
_FEW_QUERIES = 4  # the same product; up to it, attention uses no matrix units
_FEW_VALUES = 1 << 14  # values of keys per program of attention without matrix units
_SPLIT = 4  # the most programs that share a tile
_LEAST_SPLIT = 512  # values of a row per program, if several programs share a tile
_ENDLESS = 1 << 30  # the window of a layer without one


class _Tile(Value):
    """Settings of a Triton program.

    The program loads weights block by block; ``wide`` and ``deep`` are the size of a block.
    """

    wide: int  # rows
    deep: int  # columns
    warps: int = 4
    stages: int = 1


_FEW_TILE = _Tile(wide=4, deep=512)
_MANY_TILE = _Tile(wide=64, deep=128, stages=3)


def _power(number: int) -> int:
    """Return the least power of two that is not below ``number``."""
    return 1 << (number - 1).bit_length()


def can_fuse(weights: LeanWeights) -> bool:
    """Return whether the kernels support a model and its device: bfloat16 on a GPU with Triton."""
    like = weights.embedding
    width, group = weights.head_width, weights.heads // weights.key_heads
    return (
        like.dtype == torch.bfloat16
        and like.device.type == "cuda"
        and has_triton()
        and width == _power(width)
        and 16 <= width <= 128
        and group <= 8
        and weights.heads % weights.key_heads == 0
    )


def has_triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


class FusedStep(StaticStep):
    """A static step with Triton kernels for passes of few tokens.

    Passes of more tokens run as in ``StaticStep``.
    """

    def __init__(self, weights: LeanWeights, vocabulary: int, rows: int) -> None:
        super().__init__(weights, vocabulary, rows)
        from specviz.engine.model import fused_attention, fused_products

        like = weights.embedding
        self._attention, self._products = fused_attention, fused_products
        new, width = like.new_zeros, like.shape[1]
        most = _MOST_QUERIES // (weights.heads // weights.key_heads)
        on_gpu = like.device.type == "cuda"
        self._processors = _processors(like.device) if on_gpu else 4
        chained = on_gpu and torch.cuda.get_device_capability(like.device) >= (9, 0)
        self._launch: dict[str, Any] = {"CHAINED": chained} | (
            {"launch_pdl": True} if chained else {}
        )
        self._stream, self._scaled = new(most, width), new(most, width)
        self._mixed = new(most, weights.layers[0].qkv.weight.shape[0])
        self._attended = new(most, weights.heads * weights.head_width)
        self._hidden = new(most, weights.layers[0].down.weight.shape[1])
        exact = partial(torch.zeros, device=like.device)
        self._squares = exact(most, _power(-(-width // _FEW_TILE.wide)))
        tiles = self._processors * _SPLIT
        self._parts = exact(tiles, _MANY_TILE.wide, _power(max(16, most)))
        self._arrived = new(max(tiles, weights.key_heads), dtype=torch.int32)
        parts = weights.key_heads * -(-(rows + 1) // _chunk(weights, few=False)) * _MOST_QUERIES
        self._means, self._sums = exact(parts, weights.head_width), exact(parts, 2)

    def feed_at(
        self, token_ids: torch.Tensor, first: torch.Tensor, seen: int, num_logits: int
    ) -> torch.Tensor:
        if token_ids.shape[0] > self._stream.shape[0]:
            return super().feed_at(token_ids, first, seen, num_logits)
        with _current(self._stream.device):
            return self._feed_few(token_ids, first, seen, num_logits)

    def _feed_few(
        self, token_ids: torch.Tensor, first: torch.Tensor, seen: int, num_logits: int
    ) -> torch.Tensor:
        weights, count, layers = self._weights, token_ids.shape[0], self._weights.layers
        norms = [*(layer.attention_norm for layer in layers), weights.norm]
        self._embed(token_ids, norms[0])
        for number, layer in enumerate(layers):
            self._multiply(count, self._scaled, layer.qkv, self._mixed, normed=norms[number])
            self._attend_at(count, number, first, seen)
            self._multiply(count, self._attended, layer.output, added=layer.feed_forward_norm)
            self._multiply(
                count, self._scaled, layer.gate_up, self._hidden,
                normed=layer.feed_forward_norm, gated=True,
            )  # fmt: skip
            self._multiply(count, self._hidden, layer.down, added=norms[number + 1])
        logits = torch.empty(count, self._vocabulary, device=token_ids.device)
        self._multiply(
            count, self._scaled, weights.head, logits, normed=weights.norm, skip=count - num_logits
        )
        return logits[count - num_logits :]

    def _embed(self, token_ids: torch.Tensor, norm: Norm) -> None:
        count, width = token_ids.shape[0], self._stream.shape[1]
        tile = _FEW_TILE if count <= _FEW else _MANY_TILE
        squares = self._squares_of(count)
        self._products.embed[count, squares.shape[1]](
            token_ids.contiguous(), self._weights.embedding, norm.weight,
            self._stream, self._scaled, squares, width,
            WIDE=tile.wide, TILES=squares.shape[1], num_warps=1, **self._launch,
        )  # fmt: skip

    def _squares_of(self, count: int) -> torch.Tensor:
        """Return the buffer `[rows, tiles]` for sums of squares in a pass of ``count`` tokens."""
        if count <= _FEW:
            return self._squares
        tiles = _power(-(-self._stream.shape[1] // _MANY_TILE.wide))
        return self._squares.view(-1)[: self._stream.shape[0] * tiles].view(-1, tiles)

    def _multiply(
        self,
        count: int,
        rows: torch.Tensor,
        product: Product,
        out: torch.Tensor | None = None,
        *,
        normed: Norm | None = None,
        added: Norm | None = None,
        gated: bool = False,
        skip: int = 0,
    ) -> None:
        """Multiply the rows from ``skip`` to ``count`` by a matrix.

        Write the result to ``out``. Without ``out``, add the result to the residual stream.

        Args:
            normed: The norm of the input, if the input is normalised.
            added: The norm that reads the residual stream next, if the result is added to it.
        """
        few, squares = count <= _FEW, self._squares_of(count)[skip:]
        tile = _FEW_TILE if few else _MANY_TILE
        weight, bias = product.weight, product.bias
        size, depth = weight.shape[0] // (2 if gated else 1), weight.shape[1]
        if out is not None:
            size = min(size, out.shape[1])
        tiles = -(-size // (tile.wide // 2 if gated else tile.wide))
        given = (
            rows[skip:], squares, weight, weight if bias is None else bias,
            self._stream if out is None else out[skip:],
            weight if added is None else added.weight, self._stream, self._scaled, squares,
        )  # fmt: skip
        sizes = (size, depth, 0.0 if normed is None else normed.eps)
        kind: dict[str, Any] = {
            "ROWS": count - skip, "WIDE": tile.wide, "DEEP": tile.deep, "SQUARES": squares.shape[1],
            "NORMED": normed is not None, "BIASED": bias is not None, "GATED": gated,
            "ADDED": added is not None, "num_warps": tile.warps,
        }  # fmt: skip
        if few:
            self._products.product_of_few[tiles,](*given, *sizes, **kind, **self._launch)
            return
        split = self._split(tiles, depth)
        self._products.product_of_many[tiles, split](
            *given, self._parts, self._arrived, *sizes, **kind, **self._launch,
            PADDED=max(16, _power(count - skip)), SPLIT=split, num_stages=tile.stages,
        )  # fmt: skip

    def _split(self, tiles: int, depth: int) -> int:
        """Return how many programs must share a tile so that every multiprocessor has work."""
        if tiles >= self._processors // 2:
            return 1
        return max(1, min(_SPLIT, _power(depth // _LEAST_SPLIT + 1) // 2))

    def _attend_at(self, count: int, number: int, first: torch.Tensor, seen: int) -> None:
        weights, layer = self._weights, self._weights.layers[number]
        keys, values = self._keys[number], self._values[number]
        queries = weights.heads // weights.key_heads * count
        few = queries <= _FEW_QUERIES
        chunk = _chunk(weights, few=few)
        chunks = -(-seen // chunk)
        kind: dict[str, Any] = {
            "ROWS": count, "HEADS": weights.heads, "KEY_HEADS": weights.key_heads,
            "WIDTH": weights.head_width, "CHUNK": chunk,
        }  # fmt: skip
        given = (
            self._mixed, first, keys, values, self._cos, self._sin,
            *_head_norms(layer, self._cos), self._attended,
            self._means, self._sums, self._arrived, chunks, self._mixed.shape[1], keys.stride(0),
            layer.window or _ENDLESS, 0.0 if layer.query_norm is None else layer.query_norm.eps,
            weights.head_width**-0.5,
        )  # fmt: skip
        kind["HEAD_NORM"] = layer.query_norm is not None
        grid = (weights.key_heads, chunks)
        if few:
            padded = {"PADDED": _power(queries), "NEW": _power(count)}
            self._attention.attend_few[grid](*given, **kind, **padded, num_warps=8, **self._launch)
        else:
            padded = {"PADDED": max(16, _power(queries)), "TILE": min(64, chunk)}
            self._attention.attend_many[grid](*given, **kind, **padded, num_warps=4, **self._launch)


def _current(device: torch.device) -> AbstractContextManager[Any]:
    """Make this GPU the current one, because Triton launches kernels on the current GPU."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def _chunk(weights: LeanWeights, *, few: bool) -> int:
    """Return how many cache rows each program of the attention processes."""
    if few:
        return _FEW_VALUES // weights.head_width
    return min(512, max(64, 4 * _power(weights.key_heads)))


def _head_norms(layer: LeanLayer, unused: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if layer.query_norm is None or layer.key_norm is None:
        return unused, unused
    return layer.query_norm.weight, layer.key_norm.weight
