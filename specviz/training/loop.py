"""The training loop, with two optimisers, exactly resumable checkpoints and a log.

The caller passes two functions: the loss of a step, which also draws the step's batch, and the
evaluation.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from specviz.errors import TrainingError
from specviz.values import Value

StepLoss = Callable[[int, float], torch.Tensor]
"""The loss of a step, given its number and the share of the training that is done."""
Evaluation = Callable[[nn.Module], dict[str, Any]]

_EVALUATE_EVERY = 100


class Pace(Protocol):
    """The learning rates and their schedule: warm-up, plateau, linear decay to zero."""

    @property
    def total_steps(self) -> int: ...
    @property
    def warmup_steps(self) -> int: ...
    @property
    def decay_share(self) -> float: ...
    @property
    def matrix_rate(self) -> float: ...  # Muon, for the matrices inside the layers
    @property
    def vector_rate(self) -> float: ...  # AdamW, for everything else


class TrainingSetup(Value):
    """Where and how often a training run saves checkpoints, and whether it saves the best weights.

    ``best_by``: the name of an evaluation result. The best weights are those with the highest value
    of this result so far. If ``best_by`` is empty, only checkpoints are saved.
    """

    folder: Path
    checkpoint_seconds: float = 50.0
    best_by: str = ""


def train(
    model: nn.Module,
    step_loss: StepLoss,
    evaluation: Evaluation,
    pace: Pace,
    setup: TrainingSetup,
) -> Iterator[dict[str, Any]]:
    """Train the model in place; after each step, yield its number, loss and seconds.

    Every ``_EVALUATE_EVERY`` steps and after the last step, also yield the results of
    ``evaluation``.

    Training resumes from the folder's checkpoint if there is one. No step is lost if the caller
    stops between steps. An error in a step, or the end of the process, loses the steps after the
    last checkpoint.
    """
    setup.folder.mkdir(parents=True, exist_ok=True)
    optimisers = make_optimisers(model, pace)
    checkpoint = setup.folder / "checkpoint.pt"
    state = _resume(checkpoint, model, optimisers) if checkpoint.exists() else _State()
    done = state.step
    saved, whole = time.monotonic(), True  # whether the weights are those after a whole step
    try:
        while done < pace.total_steps:
            started, whole = time.monotonic(), False
            loss = _optimise(
                model, step_loss, optimisers, _rate(pace, done), done, done / pace.total_steps
            )
            done, whole = done + 1, True
            row: dict[str, Any] = {"step": done, "loss": round(loss, 4)}
            row["seconds"] = round(time.monotonic() - started, 4)
            if done % _EVALUATE_EVERY == 0 or done == pace.total_steps:
                row |= evaluation(model)
            _log(setup.folder / "log.jsonl", row)
            if setup.best_by in row and row[setup.best_by] > state.best:
                state.best = row[setup.best_by]
                _write(setup.folder / "best.pt", {"step": done, "model": model.state_dict()})
            if time.monotonic() - saved >= setup.checkpoint_seconds:
                _save(checkpoint, model, optimisers, done, state.best)
                saved = time.monotonic()
            yield row
    finally:
        if whole and done > state.step:
            _save(checkpoint, model, optimisers, done, state.best)


def autocast(device: torch.device) -> torch.autocast:
    """Return a context that casts to bfloat16, which is fast on GPUs and on AVX-512 CPUs."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type in ("cuda", "cpu"))


def _rate(schedule: Pace, step: int) -> float:
    """Return the factor, from 0 to 1, that multiplies the learning rate at this step."""
    warmup = min(1.0, (step + 1) / schedule.warmup_steps)
    left = (schedule.total_steps - step) / schedule.total_steps
    return min(warmup, 1.0, left / schedule.decay_share)


def make_optimisers(model: nn.Module, schedule: Pace) -> list[torch.optim.Optimizer]:
    matrices = [
        p for name, p in model.named_parameters()
        if p.ndim == 2 and "embed" not in name and "head" not in name
    ]  # fmt: skip
    inner = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in inner]
    muon = torch.optim.Muon(
        matrices, lr=schedule.matrix_rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"
    )
    adamw = torch.optim.AdamW(
        others, lr=schedule.vector_rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True
    )
    for optimiser in (muon, adamw):
        for group in optimiser.param_groups:
            group["full_rate"] = group["lr"]
    return [muon, adamw]


def _optimise(
    model: nn.Module,
    step_loss: StepLoss,
    optimisers: list[torch.optim.Optimizer],
    rate: float,
    step: int,
    progress: float,
) -> float:
    model.train()
    loss = step_loss(step, progress)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group["full_rate"] * rate
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    return float(loss.detach())


@dataclass(slots=True)
class _State:
    """The step of a checkpoint, and the best evaluation result so far."""

    step: int = 0
    best: float = float("-inf")


def _save(
    path: Path, model: nn.Module, optimisers: list[torch.optim.Optimizer], step: int, best: float
) -> None:
    state = {
        "step": step,
        "best": best,
        "model": model.state_dict(),
        "optimisers": [optimiser.state_dict() for optimiser in optimisers],
    }
    _write(path, state)


def _write(path: Path, state: dict[str, Any]) -> None:
    """Save atomically, so that an interrupted save keeps the previous file."""
    partial = path.with_suffix(".partial")
    try:
        torch.save(state, partial)
        os.replace(partial, path)
    except (OSError, RuntimeError) as error:
        partial.unlink(missing_ok=True)
        raise TrainingError(
            f"{path.name} cannot be written: {str(error).splitlines()[0][:200]}.",
            remedy="Free some space; the last checkpoint is kept.",
        ) from None


def _resume(path: Path, model: nn.Module, optimisers: list[torch.optim.Optimizer]) -> _State:
    state = torch.load(path, weights_only=True)
    try:
        model.load_state_dict(state["model"])
    except RuntimeError:  # written by a version whose drafts had other matrices
        raise TrainingError(
            f"{path.name} has the weights of another draft.", remedy="Choose another folder."
        ) from None
    for optimiser, saved in zip(optimisers, state["optimisers"], strict=True):
        optimiser.load_state_dict(saved)
    return _State(int(state["step"]), float(state.get("best", float("-inf"))))


def _log(path: Path, row: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
