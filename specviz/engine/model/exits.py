"""Determine after how many layers a model can predict a token (early exit)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from specviz.engine.model.step_capabilities import Missing, require
from specviz.errors import PairError


class Weights(Protocol):
    def any(self) -> Any:
        """Return whether any weight differs from zero."""
        ...


def exits_of(all_layers: int, output_matrices: Iterable[Weights]) -> range | Missing:
    """Return after how many layers the model can exit early, or the reason why it cannot.

    Args:
        output_matrices: the matrices through which the last layer writes to the residual stream. If
            all are zero, the last layer adds nothing, so skipping it changes nothing.
    """
    if all_layers == 1:
        return Missing(
            "An exit is not possible: the target has 1 layer",
            "Choose a draft model, or a deeper target.",
        )
    if not any(bool(matrix.any()) for matrix in output_matrices):
        return Missing(
            "At its simulated size, the target has layers that add nothing, so an exit before "
            "them would draft exactly the target's tokens",
            "Use early exit without a simulated size.",
        )
    return range(1, all_layers)


def require_exit(exits: range | Missing, layers: int) -> None:
    """Raise PairError unless ``exits`` contains ``layers``."""
    possible = require(exits)
    if layers not in possible:
        raise PairError(
            f"An exit after {layers} layers is not possible: the target has {possible.stop} "
            "layers.",
            remedy=f"Exit after 1 to {possible.stop - 1} layers.",
        )
