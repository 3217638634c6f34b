"""Early exit: whether a model can stop after its first layers and say something of its own."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from specviz.errors import PairError


def check_exit(layers: int, all_layers: int, last_writes: Iterable[torch.Tensor]) -> None:
    """Raise PairError. ``last_writes``: the matrices by which the last layer adds to the stream."""
    if not 1 <= layers < all_layers:
        raise PairError(
            f"The target has {all_layers} layers; an exit after {layers} is none.",
            remedy=f"Leave it after 1 to {all_layers - 1} layers."
            if all_layers > 1
            else "Choose a draft model, or a deeper target.",
        )
    if not any(bool(matrix.any()) for matrix in last_writes):
        raise PairError(
            "The target's body has layers that add nothing, so leaving it before them would draft "
            "the target's own words.",
            remedy="Use early exit without a body.",
        )
