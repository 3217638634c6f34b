"""Copies of a model's float32 matrices in tiles, the layout that the kernels multiply fastest.

The model keeps its own matrices for torch, so tiles take as much memory again. Therefore only
models up to ``MOST_BYTES`` get them. The kernels read larger models in place.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from specviz.kernels.packed_types import LANES

MOST_BYTES = 512 << 20


def can_tile_all(matrices: Sequence[torch.Tensor], feed_forward: int) -> bool:
    """Return whether to copy these matrices of a model.

    ``feed_forward``: the number of rows of the gate. They are followed by the rows of the other
    half, the first of which must begin a tile.
    """
    return (
        all(each.dtype == torch.float32 for each in matrices)
        and feed_forward % LANES == 0
        and sum(each.nbytes for each in matrices) <= MOST_BYTES
    )


def copied_bytes(size: int, dtype: torch.dtype, device: torch.device) -> int:
    """Return how many bytes the tiles of a model may take; ``size``: the bytes of its weights."""
    may_copy = dtype == torch.float32 and device.type == "cpu" and size <= MOST_BYTES
    return size if may_copy else 0


def tiles_of(matrix: torch.Tensor) -> torch.Tensor:
    """Return a copy `[tile, column, row]` of a matrix `[row, column]`; missing rows are zero."""
    rows, width = matrix.shape
    missing = -rows % LANES
    whole = F.pad(matrix.detach(), (0, 0, 0, missing)) if missing else matrix.detach()
    return whole.view(-1, LANES, width).transpose(1, 2).contiguous()
