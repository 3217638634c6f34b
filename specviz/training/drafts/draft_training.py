"""Train a draft: the target writes texts, its hidden states are stored, and the draft learns.

Everything is stored in one folder, so an interrupted training can resume at any stage:

* ``plan.json``: the plan and the target; in this folder, any other plan or target raises an error;
* ``texts-*.safetensors``, ``hidden-*.safetensors``: the texts and the hidden states, in batches;
* ``checkpoint.pt``, ``best.pt``, ``log.jsonl``: the training's checkpoints and log;
* ``draft/``: the best draft so far, with its acceptance over the steps (``curve.jsonl``).
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from specviz.engine import Pair
from specviz.errors import TrainingError
from specviz.store.files import write_file
from specviz.training.drafts.batched_target import BatchedTarget
from specviz.training.drafts.curves import CURVE, curve_text, logged_curves
from specviz.training.drafts.draft import Draft
from specviz.training.drafts.eagle3 import Eagle3Draft
from specviz.training.drafts.kept_trainings import PLAN, plan_stated
from specviz.training.drafts.losses import Learned
from specviz.training.drafts.medusa import MedusaDraft
from specviz.training.drafts.plan import TrainingPlan
from specviz.training.drafts.progress import Progress, TextFigures, Trained, TrainedDraft
from specviz.training.drafts.small import SmallDraft
from specviz.training.drafts.stored_states import (
    ComputedStates,
    StoredStates,
    Windows,
    fits,
    store_states,
)
from specviz.training.drafts.target_weights import TargetWeights
from specviz.training.drafts.worth import tokens_per_round
from specviz.training.drafts.written_texts import Text, WrittenTexts, collect, read_texts
from specviz.training.loop import TrainingSetup, train

_WARMUP = 20  # steps
_DECAY = 0.6  # share of the steps
_EVALUATED = 64  # held-out texts
_BEST_BY = "expected"


@dataclass(frozen=True, slots=True)
class Rates:
    total_steps: int
    matrix_rate: float
    vector_rate: float
    warmup_steps: int = _WARMUP
    decay_share: float = _DECAY


def train_draft(pair: Pair, plan: TrainingPlan, folder: Path) -> Generator[Progress]:
    """Start or resume the training; yield its progress.

    Raises:
        TrainingError: The folder belongs to another plan or target, or cannot be written.
    """
    weights = TargetWeights.of(pair)
    keep_plan(pair, plan, folder)
    longest = min(plan.texts.longest, pair.max_context or plan.texts.longest)
    target = BatchedTarget(weights.lean, pair.vocabulary, longest)
    yield from collect(pair, target, plan.texts, folder)
    texts = read_texts(plan.texts, folder)
    kept, covered = kept_tokens(texts, plan.vocabulary, weights.vocabulary)
    torch.manual_seed(plan.seed)
    draft = make_draft(pair, weights, plan, kept)
    stored = fits(texts, target, draft.places, folder)
    yield TextFigures(
        texts=len(texts.texts),
        tokens=texts.tokens,
        ended=texts.ended,
        repetition=texts.repetition(),
        repeated=texts.repeated,
        covered=covered,
        stored=stored,
    )
    if stored:
        yield from store_states(target, texts, draft.places, folder)
    training, held_out = (
        StoredStates(part, plan.length, folder)
        if stored
        else ComputedStates(part, plan.length, target, draft.places)
        for part in _parts(texts)
    )
    yield from _learn(draft, plan, training, held_out, folder)


def make_draft(pair: Pair, target: TargetWeights, plan: TrainingPlan, kept: torch.Tensor) -> Draft:
    """Return the draft that the plan names, with its initial weights."""
    match plan.kind:
        case "eagle3":
            places = read_places(len(target.layers))
            return Eagle3Draft(target, places, kept, plan.positions)
        case "medusa":
            return MedusaDraft(target, kept, plan.positions)
        case "small":
            return SmallDraft(pair, target, kept, plan.layers, plan.positions)


def keep_plan(pair: Pair, plan: TrainingPlan, folder: Path) -> None:
    """Write the plan into the folder.

    Raises:
        TrainingError: The folder belongs to another plan or target, or cannot be used.
    """
    target = {"target": pair.info.target.weights_sha256, "name": pair.info.target.name}
    own = json.loads(json.dumps(target | asdict(plan)))
    found = _read_plan(folder)
    if found is None:
        write_file(folder / PLAN, json.dumps(own, indent=2) + "\n")
    elif found.get("target") != own["target"]:
        raise TrainingError(
            f"{folder.name} has the texts of another target, or its files have changed.",
            remedy="Choose another folder for this target.",
        )
    elif changed := [name for name in own if name != "steps" and found.get(name) != own[name]]:
        raise TrainingError(
            f"{folder.name} was started with another {changed[0]}.",
            remedy="Give the same settings to resume, or choose another folder.",
        )


def _read_plan(folder: Path) -> dict[str, Any] | None:
    """Return the values in a folder's plan file; None if there is no plan file."""
    path = folder / PLAN
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return plan_stated(path) if path.exists() else None
    except OSError as error:
        raise TrainingError(
            f"{folder.name} cannot be used: {error.strerror}.", remedy="Choose another folder."
        ) from None
    except ValueError:
        raise TrainingError(
            f"{path.name} of {folder.name} is damaged.", remedy="Choose another folder."
        ) from None


