"""Tensors as the kernels read them: by memory address, or as numpy arrays over their memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch

from specviz.kernels.arrays import STORED_ONES

Given = ParamSpec("Given")
Found = TypeVar("Found")

_LIKE = {getattr(torch, name): one for name, one in STORED_ONES.items()}
_STORED = {dtype: getattr(torch, one.dtype.name) for dtype, one in _LIKE.items()}


def type_name(dtype: torch.dtype) -> str:
    """Return the dtype's name without "torch.", such as "bfloat16"."""
    return str(dtype).removeprefix("torch.")


def kernel_readable(tensor: torch.Tensor) -> bool:
    """Return whether a kernel can read this tensor in place."""
    return tensor.device.type == "cpu" and tensor.dtype in _STORED and tensor.is_contiguous()


def like(dtype: torch.dtype) -> Any:
    """Return a 1 in the dtype's storage type. Passed to a kernel, it selects the kernel's dtype."""
    return _LIKE[dtype]


def array(tensor: torch.Tensor) -> np.ndarray:
    """Return a numpy array over the tensor's memory; half precision appears as integers."""
    return tensor.detach().view(_STORED[tensor.dtype]).numpy()


def address(tensor: torch.Tensor | None) -> int:
    """Return the tensor's address, or 0 for None; keep the tensor alive while using the address."""
    return 0 if tensor is None else tensor.data_ptr()


def in_inference_mode(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """Decorate a function that runs in torch's inference mode.

    Unlike torch's decorator, it does not enter the mode again if the mode is on. This saves several
    microseconds.
    """

    @wraps(function)
    def inferring(*args: Given.args, **settings: Given.kwargs) -> Found:
        if torch.is_inference_mode_enabled():
            return function(*args, **settings)
        with torch.inference_mode():
            return function(*args, **settings)

    return inferring
