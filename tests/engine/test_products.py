"""Kernel products equal linear layers, and a model that uses them shares its tensors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from specviz import ROOT
from specviz.engine.loading.compatibility import take_step_weights
from specviz.engine.model import products
from specviz.engine.model.library_step import LibraryStep
from specviz.engine.model.library_weights import LibraryWeights
from specviz.engine.model.products import ProductLayer, with_products
from specviz.kernels.step import MOST_ROWS
from tests.engine.models import FAMILIES, VOCABULARY, stir, tiny_model
from tests.kernels.processors import masked

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ROWS = (1, 2, 3, 4, 5, 6, 7, 13, 17, 18, 64)


def layer(dtype: torch.dtype, bias: bool, places: int = 97, width: int = 67) -> nn.Linear:
    """Neither its width nor its number of rows is a multiple of a vector size."""
    made = nn.Linear(width, places, bias=bias).requires_grad_(False)
    generator = torch.Generator().manual_seed(places)
    for parameter in made.parameters():
        parameter.normal_(generator=generator)
    return made.to(dtype)


def rows_of_x(count: int, dtype: torch.dtype, width: int = 67) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(count)).to(dtype)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_product_equals_the_layer(rows: int, bias: bool, dtype: torch.dtype) -> None:
    own, x = layer(dtype, bias), rows_of_x(rows, dtype)
    offset = None if own.bias is None else own.bias.double()
    expected = F.linear(x.double(), own.weight.double(), offset)
    given = ProductLayer(own)(x)
    assert given.dtype == dtype
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 8e-3, torch.float16: 1e-3}[dtype]
    torch.testing.assert_close(given.double(), expected, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_row_does_not_depend_on_other_rows(dtype: torch.dtype) -> None:
    product, x = ProductLayer(layer(dtype, True)), rows_of_x(MOST_ROWS, dtype)
    alone = torch.cat([product(row[None]) for row in x])
    for count in range(2, MOST_ROWS + 1):
        assert torch.equal(product(x[:count]), alone[:count])


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["avx2", "sse2"])
def test_products_are_right_on_other_processors(tmp_path: Path, name: str) -> None:
    own = "(equals_the_layer or on_other_rows) and (float32 or bfloat16)"
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-q", __file__, "-k", own]
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)} | masked(name)
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("threads", [2, 3])
def test_results_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setattr(products, "_SHARED_FROM", 1)
    product, x = ProductLayer(layer(torch.float32, True)), rows_of_x(6, torch.float32)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    alone = product(x)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert torch.equal(product(x), alone)


def test_accepts_any_shape_of_input() -> None:
    own, x = layer(torch.float32, True), rows_of_x(12, torch.float32)
    torch.testing.assert_close(ProductLayer(own)(x.view(3, 2, 2, 67)), own(x.view(3, 2, 2, 67)))
    apart = rows_of_x(67, torch.float32, 5).t()  # its rows are not contiguous
    torch.testing.assert_close(ProductLayer(own)(apart), own(apart))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_copy_shares_every_tensor(family: str) -> None:
    model = stir(tiny_model(family))
    layers = {name for name, module in model.named_modules() if type(module) is nn.Linear}
    twin = with_products(model)
    ours, theirs = dict(twin.named_parameters()), dict(model.named_parameters())
    assert ours.keys() == theirs.keys()
    assert all(ours[name] is theirs[name] for name in ours)
    assert {name for name, module in model.named_modules() if type(module) is nn.Linear} == layers
    assert layers
    assert not any(type(module) is nn.Linear for module in twin.modules())
    ids = torch.arange(1, 13)
    expected = LibraryStep(model, VOCABULARY).feed(ids, 12)
    given = LibraryStep(twin, VOCABULARY).feed(ids, 12)
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-4)


def test_the_library_step_runs_on_products() -> None:
    model = tiny_model("gpt_neox")
    weights, notices = take_step_weights({"target": model}, {"target": VOCABULARY}, "library")
    assert isinstance(weights["target"], LibraryWeights)
    assert weights["target"].model is not model
    assert notices == ()


def test_differing_products_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("gpt_neox")
    true_product = ProductLayer.__call__
    monkeypatch.setattr(ProductLayer, "__call__", lambda self, x: true_product(self, x) * 1.1)
    weights, _ = take_step_weights({"target": model}, {"target": VOCABULARY}, "library")
    assert isinstance(weights["target"], LibraryWeights)
    assert weights["target"].model is model