def kept_tokens(texts: WrittenTexts, count: int, vocabulary: int) -> tuple[torch.Tensor, float]:
    """Return the token ids that the draft can propose.

    Also return the share of the written tokens that have one of these ids.
    """
    written = torch.cat([each.ids[each.written] for each in texts.texts]).long()
    often = torch.bincount(written, minlength=vocabulary)
    if not 0 < count < vocabulary:
        return torch.arange(vocabulary), 1.0
    kept = often.sort(descending=True, stable=True).indices[:count].sort().values
    return kept, float(often[kept].sum() / often.sum().clamp(min=1))


def read_places(layers: int) -> tuple[int, int, int]:
    """Return the layers whose inputs an EAGLE-3 head uses.

    These are the layers that the authors of EAGLE-3 chose. If the target has few layers, they are
    its last three layers.
    """
    if layers < 3:
        raise TrainingError(
            f"The target has {layers} layers, and an EAGLE-3 head reads three.",
            remedy="Train Medusa heads.",
        )
    low, middle, high = 2, layers // 2, layers - 3
    return (low, middle, high) if low < middle < high else (layers - 3, layers - 2, layers - 1)


def _parts(texts: WrittenTexts) -> tuple[list[Text], list[Text]]:
    """Return the texts to train on, and held-out texts for the evaluations."""
    training, held_out = ([texts.texts[i] for i in part] for part in texts.parts)
    return training, held_out[:_EVALUATED]


def _learn(
    draft: Draft, plan: TrainingPlan, source: Windows, check: Windows, folder: Path
) -> Iterator[Progress]:
    def loss(step: int, progress: float) -> torch.Tensor:
        window = source.draw(plan.batch, (plan.seed, step))
        later = (progress - plan.overlap_from) / max(1e-9, 1 - plan.overlap_from)
        return draft.learn(window, min(1.0, max(0.0, later))).loss

    pace = Rates(plan.steps, matrix_rate=plan.rate, vector_rate=plan.rate)
    setup = TrainingSetup(folder=folder, best_by=_BEST_BY)
    best = float("-inf")
    for row in train(draft, loss, partial(_evaluate, check, plan.batch), pace, setup):
        figures = _figures(row)
        is_best = figures["expected"] > best if "accepted" in row else False
        best = max(best, figures["expected"])
        yield Trained(
            step=row["step"],
            planned=plan.steps,
            loss=row["loss"],
            seconds=row["seconds"],
            best=is_best,
            **figures,
        )
    yield _finish(draft, folder, check, plan)


def _figures(row: dict[str, Any]) -> dict[str, Any]:
    accepted, agreeing = (tuple(row.get(name, ())) for name in ("accepted", "agreeing"))
    return {"accepted": accepted, "agreeing": agreeing, "expected": row.get(_BEST_BY, 0.0)}


@torch.no_grad()
def _evaluate(check: Windows, batch: int, draft: nn.Module) -> dict[str, Any]:
    assert isinstance(draft, Draft)
    draft.eval()
    found: list[Learned] = [draft.learn(window, 0.0) for window in check.all(batch)]
    places = torch.stack([each.places for each in found]).sum(0).clamp(min=1)
    accepted, agreeing = (
        (torch.stack([getattr(each, name) for each in found]).sum(0) / places).tolist()
        for name in ("accepted", "agreeing")
    )
    return {
        "accepted": [round(each, 4) for each in accepted],
        "agreeing": [round(each, 4) for each in agreeing],
        _BEST_BY: round(tokens_per_round(accepted, len(accepted)) - 1.0, 4),
    }


def _finish(draft: Draft, folder: Path, check: Windows, plan: TrainingPlan) -> TrainedDraft:
    """Write the best draft as a folder that can be loaded like any draft; return the result."""
    saved = folder / "best.pt"
    step = plan.steps
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        draft.load_state_dict(state["model"])
        step = int(state["step"])
    figures = _figures(_evaluate(check, plan.batch, draft))
    made = folder / "draft"
    draft.write(made)
    write_file(made / CURVE, curve_text(logged_curves(folder, plan.steps)))
    return TrainedDraft(folder=str(made), step=step, **figures)
