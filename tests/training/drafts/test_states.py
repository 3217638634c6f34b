"""Hidden states: stored, or computed by each step where they do not fit on the disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specviz.training.drafts.batched_target import BatchedTarget
from specviz.training.drafts.draft_training import read_places, train_draft
from specviz.training.drafts.progress import Computing, TextFigures
from specviz.training.drafts.stored_states import ComputedStates, StoredStates, fits
from specviz.training.drafts.target_weights import TargetWeights
from specviz.training.drafts.written_texts import read_texts
from tests.engine.models import pair_of, tiny_model
from tests.training.drafts.tiny_training import (
    LAYERS,
    PLAN,
    TEXTS,
    VOCABULARY,
    carried_out,
    result_of,
)

PLACES = read_places(LAYERS)
FREE = 1 << 40


def room_of(free: int) -> Callable[[Any], Any]:
    return lambda _folder: SimpleNamespace(free=free)


def test_computed_windows_equal_stored_ones(tmp_path: Path) -> None:
    """The target's states depend on all tokens before them."""
    model = tiny_model("llama", vocabulary=VOCABULARY, num_hidden_layers=LAYERS, sigma=0.25)
    pair = pair_of(model, None, step="lean", eos_ids=(0,))
    list(train_draft(pair, replace(PLAN, steps=1), tmp_path))
    texts = read_texts(TEXTS, tmp_path).texts
    target = BatchedTarget(TargetWeights.of(pair).lean, VOCABULARY, TEXTS.longest)
    stored = StoredStates(texts, 12, tmp_path)
    computed = ComputedStates(texts, 12, target, PLACES)
    windows = [[each.draw(5, (3, step)) for step in range(6)] for each in (computed, stored)]
    windows[0] += computed.all(5)
    windows[1] += stored.all(5)
    for ours, theirs in zip(*windows, strict=True):
        for name in ("ids", "written"):
            assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
        for name in ("states", "final", "log_sum"):
            torch.testing.assert_close(
                getattr(ours, name), getattr(theirs, name), atol=2e-3, rtol=2e-3
            )
        assert (ours.best == theirs.best).float().mean() > 0.98


def test_without_room_a_training_stores_no_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(PLAN, steps=12)
    ample = carried_out(plan, tmp_path / "ample")
    monkeypatch.setattr(shutil, "disk_usage", room_of(0))
    tight = carried_out(plan, tmp_path / "tight")
    figures = [
        next(each for each in values if isinstance(each, TextFigures)) for values in (ample, tight)
    ]
    assert [each.stored for each in figures] == [True, False]
    assert not list((tmp_path / "tight").glob("hidden-*"))
    assert not any(isinstance(each, Computing) for each in tight)
    ours, theirs = result_of(tight).accepted, result_of(ample).accepted
    assert ours == pytest.approx(theirs, abs=0.03)


def test_only_missing_states_need_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried_out(replace(PLAN, steps=1), tmp_path)
    pair = pair_of(tiny_model("llama", vocabulary=VOCABULARY), None, step="lean")
    target = BatchedTarget(TargetWeights.of(pair).lean, VOCABULARY, TEXTS.longest)
    texts = read_texts(TEXTS, tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", room_of(1 << 30))
    assert fits(texts, target, PLACES, tmp_path)
    for each in tmp_path.glob("hidden-*"):
        each.unlink()
    assert not fits(texts, target, PLACES, tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", room_of(FREE))
    assert fits(texts, target, PLACES, tmp_path)
