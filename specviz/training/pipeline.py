"""The training pipeline: tokenizer, target, text written by the target, draft.

Stages that an earlier call finished are not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from specviz.training.corpus import Source, TokenStream, draw_batch, encode_documents
from specviz.training.evaluate import agreement, held_out_loss
from specviz.training.loop import StepLoss, TrainingSetup, train
from specviz.training.models import (
    Objective,
    build,
    distillation_loss,
    next_token_loss,
    start_draft_from_target,
    write_own_text,
)
from specviz.training.recipe import OWN_TEXT, Recipe, Schedule
from specviz.training.tokenizer import as_transformers, train_tokenizer

_QUICK_TOKENS = 16_384  # held-out tokens evaluated during training
_REFERENCE = "tinystories"


@dataclass(frozen=True, slots=True, eq=False)
class Streams:
    training: dict[str, TokenStream]
    held_out: dict[str, TokenStream]

    @property
    def reference(self) -> TokenStream:
        """Return the held-out text of TinyStories or, without TinyStories, of the first source."""
        return self.held_out.get(_REFERENCE) or next(iter(self.held_out.values()))


def make_pair(
    sources: dict[str, Source],
    recipe: Recipe,
    out: Path,
    device: torch.device,
    report: Callable[[str], None],
) -> None:
    """Run the unfinished stages; write ``out/pair/target`` and ``out/pair/draft``."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(sources, recipe, out)
    streams = _streams(sources, tokenizer)
    report("tokens: " + ", ".join(f"{n} {len(s.ids):,}" for n, s in streams.training.items()))
    target = _target(recipe, streams, tokenizer, out, device)
    report(f"target trained: {held_out_loss(target, streams.reference):.4f} nats held out")
    streams.training[OWN_TEXT] = _own_text(recipe, target, streams, out, device)
    draft = _draft(recipe, target, streams, tokenizer, out, device)
    report(f"draft trained: {agreement(draft, target, streams.reference)}")
    export(draft, tokenizer, out / "pair" / "draft")
    export(target, tokenizer, out / "pair" / "target")


def export(model: LlamaForCausalLM, tokenizer: Tokenizer, folder: Path) -> None:
    """Write an ordinary transformers folder with fp16 weights."""
    as_transformers(tokenizer).save_pretrained(folder)
    state = model.state_dict()
    del state["lm_head.weight"]  # tied to the embedding
    weights = {name: tensor.half().cpu() for name, tensor in state.items()}
    model.save_pretrained(folder, state_dict=weights)


def _tokenizer(sources: dict[str, Source], recipe: Recipe, out: Path) -> Tokenizer:
    path = out / "tokenizer.json"
    if not path.exists():
        documents = (text for source in sources.values() for text in source.training)
        train_tokenizer(documents, recipe.vocabulary).save(str(path))
    return Tokenizer.from_file(str(path))


def _streams(sources: dict[str, Source], tokenizer: Tokenizer) -> Streams:
    return Streams(
        training={n: encode_documents(tokenizer, s.training) for n, s in sources.items()},
        held_out={n: encode_documents(tokenizer, s.held_out) for n, s in sources.items()},
    )


def _target(
    recipe: Recipe, streams: Streams, tokenizer: Tokenizer, out: Path, device: torch.device
) -> LlamaForCausalLM:
    model = build(recipe.target, tokenizer, recipe.seed, device)

    def quick(model: torch.nn.Module) -> dict[str, float]:
        return {"held_out_loss": round(held_out_loss(model, streams.reference, _QUICK_TOKENS), 4)}

    loss = _losses(model, next_token_loss, streams, recipe.target_schedule, recipe.seed, device)
    _finish(train(model, loss, quick, recipe.target_schedule, TrainingSetup(folder=out / "target")))
    return model


def _own_text(
    recipe: Recipe, target: LlamaForCausalLM, streams: Streams, out: Path, device: torch.device
) -> TokenStream:
    path = out / "own_text.pt"
    if not path.exists():
        openings = streams.training.get(_REFERENCE) or next(iter(streams.training.values()))
        stream = write_own_text(target, openings, recipe.own_text, recipe.seed, device)
        torch.save({"ids": stream.ids, "starts": torch.from_numpy(stream.starts)}, path)
    saved = torch.load(path, weights_only=True)
    return TokenStream(saved["ids"], saved["starts"].numpy())


def _draft(
    recipe: Recipe,
    target: LlamaForCausalLM,
    streams: Streams,
    tokenizer: Tokenizer,
    out: Path,
    device: torch.device,
) -> LlamaForCausalLM:
    model = build(recipe.draft, tokenizer, recipe.seed + 1, device)
    start_draft_from_target(model, target)

    def quick(model: torch.nn.Module) -> dict[str, float]:
        return agreement(model, target, streams.reference, _QUICK_TOKENS).rows()

    schedule = recipe.draft_schedule
    loss = _losses(model, distillation_loss(target), streams, schedule, recipe.seed + 1, device)
    _finish(train(model, loss, quick, schedule, TrainingSetup(folder=out / "draft")))
    return model


def _losses(
    model: LlamaForCausalLM,
    objective: Objective,
    streams: Streams,
    schedule: Schedule,
    seed: int,
    device: torch.device,
) -> StepLoss:
    """Return a function that computes the loss of a step; its batch depends on (seed, step)."""

    def loss(step: int, progress: float) -> torch.Tensor:
        batch = draw_batch(streams.training, schedule.stage_at(step), seed, step)
        return objective(model, batch.to(device), progress)

    return loss


def _finish(steps: Iterator[object]) -> None:
    for _ in steps:
        pass
