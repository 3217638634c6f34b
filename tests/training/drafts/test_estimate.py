"""The predicted cost of a training: sizes of drafts, disk space, time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from specviz.record.bodies import ModelShape, Shape
from specviz.record.body_costs import BodyRoom
from specviz.training.drafts.draft import Draft
from specviz.training.drafts.draft_training import Rates, make_draft
from specviz.training.drafts.estimate import (
    PLACES,
    draft_size,
    estimate,
    learning_operations,
    long_time,
    measured_arithmetic,
    state_bytes,
    update_operations,
)
from specviz.training.drafts.plan import KINDS, DraftKind, TextPlan, TrainingPlan
from specviz.training.drafts.stored_states import Window
from specviz.training.drafts.target_weights import TargetWeights
from specviz.training.loop import make_optimisers
from tests.engine.models import pair_of, tiny_model
from tests.training.drafts.tiny_training import PLAN, TEXTS, carried_out, tiny_target

LLAMA = ModelShape(
    shape=Shape(width=2048, feed_forward=8192, layers=16), heads=32, key_heads=8, head_width=64,
    vocabulary=128256, tied=True,
)  # fmt: skip
ROOM = BodyRoom(target=LLAMA, draft=None, bandwidth=20e9, memory_free=16 * 10**9, itemsize=4)
COSTLY = TrainingPlan(texts=TextPlan(count=4000), steps=10_000)


def tiny_shape() -> ModelShape:
    return model_shape(TargetWeights.of(tiny_target()))


def model_shape(target: TargetWeights) -> ModelShape:
    lean = target.lean
    return ModelShape(
        shape=Shape(width=target.width, feed_forward=target.inner, layers=len(target.layers)),
        heads=lean.heads, key_heads=lean.key_heads, head_width=lean.head_width,
        vocabulary=target.vocabulary, tied=bool(target.config.tie_word_embeddings),
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vocabulary", [0, 16])
def test_sizes_are_those_of_the_drafts(kind: DraftKind, vocabulary: int) -> None:
    """Norms, which have one dimension, are not counted."""
    pair, plan = tiny_target(), replace(PLAN, kind=kind, vocabulary=vocabulary)
    kept = torch.arange(vocabulary or pair.vocabulary)
    draft: Draft = make_draft(pair, TargetWeights.of(pair), plan, kept)
    matrices = sum(each.numel() for each in draft.parameters() if each.ndim > 1)
    biases = plan.positions * tiny_shape().shape.width if kind == "medusa" else 0
    assert draft_size(plan, tiny_shape()).trained == matrices + biases


def test_states_take_the_predicted_space(tmp_path: Path) -> None:
    carried_out(replace(PLAN, steps=1), tmp_path)
    written = sum(each.stat().st_size for each in tmp_path.glob("hidden-*"))
    texts = sum(each.stat().st_size for each in tmp_path.glob("texts-*"))
    width = tiny_shape().shape.width
    tokens = written / state_bytes(width, PLACES)
    assert tokens <= TEXTS.count * TEXTS.longest
    assert texts / tokens < 6  # five bytes and a header


@pytest.mark.parametrize(
    "change",
    [{"steps": 20_000}, {"batch": 16}, {"texts": TextPlan(count=8000)}],
    ids=["steps", "batch", "texts"],
)
def test_more_of_anything_takes_longer(change: dict[str, object]) -> None:
    less, more = (estimate(plan, ROOM, 1e11) for plan in (COSTLY, replace(COSTLY, **change)))
    assert less is not None
    assert more is not None
    assert more.seconds > less.seconds
    assert more.c == less.c


def test_fewer_tokens_to_propose_make_a_step_cheaper() -> None:
    small, large = (estimate(replace(COSTLY, vocabulary=count), ROOM, 1e11) for count in (4096, 0))
    assert small is not None
    assert large is not None
    assert small.c < 0.1 < large.c
    assert small.disk_bytes < large.disk_bytes


@pytest.mark.parametrize(
    ("kind", "draft_bytes"), [("eagle3", 34 / 32), ("medusa", 4 * 0.62), ("small", 4 * 0.62)]
)
def test_c_of_a_quantised_target_is_larger(kind: DraftKind, draft_bytes: float) -> None:
    """Its steps read fewer bytes, but more slowly. Only an EAGLE head is quantised, to Q8_0."""
    quantised = replace(ROOM, target=replace(LLAMA, quantised=(0.5, 0.5)))
    plan = replace(COSTLY, kind=kind)
    one, other = (estimate(plan, each, 1e11) for each in (ROOM, quantised))
    assert one is not None
    assert other is not None
    assert other.c == pytest.approx(8 * draft_bytes / 4 * one.c, rel=0.1)  # a head's fixed time


WIDE: dict[str, Any] = {
    "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 32, "num_hidden_layers": 4,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vocabulary", [0, 512])
def test_a_step_has_the_predicted_operations(kind: DraftKind, vocabulary: int) -> None:
    """They are counted in the draft's own passes, gradients and updates."""
    pair = pair_of(tiny_model("llama", vocabulary=2048, **WIDE), None, step="lean")
    plan = TrainingPlan(kind=kind, vocabulary=vocabulary, batch=2, length=64)
    target = TargetWeights.of(pair)
    draft = make_draft(pair, target, plan, torch.arange(vocabulary or 2048))
    shape = (plan.batch, plan.length)
    window = Window(
        ids=torch.randint(2048, shape), states=torch.randn(*shape, 256 * len(draft.places)),
        final=torch.randn(*shape, 256), log_sum=torch.full(shape, 30.0),
        best=torch.zeros(shape).long(), written=torch.ones(shape).bool(),
    )  # fmt: skip
    muon, _ = make_optimisers(draft, Rates(10, 1e-3, 1e-3))
    with FlopCounterMode(display=False) as learning:
        draft.learn(window, 0.5).loss.backward()
    with FlopCounterMode(display=False) as updating:
        muon.step()
    shape_of_target = model_shape(target)
    rows = plan.batch * (plan.length - (0 if kind == "small" else plan.positions))
    predicted = rows * learning_operations(plan, shape_of_target)
    assert 0.7 < predicted / learning.get_total_flops() < 1.3
    updates = update_operations(plan, shape_of_target)
    assert updates == pytest.approx(updating.get_total_flops(), rel=0.01)


def test_slow_updates_make_a_training_longer() -> None:
    """Without instructions for bfloat16, updates take a fifth to two thirds of a training."""
    fast, slow = (estimate(COSTLY, ROOM, 1e11, share) for share in (1.0, 0.18))
    assert fast is not None
    assert slow is not None
    assert 1.2 * fast.training < slow.training < 3 * fast.training


def test_words_say_cost_space_and_time() -> None:
    found = estimate(COSTLY, ROOM, 1e11)
    assert found is not None
    assert found.words.startswith("c about 0.0")
    assert "GB of disk" in found.words
    assert found.words.endswith("hours")
    assert (long_time(60), long_time(3 * 3600)) == ("60 s", "3.0 hours")


def test_a_target_of_unknown_shape_has_no_estimate() -> None:
    assert estimate(COSTLY, replace(ROOM, target=None), 1e11) is None


def test_the_arithmetic_of_this_machine_is_plausible() -> None:
    assert 1e8 < measured_arithmetic() < 1e15
