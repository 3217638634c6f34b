"""Check whether a model can exit early, after its first layers."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from specviz.errors import PairError


def check_exit(layers: int, all_layers: int, output_matrices: Iterable[torch.Tensor]) -> None:
    """Check that an exit after so many layers is possible and useful.

    Args:
        output_matrices: those through which the last layer writes to the residual stream.

    Raises:
        PairError: there is no such exit, or it would give the target's own output.
    """
    if not 1 <= layers < all_layers:
        raise PairError(
            f"An exit after {layers} layers is not possible: the target has {all_layers}.",
            remedy=f"Exit after 1 to {all_layers - 1} layers."
            if all_layers > 1
            else "Choose a draft model, or a deeper target.",
        )
    if not any(bool(matrix.any()) for matrix in output_matrices):
        raise PairError(
            "The target's simulated size has layers that add nothing; an exit before them would "
            "draft the target's own tokens.",
            remedy="Use early exit without a simulated size.",
        )
