"""Every step does what it declares, with the values of the library step, and refuses the rest."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from transformers.utils import import_utils

from specviz.engine import speculate
from specviz.engine.loading import hardware, loading
from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.library_step import LibraryStep
from specviz.engine.model.library_weights import LibraryWeights
from specviz.engine.model.static_step import STATIC_CAPABILITIES, StaticStep
from specviz.engine.model.step_capabilities import (
    AFTER_NORM,
    FINAL,
    HiddenStates,
    Missing,
    StepCapabilities,
    require_places,
)
from specviz.engine.model.steps import Step, StepWeights
from specviz.engine.model.translated_step import TranslatedStep
from specviz.errors import DeviceError, PairError
from specviz.record.run_config import RunConfig
from tests.engine.models import VOCABULARY, stir, tiny_model
from tests.engine.playing import PROMPT, config, llama_pair
from tests.engine.recurrent_models import recurrent_model
from tests.engine.test_own_drafter import _HeadReader
from tests.engine.test_shared_vocabulary import tiny_pair

ROWS = 40
EVERYTHING = {"hidden_states", "trees", "exits", "device_rounds"}
DECLARED = {
    "library": EVERYTHING - {"device_rounds"},
    "recurrent": {"hidden_states"},
    "torch": EVERYTHING,
    "compiled": EVERYTHING,
    "static": {"device_rounds"},
    "translated": {"trees"},
}
TEXT, FED = torch.tensor([1, 3, 2, 2, 1, 3]), torch.tensor([2, 1, 3, 1])
PARENTS = (-1, 0, 0, 2)


def steps_of(kind: str) -> tuple[Step, Step]:
    """A step of this kind, and the library's for the same model."""
    if kind == "translated":
        pair = tiny_pair()
        model: Any = pair.draft
        shared = pair.shared
        assert shared is not None
        assert model is not None
        library = TranslatedStep(lambda _: LibraryStep(model, shared.draft.size), shared, ROWS)
        return pair.draft_step(ROWS), library
    if kind == "recurrent":
        weights = LibraryWeights(recurrent_model("qwen3_5_text"))
        return weights.step(VOCABULARY, ROWS), weights.step(VOCABULARY, ROWS)
    model = stir(tiny_model("llama", sigma=0.2))
    library = LibraryStep(model, VOCABULARY)
    if kind == "library":
        return LibraryWeights(model).step(VOCABULARY, ROWS), library
    weights = LeanWeights.take(model)
    assert weights is not None
    if kind == "static":
        return weights.static_step(VOCABULARY, ROWS), library
    assert weights.compiled is not None
    used = weights if kind == "compiled" else replace(weights, compiled=None)
    return used.step(VOCABULARY, ROWS), library


def close(ours: torch.Tensor | None, theirs: torch.Tensor | None) -> None:
    assert ours is not None
    assert theirs is not None
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def refused(missing: object, action: Any) -> None:
    assert isinstance(missing, Missing)
    with pytest.raises(PairError) as error:
        action()
    assert str(error.value) == f"{missing.reason}. {missing.remedy}"
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", DECLARED)
def test_declares_what_it_offers(kind: str) -> None:
    step, _ = steps_of(kind)
    names = [each.name for each in fields(StepCapabilities)]
    assert {name for name in names if getattr(step.capabilities, name)} == DECLARED[kind]


@pytest.mark.parametrize("kind", DECLARED)
def test_feeds_and_forgets(kind: str) -> None:
    step, library = steps_of(kind)
    for each in (step, library):
        each.feed(TEXT, 0)
    close(step.feed(FED, 4), library.feed(FED, 4))
    for each in (step, library):
        each.forget(3)
    assert step.length == library.length == len(TEXT) + 1
    close(step.feed(FED[2:], 1), library.feed(FED[2:], 1))


@pytest.mark.parametrize("kind", DECLARED)
def test_hidden_states(kind: str) -> None:
    step, library = steps_of(kind)
    if "hidden_states" not in DECLARED[kind]:
        refused(step.capabilities.hidden_states, lambda: step.request_hidden(FINAL))
        return
    states = HiddenStates((1, AFTER_NORM, 0))
    for each in (step, library):
        each.request_hidden(states)
        each.feed(TEXT, 0)
    close(step.hidden, library.hidden)
    for num_logits in (0, 1, 3):
        close(step.feed(FED, num_logits)[:num_logits], library.feed(FED, num_logits)[:num_logits])
        close(step.hidden, library.hidden)
    for each in (step, library):
        _branch_or_feed(each)
    close(step.hidden, library.hidden)
    assert step.hidden is not None
    assert step.hidden.shape == (len(FED), 3 * 32)
    assert torch.unique(step.hidden[0].view(3, 32), dim=0).shape[0] == 3


