"""The logits of a head, whose vocabulary may be a subset of its target's.

``d2t`` holds offsets: draft token i is the target's token i + d2t[i]. ``t2d`` marks the target's
tokens that the head knows. The logits are indexed by the target's token ids; they are -inf for
tokens that the head does not know.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from specviz.engine.heads.eagle_shape import EagleShape
from specviz.engine.heads.head import TargetParts
from specviz.engine.heads.tensors import HeadTensors
from specviz.engine.model.product import Product
from specviz.errors import ModelFileError, PairError
from specviz.values import Value

_OUTPUT = "lm_head.weight"
_COPY_AGAIN = "Copy or download the head again."


class DraftLogits(Value, eq=False):
    """Computes logits, indexed by the target's token ids, from a head's states."""

    matrix: Callable[[torch.Tensor], torch.Tensor]  # [n, width] to [n, len(target_ids)]
    target_ids: torch.Tensor | None  # the target's id of each draft token; None if equal
    vocabulary: int  # of the target
    scale: float

    @property
    def proposable(self) -> torch.Tensor | None:
        """Return the target's token ids that the head knows; None if the head knows all ids."""
        ids = self.target_ids
        return None if ids is None or len(ids) == self.vocabulary else ids

    @property
    def own_matrix(self) -> Product | None:
        """Return the head's own output matrix; None if the head uses the target's matrix."""
        return self.matrix if isinstance(self.matrix, Product) else None

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        """Return float32 logits `[n, vocabulary]`, indexed by the target's token ids."""
        logits = self.matrix(states).float()
        if self.scale != 1.0:
            logits = logits * self.scale
        if self.target_ids is None:
            return logits
        unknown = logits.new_full((len(logits), self.vocabulary), float("-inf"))
        return unknown.index_copy_(1, self.target_ids, logits)


def read_logits(
    tensors: HeadTensors,
    shape: EagleShape,
    target: TargetParts,
    *,
    embedding: torch.Tensor | None,
    scale: float,
) -> DraftLogits:
    """Return the ``DraftLogits`` of a head, with its output matrix and its vocabulary maps.

    The function removes the matrix and the maps from ``tensors``. A head without an output matrix
    uses its own embedding if its configuration ties the embedding to the output matrix. Otherwise,
    it uses the target's output matrix.

    Raises:
        ModelFileError: A map is missing, damaged, or outside the target's vocabulary.
        PairError: The head needs the target's output matrix, but their widths differ.
    """
    rows = tensors.needed_shape(_OUTPUT)[0] if _OUTPUT in tensors else None
    ids = _target_ids(tensors, rows, shape, target)
    if rows is not None:
        matrix = target.product(tensors.take(_OUTPUT, rows, shape.width), None)
    elif shape.tied and embedding is not None:
        matrix = target.product(embedding if ids is None else embedding[ids], None)
    elif shape.width == target.width:
        matrix = target.output if ids is None else _Chosen(target.output, ids)
    else:
        raise PairError(
            f"The head has no output matrix, and its width {shape.width} differs from the width "
            f"{target.width} of {target.name}.",
            remedy="Use a head that was trained for this target.",
        )
    return DraftLogits(matrix=matrix, target_ids=ids, vocabulary=target.vocabulary, scale=scale)


@dataclass(frozen=True, slots=True, eq=False)
class _Chosen:
    """Multiplies by an output matrix and returns only the chosen columns of the result."""

    matrix: Callable[[torch.Tensor], torch.Tensor]
    columns: torch.Tensor

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        return self.matrix(states).index_select(1, self.columns)


def _target_ids(
    tensors: HeadTensors, rows: int | None, shape: EagleShape, target: TargetParts
) -> torch.Tensor | None:
    """Return the target's id of each draft token; None if the head has no reduced vocabulary.

    ``rows``: how many rows the head's output matrix has; None if the head has no output matrix.
    """
    offsets, mask = _vector(tensors, "d2t"), _vector(tensors, "t2d")
    if mask is not None:
        mask = mask.bool()
    if offsets is not None and mask is not None and not offsets.any() and not mask.any():
        offsets = mask = None  # buffers that were saved before they were filled
    if offsets is not None:
        ids = offsets.long() + torch.arange(len(offsets), device=offsets.device)
    elif mask is not None:
        ids = mask.nonzero()[:, 0]
    else:
        return _same_ids(rows, shape, target)
    if rows not in (None, len(ids)):
        raise ModelFileError(
            f"lm_head.weight has {rows} rows, but the head's vocabulary has {len(ids)} tokens.",
            remedy=_COPY_AGAIN,
        )
    _check_ids(ids, mask, target, name="t2d" if offsets is None else "d2t")
    return ids


def _same_ids(rows: int | None, shape: EagleShape, target: TargetParts) -> torch.Tensor | None:
    if rows in (None, target.vocabulary):
        return None
    if rows == shape.vocabulary and rows < target.vocabulary:
        return torch.arange(rows, device=target.like.device)  # the target's rows are padded
    raise ModelFileError(
        f"lm_head.weight has {rows} rows instead of {target.vocabulary}, and there is no d2t.",
        remedy=_COPY_AGAIN,
    )


def _vector(tensors: HeadTensors, name: str) -> torch.Tensor | None:
    if name not in tensors:
        return None
    values = tensors.take(name, math.prod(tensors.needed_shape(name)))
    if values.is_floating_point():
        raise ModelFileError(f"{name} does not contain integers.", remedy=_COPY_AGAIN)
    return values


def _check_ids(
    ids: torch.Tensor, mask: torch.Tensor | None, target: TargetParts, *, name: str
) -> None:
    last = target.vocabulary - 1
    if len(ids) == 0 or int(ids.min()) < 0 or int(ids.max()) > last:
        raise ModelFileError(
            f"{name} contains tokens outside 0 to {last}, the vocabulary of {target.name}.",
            remedy="Use a head that was trained for this target.",
        )
    if len(ids.unique()) != len(ids):
        raise ModelFileError("d2t contains a token twice.", remedy=_COPY_AGAIN)
    if mask is None:
        return
    known = len(mask) > int(ids.max()) and bool(mask[ids].all())
    if not known or int(mask.sum()) != len(ids):
        raise ModelFileError("d2t and t2d contradict each other.", remedy=_COPY_AGAIN)
