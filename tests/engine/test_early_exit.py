"""Early exit: the first layers give the logits of a model made of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from specviz.engine.model.growing import grow
from specviz.engine.model.lean import LeanStep
from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.library_step import LibraryStep
from specviz.engine.model.steps import Step
from specviz.errors import PairError
from specviz.kernels.step import MOST_ROWS
from specviz.record.bodies import Shape
from tests.engine.models import FAMILIES, VOCABULARY, WINDOW, build, stir, tiny_config, tiny_model

LEAN = ("llama", "mistral", "qwen2", "qwen3")
PROMPT = 2 * WINDOW + 3
KINDS = [
    *(("library", family) for family in FAMILIES),
    *(("torch", family) for family in LEAN),
    *(("compiled", family) for family in LEAN),
]


def step_of(model: PreTrainedModel, kind: str) -> Step:
    if kind == "library":
        return LibraryStep(model, VOCABULARY)
    weights = LeanWeights.take(model)
    assert weights is not None
    if kind == "torch":
        weights = _without_kernels(weights)
    return LeanStep(weights, VOCABULARY, 100)


def _without_kernels(weights: LeanWeights) -> LeanWeights:
    object.__setattr__(weights, "compiled", None)
    return weights


def first_layer_of(model: PreTrainedModel) -> PreTrainedModel:
    """A model of one layer with the same weights."""
    config = tiny_config(model.config.model_type, num_hidden_layers=1)
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:1]
    short = build(config)
    assert short.load_state_dict(model.state_dict(), strict=False).missing_keys == []
    return short


def ids(count: int, seed: int) -> torch.Tensor:
    return torch.randint(VOCABULARY, (count,), generator=torch.Generator().manual_seed(seed))


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("kind", "family"), KINDS)
def test_rounds_with_an_early_exit(kind: str, family: str) -> None:
    """Drafting and verification share the cache over several rounds; both keep their logits."""
    model = stir(tiny_model(family, sigma=0.2))
    short = LibraryStep(first_layer_of(model), VOCABULARY)
    alone, target = LibraryStep(model, VOCABULARY), step_of(model, kind)
    early = target.early_exit(1)
    for each in (target, alone, short):
        each.feed(ids(PROMPT, 1), 0)
    for number, accepted in enumerate((0, 3, 5, 2)):
        assert early.length == target.length
        fed = ids(6, 10 + number)
        for token in fed[:5].split(1):
            close(early.feed(token, 1), short.feed(token, 1))
        early.forget(2)
        short.forget(2)
        close(early.feed(fed[3:5], 2), short.feed(fed[3:5], 2))
        assert early.length == target.length + 5
        close(target.feed(fed, 6), alone.feed(fed, 6))
        target.forget(5 - accepted)
        alone.forget(5 - accepted)
        short.forget(5)
        short.feed(fed[: 1 + accepted], 0)
    assert early.length == target.length == short.length


@pytest.mark.parametrize(("kind", "family"), KINDS)
def test_a_tree_drafted_early_is_verified_and_kept(kind: str, family: str) -> None:
    model = stir(tiny_model(family, sigma=0.2))
    short = LibraryStep(first_layer_of(model), VOCABULARY)
    alone, target = LibraryStep(model, VOCABULARY), step_of(model, kind)
    for each in (target, alone, short):
        each.feed(ids(PROMPT, 1), 0)
    early = target.early_exit(1)
    parents = (-1, 0, 0, 1, 2, 2)
    for number in range(3):
        nodes = ids(6, 20 + number)
        close(early.feed(nodes[:1], 1), short.feed(nodes[:1], 1))
        tree = (nodes[1:], (-1, -1, 0, 1, 1))
        close(early.branch(*tree), short.branch(*tree))
        for each in (early, short):
            each.keep(())
        close(target.branch(nodes, parents), alone.branch(nodes, parents))
        for each in (target, alone):
            each.keep((0, 2, 5))
        short.feed(nodes[[2, 5]], 0)
        assert early.length == target.length == short.length
    close(early.feed(ids(1, 9), 1), short.feed(ids(1, 9), 1))


@pytest.mark.parametrize("kind", ["torch", "compiled"])
def test_a_lean_exit_has_no_cache_of_its_own(kind: str) -> None:
    target = step_of(tiny_model("llama"), kind)
    assert isinstance(target, LeanStep)
    early = target.early_exit(1)
    assert early._keys.data_ptr() == target._keys.data_ptr()
    assert early._values.data_ptr() == target._values.data_ptr()
    assert (early._compiled is not None) == (kind == "compiled")


def test_a_library_exit_shares_the_targets_cache_rows() -> None:
    target = step_of(tiny_model("gpt2"), "library")
    assert isinstance(target, LibraryStep)
    target.feed(ids(9, 1), 0)
    early, rows = target.early_exit(1), target._cache.layers
    pairs: list[Any] = list(zip(early._cache.layers, rows, strict=False))
    assert [mine.keys.data_ptr() == theirs.keys.data_ptr() for mine, theirs in pairs] == [True]


def test_an_exit_shares_every_weight() -> None:
    model = tiny_model("phi")
    early = step_of(model, "library").early_exit(1)
    assert isinstance(early, LibraryStep)
    theirs = dict(model.named_parameters())
    ours = dict(early._model.named_parameters())
    assert all(ours[name] is theirs[name] for name in ours)
    assert len(ours) < len(theirs)


@pytest.mark.parametrize("kind", ["library", "compiled"])
@pytest.mark.parametrize("layers", [0, 2, 3])
def test_rejects_an_impossible_exit(kind: str, layers: int) -> None:
    with pytest.raises(PairError, match="the target has 2"):
        step_of(tiny_model("llama"), kind).early_exit(layers)


def test_a_model_of_one_layer_has_no_exit() -> None:
    with pytest.raises(PairError, match="deeper target"):
        step_of(tiny_model("llama", num_hidden_layers=1), "compiled").early_exit(1)


@pytest.mark.parametrize("kind", ["library", "compiled"])
def test_a_body_with_added_layers_has_no_exit(kind: str) -> None:
    model = tiny_model("llama")
    deeper = grow(model, Shape(width=64, feed_forward=128, layers=3), lambda *_: None)
    wider = grow(model, Shape(width=64, feed_forward=128, layers=2), lambda *_: None)
    with pytest.raises(PairError, match="layers that add nothing"):
        step_of(deeper, kind).early_exit(1)
    assert step_of(wider, kind).early_exit(1).length == 0


def test_rejects_a_family_without_a_layer_list() -> None:
    model = tiny_model("opt")
    decoder: Any = model.get_submodule("model.decoder")
    decoder.layers = nn.Sequential(*decoder.layers)
    with pytest.raises(PairError, match="opt models do not support early exit"):
        step_of(model, "library").early_exit(1)


def test_a_long_feed_of_an_exit_runs_in_torch() -> None:
    model = stir(tiny_model("llama", sigma=0.2))
    target, short = step_of(model, "compiled"), LibraryStep(first_layer_of(model), VOCABULARY)
    tokens = ids(MOST_ROWS + 3, 2)
    close(target.early_exit(1).feed(tokens, 4), short.feed(tokens, 4))
