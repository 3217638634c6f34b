"""Drafts are trained on the device: states are stored, the draft learns, and training resumes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.engine import Pair
from tests.engine.models import pair_of, tiny_model
from tests.training.drafts.tiny_training import (
    LAYERS,
    PLAN,
    VOCABULARY,
    carried_out,
    result_of,
    silence,
)

pytestmark = pytest.mark.gpu


def target_on(device: str) -> Pair:
    """Return a target whose next token depends on the last token only."""
    model = tiny_model("llama", vocabulary=VOCABULARY, sigma=0.25, num_hidden_layers=LAYERS)
    silence(model)
    return pair_of(model, None, step="lean", device=device)


@pytest.mark.parametrize("kind", ["eagle3", "small", "medusa"])
def test_a_draft_learns_its_target_on_the_device(device: str, kind: Any, tmp_path: Path) -> None:
    plan = replace(PLAN, kind=kind, steps=300, rate=2e-2)
    accepted = result_of(carried_out(plan, tmp_path, target_on(device))).accepted
    print(f"{kind}: acceptance by position {[round(each, 3) for each in accepted]}")
    assert accepted[0] > (0.4 if kind == "medusa" else 0.9)


def test_training_resumes_on_the_device(device: str, tmp_path: Path) -> None:
    pair = target_on(device)
    carried_out(replace(PLAN, steps=20), tmp_path, pair)
    longer = result_of(carried_out(replace(PLAN, steps=60), tmp_path, pair))
    assert longer.accepted[0] > 0.0
