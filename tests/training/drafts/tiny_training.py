"""A tiny target whose next token depends on the last token only, and plans to learn from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from specviz.engine import Pair
from specviz.training.drafts.draft_training import train_draft
from specviz.training.drafts.plan import TextPlan, TrainingPlan
from specviz.training.drafts.progress import Progress, Trained, TrainedDraft
from tests.engine.models import pair_of, tiny_model

VOCABULARY = 64
LAYERS = 4
TEXTS = TextPlan(count=96, longest=40, together=32)
PLAN = TrainingPlan(texts=TEXTS, vocabulary=0, steps=24, batch=8, length=32, rate=1e-2)


@cache
def tiny_target() -> Pair:
    """Return a target without attention and feed-forward: they add nothing to the stream."""
    model = tiny_model("llama", vocabulary=VOCABULARY, sigma=0.25, num_hidden_layers=LAYERS)
    silence(model)
    pair = pair_of(model, None, step="lean", eos_ids=(0,))
    pair.info = replace(pair.info, target=replace(pair.info.target, weights_sha256="a target"))
    return pair


@torch.no_grad()
def silence(model: Any) -> None:
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()


def carried_out(plan: TrainingPlan, folder: Path, pair: Pair | None = None) -> list[Progress]:
    return list(train_draft(pair or tiny_target(), plan, folder))


def steps_of(values: list[Progress]) -> Iterator[Trained]:
    return (each for each in values if isinstance(each, Trained))


def result_of(values: list[Progress]) -> TrainedDraft:
    last = values[-1]
    assert isinstance(last, TrainedDraft)
    return last
