"""Tensors as kernels see them: addresses, and arrays over the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from specviz.kernels.arrays import STORED_ONES

_LIKE = {getattr(torch, name): one for name, one in STORED_ONES.items()}
_STORED = {dtype: getattr(torch, one.dtype.name) for dtype, one in _LIKE.items()}


def type_name(dtype: torch.dtype) -> str:
    """As the user and the kernels call it."""
    return str(dtype).removeprefix("torch.")


def fits(tensor: torch.Tensor) -> bool:
    """Whether a kernel can read this tensor in place."""
    return tensor.device.type == "cpu" and tensor.dtype in _STORED and tensor.is_contiguous()


def like(dtype: torch.dtype) -> Any:
    """A value of the stored type."""
    return _LIKE[dtype]


def array(tensor: torch.Tensor) -> np.ndarray:
    """The same memory."""
    return tensor.detach().view(_STORED[tensor.dtype]).numpy()


def address(tensor: torch.Tensor | None) -> int:
    """Where a tensor begins; 0 for none. The tensor must outlive the address."""
    return 0 if tensor is None else tensor.data_ptr()
