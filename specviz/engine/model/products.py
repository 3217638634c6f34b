"""Matrix products that pick the fastest kernel for the number of rows at hand.

Stepping one token is a product of one row, verifying γ candidates one of γ + 1. What is
fastest for one is not for the other, and the default is best for neither.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers import PreTrainedModel

_PACKED_LIMIT = 1 << 29  # bytes of weights that may be held in three forms
# Multiply-adds from which a packed product beats a transposed one: sooner where the processor's
# units are wider. A fixed rule, since a timed one could change between two loads and with it the
# last digits of a trace.
_PACKED_FROM = 300_000 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 1_000_000


class Product:
    """A matrix product that picks the fastest kernel for few or many rows.

    For several rows on a CPU, oneDNN with packed weights is up to twice as fast as the
    default; below that its call overhead costs more than it gains, and a transposed
    matrix reads fastest. Small models hold all three forms, others only the plain one.
    """

    __slots__ = ("_bias", "_packed", "_transposed", "_weight", "_work")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, *, pack: bool) -> None:
        self._weight = weight
        self._bias = bias
        self._work = weight.numel()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, 8) if pack else None
        self._transposed = weight.t().contiguous() if pack else None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self._packed is not None and x.shape[0] * self._work >= _PACKED_FROM:
            return torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, "none", [], "")
        if self._transposed is None:
            return F.linear(x, self._weight, self._bias)
        if self._bias is None:
            return torch.mm(x, self._transposed)
        return torch.addmm(self._bias, x, self._transposed)


def may_pack(model: PreTrainedModel) -> bool:
    """Whether the products of this model gain from forms of their own, and may have them."""
    weight = next(model.parameters())
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and size <= _PACKED_LIMIT
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def with_products(model: PreTrainedModel) -> PreTrainedModel:
    """The same model, sharing every tensor, whose linear layers are products."""
    shared: dict[int, Any] = {id(t): t for t in (*model.parameters(), *model.buffers())}
    twin = copy.deepcopy(model, shared)
    for name, module in list(twin.named_modules()):
        if type(module) is nn.Linear:
            twin.set_submodule(name, _ProductLayer(module))
    return twin


class _ProductLayer(nn.Module):
    """Takes the place of a linear layer; called without hooks, for nobody sets any on a twin."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight = layer.weight
        self.bias = layer.bias
        self._product = Product(layer.weight, layer.bias, pack=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self._product(x.reshape(-1, x.shape[-1]))
        return rows.view(*x.shape[:-1], rows.shape[-1])

    __call__: Callable[..., Any] = forward