def _branch_or_feed(step: Step) -> None:
    if step.capabilities.trees:
        step.branch(FED, PARENTS)
    else:
        step.feed(FED, 1)


@pytest.mark.parametrize("kind", ["torch", "compiled"])
def test_the_place_after_the_last_layer_is_before_the_norm(kind: str) -> None:
    step, library = steps_of(kind)
    assert isinstance(library, LibraryStep)
    norm: Any = library._model.base_model.norm
    step.request_hidden(HiddenStates((2, AFTER_NORM)))
    step.feed(TEXT, 2)
    assert step.hidden is not None
    before, after = step.hidden.chunk(2, -1)
    with torch.inference_mode():
        close(norm(before), after)
    assert (before - after).abs().max() > 0.1


def test_a_place_outside_the_target_is_refused() -> None:
    with pytest.raises(PairError, match="layer 3 of the target, whose last layer is 2") as error:
        require_places(range(-1, 3), HiddenStates((0, 3)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", DECLARED)
def test_trees(kind: str) -> None:
    step, library = steps_of(kind)
    step.feed(TEXT, 1)
    if "trees" not in DECLARED[kind]:
        refused(step.capabilities.trees, lambda: step.branch(FED, PARENTS))
        refused(step.capabilities.trees, lambda: step.keep(()))
        return
    library.feed(TEXT, 1)
    close(step.branch(FED, PARENTS), library.branch(FED, PARENTS))
    for each in (step, library):
        each.keep((0, 2))
    assert step.length == library.length == len(TEXT) + 2
    close(step.feed(FED, 2), library.feed(FED, 2))


@pytest.mark.parametrize("kind", DECLARED)
def test_early_exits(kind: str) -> None:
    step, library = steps_of(kind)
    exits = step.capabilities.exits
    if isinstance(exits, Missing):
        assert "exits" not in DECLARED[kind]
        refused(exits, lambda: step.early_exit(1))
        return
    assert exits == range(1, 2)
    for layers in (0, 2):
        with pytest.raises(PairError, match=f"An exit after {layers} layers is not possible"):
            step.early_exit(layers)
    early, known = step.early_exit(1), library.early_exit(1)
    for each in (step, library):
        each.feed(TEXT, 1)
    close(early.feed(FED, 4), known.feed(FED, 4))


def test_weights_without_device_rounds_have_no_static_step() -> None:
    weights: StepWeights = LibraryWeights(tiny_model("gpt2"))
    missing = weights.capabilities.device_rounds
    assert "static caches do not support gpt2 models" in str(missing)
    refused(missing, lambda: weights.static_step(VOCABULARY, ROWS))


class _OnlyStatic(StepWeights):
    """Weights whose steps have no hidden states, trees and exits."""

    kind = "lean"

    def __init__(self, weights: StepWeights) -> None:
        self._weights = weights

    @property
    def capabilities(self) -> StepCapabilities:
        return STATIC_CAPABILITIES

    def step(self, vocabulary: int, capacity: int) -> StaticStep:
        return self._weights.static_step(vocabulary, capacity)


@pytest.mark.parametrize(
    ("settings", "lacks"),
    [
        ({"branching": (2, 2)}, STATIC_CAPABILITIES.trees),
        ({"drafter": "early-exit:1"}, STATIC_CAPABILITIES.exits),
        ({"drafter": "tests.engine.test_step_capabilities:Reader"},
         STATIC_CAPABILITIES.hidden_states),
    ],
    ids=str,
)  # fmt: skip
def test_a_run_is_refused_before_its_first_round(settings: dict[str, Any], lacks: object) -> None:
    usual = llama_pair("lean")
    pair = replace(usual, target_weights=_OnlyStatic(usual.target_weights))
    refused(lacks, lambda: speculate(pair, PROMPT, config(**settings)))
    assert list(speculate(pair, PROMPT, config(temperature=0.0)))  # a chain needs none of these


class Reader(_HeadReader):
    """A user's drafter that reads hidden states."""

    def __init__(self, pair: Any, config: RunConfig, capacity: int) -> None:
        del config, capacity
        super().__init__(pair)


@pytest.mark.parametrize("installed", [True, False])
def test_spreading_a_model_over_devices_needs_accelerate(
    monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    monkeypatch.setattr(hardware, "free_memory", lambda _: 1000)
    monkeypatch.setattr(import_utils, "is_accelerate_available", lambda: installed)
    gpu = torch.device("cuda")
    assert not loading._must_spread("a model", 999, gpu, may_spread=True)
    with pytest.raises(DeviceError, match="does not fit in the memory"):
        loading._must_spread("a model", 1001, gpu, may_spread=False)
    if installed:
        assert loading._must_spread("a model", 1001, gpu, may_spread=True)
        return
    with pytest.raises(DeviceError, match="pip install accelerate"):
        loading._must_spread("a model", 1001, gpu, may_spread=True)
