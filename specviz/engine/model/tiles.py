"""Copies of a model's float32 matrices in tiles, the layout that the kernels multiply fastest.

The model keeps its own matrices for torch, so tiles take as much memory again. Therefore only
models up to ``MOST_BYTES`` get them; ``memory_margin`` has room for two such models. The kernels
read larger models in place.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from specviz.kernels.packed_types import LANES

MOST_BYTES = 512 << 20


def can_tile_all(matrices: Sequence[torch.Tensor], feed_forward: int) -> bool:
    """Return whether to copy these matrices of a model.

    ``feed_forward``: the number of rows of the gate, which is joined with the other half.
    """
    return (
        all(each.dtype == torch.float32 for each in matrices)
        and feed_forward % LANES == 0
        and sum(each.nbytes for each in matrices) <= MOST_BYTES
    )


def tiles_of(matrix: torch.Tensor) -> torch.Tensor:
    """Return a copy `[tile, column, row]` of a matrix `[row, column]`; missing rows are zero."""
    rows, width = matrix.shape
    whole = F.pad(matrix.detach(), (0, 0, 0, -rows % LANES))
    return whole.view(-1, LANES, width).transpose(1, 2).contiguous()
