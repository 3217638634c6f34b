"""The training loop: stages, two optimisers, exactly resumable checkpoints and a log.

The caller passes the objective, which maps a model and a batch to a loss, and the evaluation.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from specviz.training.corpus import TokenStream, draw_batch
from specviz.training.recipe import Schedule, Stage

Objective = Callable[[nn.Module, torch.Tensor, float], torch.Tensor]
Evaluation = Callable[[nn.Module], dict[str, float]]

_EVALUATE_EVERY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSetup:
    """The device, seed and output folder of a training run."""

    device: torch.device
    seed: int
    folder: Path
    checkpoint_seconds: float = 180.0


def train(
    model: nn.Module,
    objective: Objective,
    evaluation: Evaluation,
    streams: dict[str, TokenStream],
    schedule: Schedule,
    setup: TrainingSetup,
) -> None:
    """Train the model in place, resuming from the folder's checkpoint if there is one."""
    setup.folder.mkdir(parents=True, exist_ok=True)
    optimisers = _make_optimisers(model, schedule)
    checkpoint = setup.folder / "checkpoint.pt"
    first = _resume(checkpoint, model, optimisers) if checkpoint.exists() else 0
    saved = time.monotonic()
    for step, stage in _steps(schedule, first):
        started = time.monotonic()
        progress = step / schedule.total_steps
        rate = _rate(schedule, step)
        batch = draw_batch(streams, stage, setup.seed, step).to(setup.device)
        loss = _optimise(model, objective, optimisers, batch, rate, progress)
        done = step + 1
        row = {"step": done, "loss": round(loss, 4), "rate": round(rate, 4)}
        row["tokens_per_second"] = round(batch.numel() / (time.monotonic() - started))
        if done % _EVALUATE_EVERY == 0 or done == schedule.total_steps:
            row |= evaluation(model)
        _log(setup.folder / "log.jsonl", row)
        if time.monotonic() - saved >= setup.checkpoint_seconds or done == schedule.total_steps:
            _save(checkpoint, model, optimisers, done)
            saved = time.monotonic()


def autocast(device: torch.device) -> torch.autocast:
    """Return a context that casts to bfloat16, which is fast on GPUs and on AVX-512 CPUs."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type in ("cuda", "cpu"))


def _steps(schedule: Schedule, first: int) -> Iterator[tuple[int, Stage]]:
    step = 0
    for stage in schedule.stages:
        for _ in range(stage.steps):
            if step >= first:
                yield step, stage
            step += 1


def _rate(schedule: Schedule, step: int) -> float:
    """Return the factor of the learning rate at this step, from 0 to 1."""
    warmup = min(1.0, (step + 1) / schedule.warmup_steps)
    left = (schedule.total_steps - step) / schedule.total_steps
    return min(warmup, 1.0, left / schedule.decay_share)


def _make_optimisers(model: nn.Module, schedule: Schedule) -> list[torch.optim.Optimizer]:
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "layers." in name]
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
    objective: Objective,
    optimisers: list[torch.optim.Optimizer],
    batch: torch.Tensor,
    rate: float,
    progress: float,
) -> float:
    model.train()
    loss = objective(model, batch, progress)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group["full_rate"] * rate
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    return float(loss.detach())


def _save(path: Path, model: nn.Module, optimisers: list[torch.optim.Optimizer], step: int) -> None:
    """Save the checkpoint atomically, so that an interrupted save keeps the previous one."""
    state = {
        "step": step,
        "model": model.state_dict(),
        "optimisers": [optimiser.state_dict() for optimiser in optimisers],
    }
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    os.replace(partial, path)


def _resume(path: Path, model: nn.Module, optimisers: list[torch.optim.Optimizer]) -> int:
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    for optimiser, saved in zip(optimisers, state["optimisers"], strict=True):
        optimiser.load_state_dict(saved)
    return int(state["step"])


def _log(path: Path, row: dict[str, float]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
