"""Products give what a linear layer gives, and a model made of them shares its tensors."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from specviz.engine.loading.compatibility import take_step_weights
from specviz.engine.model import products
from specviz.engine.model.products import Product, may_pack, with_products
from specviz.engine.model.steps import LibraryStep
from tests.engine.models import FAMILIES, VOCABULARY, stir, tiny_model

ROWS = (1, 2, 6, 17, 64)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("packed_from", [0, 1 << 40], ids=["packed", "transposed"])
def test_every_kernel_gives_the_product(
    monkeypatch: pytest.MonkeyPatch, rows: int, bias: bool, packed_from: int
) -> None:
    monkeypatch.setattr(products, "_PACKED_FROM", packed_from)
    generator = torch.Generator().manual_seed(rows)
    weight = torch.randn(96, 64, generator=generator)
    offset = torch.randn(96, generator=generator) if bias else None
    x = torch.randn(rows, 64, generator=generator)
    expected = F.linear(x.double(), weight.double(), None if offset is None else offset.double())
    for pack in (True, False):
        with torch.inference_mode():
            given = Product(weight, offset, pack=pack)(x)
        torch.testing.assert_close(given.double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_twin_shares_every_tensor_and_leaves_the_model_alone(family: str) -> None:
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
    weights, notices = take_step_weights({"target": model}, VOCABULARY, "library")
    assert weights["target"] is not model
    assert notices == ()


def test_products_that_give_other_logits_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("gpt_neox")
    true_product = Product.__call__
    monkeypatch.setattr(Product, "__call__", lambda self, x: true_product(self, x) * 1.1)
    weights, _ = take_step_weights({"target": model}, VOCABULARY, "library")
    assert weights["target"] is model


def test_large_and_half_precision_models_keep_their_plain_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tiny_model("gpt_neox")
    assert may_pack(model)
    assert not may_pack(tiny_model("gpt_neox").bfloat16())
    monkeypatch.setattr(products, "_PACKED_LIMIT", 1000)
    assert not may_pack(model)
