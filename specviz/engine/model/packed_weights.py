"""Matrices that stay quantised in memory, and modules that multiply with them.

In a packed model, such modules replace the linear layers and the embedding. So the model's own
forward pass and the lean step compute the same products. Matrices that the kernels do not support
stay in float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from specviz.engine.model.product import Product
from specviz.engine.model.tensors import address
from specviz.kernels.packed import (
    PART_COLUMNS,
    multiply_packed,
    product_function,
    read_rows,
    row_function,
    x_bytes,
)
from specviz.kernels.packed_types import LANES, PACKED_TYPES, SHORT, has_values, pack
from specviz.kernels.threads import run_in_parallel

FLOAT = "F32"
_ERROR = 0.25  # largest accepted error; 0.03 to 0.15 is usual
_exact = False  # whether products use dequantised weights
_EMBEDDING, _HEAD = "model.embed_tokens.weight", "lm_head.weight"
Shape: TypeAlias = tuple[int, ...]
_ROWS = 96  # multiplied at once: they stay in the CPU cache while the matrix is read
_SHARED_FROM = 1 << 20  # weights; larger products use several threads


@contextmanager
def exact_products() -> Iterator[None]:
    """Inside the context, multiply dequantised weights in torch, so activations are not rounded.

    This applies to all products with packed (quantised) matrices.
    """
    global _exact  # noqa: PLW0603
    _exact = True
    try:
        yield
    finally:
        _exact = False


def agree_roughly(ours: torch.Tensor, reference: torch.Tensor) -> bool:
    """Return whether logits of a packed model agree within the error of quantised activations.

    A tiny rounding error may change the value to which an activation is quantised. Over the layers,
    such changes grow until they are as large as the error of quantisation itself, so no tight
    tolerance is possible. For each token, the root mean square difference is divided by the
    standard deviation of the token's logits. The median of these quotients may be at most 1/4.
    """
    errors = (ours - reference).square().mean(-1).sqrt() / reference.std(-1)
    return bool(errors.median() <= _ERROR)


class PackedMatrix(nn.Module):
    """A matrix in float32, or quantised in the layout that the kernels read."""

    def __init__(self, kind: str, weight: torch.Tensor, rows: int, width: int) -> None:
        super().__init__()
        self.kind, self.rows, self.width = kind, rows, width
        self.weight = nn.Parameter(weight, requires_grad=False)

    @staticmethod
    def of_float(values: torch.Tensor) -> PackedMatrix:
        rows, width = values.shape
        return PackedMatrix(FLOAT, values.float().contiguous(), rows, width)

    @staticmethod
    def of_blocks(kind: str, raw: np.ndarray, width: int) -> PackedMatrix:
        """Return a matrix made from a GGUF file's quantised blocks, uint8 [row, byte].

        Raises:
            ValueError: A scale is NaN or infinite.
        """
        blocks = pack(PACKED_TYPES[kind], raw, width)
        return PackedMatrix(kind, torch.from_numpy(blocks), raw.shape[0], width)

    def dequantised(self) -> torch.Tensor:
        if self.kind == FLOAT:
            return self.weight
        return PackedProduct.of((self,), None).read(torch.arange(self.rows))

    def any(self) -> bool:
        """Return whether any weight may differ from zero."""
        if self.kind == FLOAT:
            return bool(self.weight.any())
        return has_values(PACKED_TYPES[self.kind], self.weight.numpy())

    @property
    def table_row(self) -> list[int]:
        functions = [product_function(self.kind), row_function(self.kind)]
        return [address(self.weight), *functions, self.rows]


@dataclass(frozen=True, slots=True, eq=False)
class PackedProduct(Product):
    """A matrix product with packed (quantised) matrices that are stacked along their rows.

    The object keeps the memory of the matrices alive.
    """

    matrices: tuple[PackedMatrix, ...]
    table: torch.Tensor  # int64, in the layout that ``multiply_parts`` reads

    @staticmethod
    def of(matrices: Sequence[PackedMatrix], bias: torch.Tensor | None) -> PackedProduct:
        rows = [number for each in matrices for number in each.table_row]
        assert len(rows) == PART_COLUMNS * len(matrices)
        table = torch.tensor([len(matrices), *rows])
        return PackedProduct(matrices[0].weight, bias, tuple(matrices), table)

    @property
    def columns(self) -> int:
        return sum(each.rows for each in self.matrices)

    @property
    def width(self) -> int:
        return self.matrices[0].width

    def any(self) -> bool:
        return any(each.any() for each in self.matrices)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if _exact:
            whole = torch.cat([each.dequantised() for each in self.matrices])
            return F.linear(x, whole, self.bias)
        columns = self.columns
        rows = x.reshape(-1, self.width).float().contiguous()
        out = torch.empty(rows.shape[0], columns)
        for some, into in zip(rows.split(_ROWS), out.split(_ROWS), strict=True):
            self._multiply(some, into)
        return out.view(*x.shape[:-1], columns)

    def _multiply(self, rows: torch.Tensor, out: torch.Tensor) -> None:
        large = out.shape[1] * self.width >= _SHARED_FROM
        threads = torch.get_num_threads() if large else 1
        blocks = np.empty((threads, x_bytes(rows.shape[0], self.width)), np.uint8)
        places = (address(self.table), address(self.bias))
        x, into = rows.detach().numpy(), out.numpy()
        run_in_parallel(
            threads,
            lambda thread: multiply_packed(thread, threads, *places, x, blocks, into),
        )

    def read(self, row_ids: torch.Tensor) -> torch.Tensor:
        """Return these rows of the matrix, dequantised."""
        ids = row_ids.reshape(-1).contiguous()
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < self.columns:
            raise IndexError("a token id is outside the vocabulary")  # a kernel would not notice
        out = torch.empty(ids.shape[0], self.width)
        read_rows(address(self.table), ids.numpy(), out.numpy())
        return out.view(*row_ids.shape, self.width)


def quantised_product(
    weight: torch.Tensor, bias: torch.Tensor | None, kind: str
) -> PackedProduct | None:
    """Quantise a matrix to ``kind``, and return the product with this matrix.

    The result is None if no kernel can read the matrix, or if a weight is too large for the type.
    """
    if weight.shape[1] % SHORT:
        return None
    try:
        matrix = _quantised(weight, kind)
    except ValueError:
        return None
    return PackedProduct.of((matrix,), None if bias is None else bias.float())


def _quantised(weight: torch.Tensor, kind: str) -> PackedMatrix:
    import gguf

    with np.errstate(over="ignore"):  # a scale too large for half precision is refused below
        raw = gguf.quants.quantize(weight.float().numpy(), gguf.GGMLQuantizationType[kind])
    return PackedMatrix.of_blocks(kind, raw, weight.shape[1])


class PackedLinear(nn.Module):
    """A linear layer with a packed matrix."""

    def __init__(self, matrix: PackedMatrix, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.matrix = matrix
        self.bias = None if bias is None else nn.Parameter(bias.float(), requires_grad=False)
        self._product = PackedProduct.of((matrix,), self.bias)

    @property
    def weight(self) -> nn.Parameter:
        return self.matrix.weight

    @property
    def out_features(self) -> int:
        return self.matrix.rows

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._product(x)


class PackedEmbedding(nn.Module):
    """An embedding with a packed matrix."""

    def __init__(self, matrix: PackedMatrix) -> None:
        super().__init__()
        self.matrix = matrix
        self.table = PackedProduct.of((matrix,), None)

    @property
    def weight(self) -> nn.Parameter:
        return self.matrix.weight

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        return self.table.read(token_ids)


def can_join(matrices: Sequence[Shape], inner: Sequence[Shape]) -> bool:
    """Return whether the kernels support matrices of these shapes.

    ``inner``: the shapes of the layers' matrices. Some of these matrices are joined, so each
    must have a multiple of 16 rows.
    """
    whole = all(width % SHORT == 0 for _, width in matrices)
    return whole and all(rows % LANES == 0 for rows, _ in inner)


def packed_layers(model: nn.Module) -> dict[str, PackedLinear | PackedEmbedding]:
    """Return the layers whose matrices are packed; the keys are the layers' names."""
    modules = model.named_modules(remove_duplicate=False)
    return {
        name: each for name, each in modules if isinstance(each, PackedLinear | PackedEmbedding)
    }


