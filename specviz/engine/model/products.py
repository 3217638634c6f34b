"""Matrix products of a few rows, computed by a kernel that reads a layer's weights in place.

In a step of one token, products have one row; in a verification of γ candidates, they have γ + 1
rows. The kernel reads each weight once, at the memory's bandwidth. Products of many rows use torch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn

from specviz.engine.model.product import Product
from specviz.engine.model.tensors import address, array, kernel_readable, like, type_name
from specviz.kernels.product import multiply
from specviz.kernels.readiness import ready
from specviz.kernels.step import MOST_ROWS
from specviz.kernels.threads import run_in_parallel

if TYPE_CHECKING:
    from transformers import PreTrainedModel


_SHARED_FROM = 1 << 20  # weights; larger products use several threads


def with_products(model: PreTrainedModel) -> PreTrainedModel:
    """Return a copy that shares the model's tensors, but whose linear layers use the kernel."""
    shared: dict[int, Any] = {id(t): t for t in (*model.parameters(), *model.buffers())}
    twin = copy.deepcopy(model, shared)
    for name, module in list(twin.named_modules()):
        if type(module) is nn.Linear and _gains(module):
            twin.set_submodule(name, ProductLayer(module))
    return twin


@dataclass(frozen=True, slots=True, eq=False)
class KernelProduct(Product):
    """A matrix product computed by the kernel if there are few rows, else by torch."""

    layer: ProductLayer

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def product_of(weight: torch.Tensor, bias: torch.Tensor | None) -> Product:
    """Return the product with a matrix; it uses the kernel if the kernel can read the matrix."""
    plain = Product(weight, bias)
    return KernelProduct(weight, bias, ProductLayer(plain)) if _gains(plain) else plain


def _gains(layer: nn.Linear | Product) -> bool:
    tensors = [layer.weight] if layer.bias is None else [layer.weight, layer.bias]
    dtype = layer.weight.dtype
    return all(kernel_readable(each) and each.dtype == dtype for each in tensors) and ready(
        type_name(dtype)
    )


class ProductLayer(nn.Module):
    """A linear layer computed by the kernel; calls skip torch's hooks."""

    def __init__(self, layer: nn.Linear | Product) -> None:
        super().__init__()
        self.weight = layer.weight
        self.bias = layer.bias
        self._like = like(layer.weight.dtype)
        self._addresses = (address(layer.weight), address(layer.bias))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1])
        if rows.shape[0] > MOST_ROWS:
            return F.linear(x, self.weight, self.bias)
        return self._multiply(rows).view(*x.shape[:-1], -1)

    def _multiply(self, rows: torch.Tensor) -> torch.Tensor:
        as_float = rows.float().contiguous().detach().numpy()
        out = torch.empty(rows.shape[0], self.weight.shape[0])
        threads = torch.get_num_threads() if self.weight.numel() >= _SHARED_FROM else 1
        into = array(out)
        run_in_parallel(
            threads,
            lambda thread: multiply(self._like, thread, threads, *self._addresses, as_float, into),
        )
        return out.to(rows.dtype)

    __call__: Callable[..., Any] = forward
