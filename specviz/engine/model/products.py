"""Matrix products of few rows by a kernel that reads a layer's own weight.

Stepping one token is a product of one row, verifying γ candidates one of γ + 1; for both the
kernel reads each weight once, at the speed of the memory. More rows are torch's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers import PreTrainedModel

from specviz.engine.model.tensors import address, array, fits, like, type_name
from specviz.kernels.product import multiply
from specviz.kernels.readiness import ready
from specviz.kernels.step import MOST_ROWS
from specviz.kernels.threads import run_in_parallel

_SHARED_FROM = 1 << 20  # weights for which waking other threads is worth it


def with_products(model: PreTrainedModel) -> PreTrainedModel:
    """The same model, sharing every tensor, whose linear layers are products."""
    shared: dict[int, Any] = {id(t): t for t in (*model.parameters(), *model.buffers())}
    twin = copy.deepcopy(model, shared)
    for name, module in list(twin.named_modules()):
        if type(module) is nn.Linear and _gains(module):
            twin.set_submodule(name, ProductLayer(module))
    return twin


def _gains(layer: nn.Linear) -> bool:
    held = [layer.weight] if layer.bias is None else [layer.weight, layer.bias]
    dtype = layer.weight.dtype
    return all(fits(each) and each.dtype == dtype for each in held) and ready(type_name(dtype))


class ProductLayer(nn.Module):
    """Takes the place of a linear layer; called without hooks, for nobody sets any on a twin."""

    def __init__(self, layer: nn.Linear) -> None:
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
        wide = rows.float().contiguous().detach().numpy()
        out = torch.empty(rows.shape[0], self.weight.shape[0])
        threads = torch.get_num_threads() if self.weight.numel() >= _SHARED_FROM else 1
        into = array(out)
        run_in_parallel(
            threads,
            lambda thread: multiply(self._like, thread, threads, *self._addresses, wide, into),
        )
        return out.to(rows.dtype)

    __call__: Callable[..., Any] = forward