def types_of(model: Any) -> str:
    """Return the types of a model's quantised matrices; the type with the most weights is first."""
    sizes: Counter[str] = Counter()
    for each in model.modules():
        if isinstance(each, PackedMatrix) and each.kind != FLOAT:
            sizes[each.kind] += each.rows * each.width
    return ", ".join(kind for kind, _ in sizes.most_common())


def is_packed(model: Any) -> bool:
    return any(isinstance(module, PackedMatrix) for module in model.modules())


@torch.no_grad()
def packed_model(skeleton: Any, weights: Mapping[str, torch.Tensor | PackedMatrix]) -> Any:
    """Load weights into a Llama-shaped model on the meta device, and return this model."""
    matrices = {name: each for name, each in weights.items() if isinstance(each, PackedMatrix)}
    others = {name: each for name, each in weights.items() if isinstance(each, torch.Tensor)}
    if skeleton.config.tie_word_embeddings:
        matrices.setdefault(_HEAD, matrices[_EMBEDDING])
    skeleton.load_state_dict(others, strict=False, assign=True)
    _put(skeleton, matrices)
    body = skeleton.model
    body.rotary_emb = type(body.rotary_emb)(skeleton.config)
    assert not any(each.is_meta for each in (*skeleton.parameters(), *skeleton.buffers()))
    return skeleton


@torch.no_grad()
def quantise(model: Any, kind: str, report: Callable[[int, int], None]) -> None:
    """Quantise the matrices of a Llama-shaped model in place, as llama.cpp would.

    Args:
        kind: One of ``record.pairs.QUANTISED``, in upper case.
        report: Called with the bytes done so far and the total.
    """
    sizes = {
        name: int(module.weight.nbytes)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.Embedding)
    }
    done, made = 0, dict[int, PackedMatrix]()  # by the address of the weights, which may be tied
    for name, size in sizes.items():  # no reference is kept, so each float matrix is freed here
        weight = model.get_submodule(name).weight
        place = address(weight)
        if place not in made:
            made[place] = _quantised(weight, kind)
        _put(model, {f"{name}.weight": made[place]})
        done += size
        report(done, sum(sizes.values()))


def _put(model: Any, matrices: Mapping[str, PackedMatrix]) -> None:
    """Replace layers by packed layers; the keys of ``matrices`` are names of weights."""
    for name, matrix in matrices.items():
        place = name.removesuffix(".weight")
        layer = model.get_submodule(place)
        if isinstance(layer, nn.Embedding):
            model.set_submodule(place, PackedEmbedding(matrix))
        else:
            model.set_submodule(place, PackedLinear(matrix, layer.bias))
