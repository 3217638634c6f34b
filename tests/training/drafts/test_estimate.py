"""The predicted cost of a training: sizes of drafts, disk space, time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specviz.record.bodies import ModelShape, Shape
from specviz.record.body_costs import BodyRoom
from specviz.training.drafts.draft import Draft
from specviz.training.drafts.draft_training import make_draft
from specviz.training.drafts.estimate import (
    PLACES,
    draft_size,
    estimate,
    long_time,
    measured_arithmetic,
    state_bytes,
)
from specviz.training.drafts.plan import KINDS, DraftKind, TextPlan, TrainingPlan
from specviz.training.drafts.target_weights import TargetWeights
from tests.training.drafts.tiny_training import PLAN, TEXTS, carried_out, tiny_target

LLAMA = ModelShape(
    shape=Shape(width=2048, feed_forward=8192, layers=16), heads=32, key_heads=8, head_width=64,
    vocabulary=128256, tied=True,
)  # fmt: skip
ROOM = BodyRoom(target=LLAMA, draft=None, bandwidth=20e9, memory_free=16 * 10**9, itemsize=4)
COSTLY = TrainingPlan(texts=TextPlan(count=4000), steps=10_000)


def tiny_shape() -> ModelShape:
    target = TargetWeights.of(tiny_target())
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
    ("kind", "draft_bytes"), [("eagle3", 34 / 32), ("medusa", 4), ("small", 4)]
)
def test_c_of_a_quantised_target_is_larger(kind: DraftKind, draft_bytes: float) -> None:
    """Its steps read fewer bytes. An EAGLE head is quantised to Q8_0, other drafts are not."""
    quantised = replace(ROOM, target=replace(LLAMA, quantised=(0.5, 0.5)))
    plan = replace(COSTLY, kind=kind)
    one, other = (estimate(plan, each, 1e11) for each in (ROOM, quantised))
    assert one is not None
    assert other is not None
    assert other.c == pytest.approx(8 * draft_bytes / 4 * one.c)


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
