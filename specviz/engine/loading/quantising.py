"""Quantise the weights of loaded models on request, and measure the effect on distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from specviz.engine.loading.opening import DRAFT, TARGET, OpenPair, Side
from specviz.engine.model.lean_weights import is_supported
from specviz.engine.model.libraries import loading_errors
from specviz.engine.model.packed_weights import can_join, quantise
from specviz.errors import PairError
from specviz.record.numbers import NATS, PROBABILITY
from specviz.record.pairs import Progress, ProgressCallback
from specviz.record.prompts import read_presets

if TYPE_CHECKING:
    from specviz.engine.model.plain_llama import Model


def quantise_models(
    opened: OpenPair, models: dict[str, Model], on_progress: ProgressCallback
) -> tuple[str, ...]:
    """Quantise models on request; return notices about the effect on the models' distributions."""
    sides = [side for side in opened.sides if side.quantise]
    if not sides:
        return ()
    before = {side.role: _logits(opened, side, models[side.role]) for side in opened.sides}
    for side in sides:
        _quantise(side, models[side.role], on_progress)
    after = before | {side.role: _logits(opened, side, models[side.role]) for side in sides}
    notices = [_difference(side, before[side.role], after[side.role]) for side in sides]
    if DRAFT in models and opened.shared is None:
        notices.append(acceptance_words(*(_acceptance(each) for each in (before, after))))
    return tuple(notices)


def no_kernels(role: str) -> PairError:
    return PairError(
        "Matrix products with quantised weights do not work on this machine.",
        remedy=f"Use --{role}-weights auto.",
    )


def _quantise(side: Side, model: Model, on_progress: ProgressCallback) -> None:
    name, kind = side.source.name, side.quantise.upper()
    matrices = {key: tuple(each.shape) for key, each in model.named_parameters() if each.dim() == 2}
    inner = [shape for key, shape in matrices.items() if ".layers." in key]
    if not is_supported(model) or not can_join([*matrices.values()], inner):
        raise PairError(
            f"The weights of {name} cannot be quantised here.",
            remedy=f"Use --{side.role}-weights auto, or a Llama, Mistral, Qwen2 or Qwen3 model "
            "whose matrices have multiples of 32 columns and of 16 rows.",
        )
    text = f"quantising {side.role} {name} to {kind}"

    def report(done: int, total: int) -> None:
        on_progress(Progress(activity="loading", text=text, done_bytes=done, total_bytes=total))

    try:
        quantise(model, kind, report)
    except ValueError as error:
        raise PairError(
            f"The weights of {name} are too large for {kind}.",
            remedy=f"Use --{side.role}-weights auto.",
        ) from error


@torch.inference_mode()
def _logits(opened: OpenPair, side: Side, model: Model) -> torch.Tensor:
    """Return the logits after each token of a preset prompt; logits of padding ids are left out.

    Target and draft get the same tokens unless their tokenizers differ.
    """
    reader = side if opened.shared else opened.sides[0]
    size = opened.vocabulary_of(side.role)
    ids = [each for each in reader.tokenizer.encode(read_presets()[0].text) if each < size]
    with loading_errors(side.source.name, "model"):
        return model(torch.tensor([ids]), use_cache=False).logits[0, :, :size].float()


def _difference(side: Side, before: torch.Tensor, after: torch.Tensor) -> str:
    old, new = before.log_softmax(-1), after.log_softmax(-1)
    kl = float((old.exp() * (old - new)).sum(-1).mean())
    distance = float((old.exp() - new.exp()).abs().sum(-1).mean()) / 2
    return (
        f"The weights of {side.source.name} are quantised to {side.quantise.upper()}. "
        f"{change_words(len(before), kl, distance)}"
    )


def change_words(tokens: int, kl: float, distance: float) -> str:
    return (
        f"Over {tokens} tokens of a preset prompt, the mean KL divergence from the original is "
        f"{NATS.bare(kl)} nats and the mean total variation is {PROBABILITY.bare(distance)}."
    )


def acceptance_words(before: float, after: float) -> str:
    return (
        "The expected acceptance at temperature 1 on these tokens changes from "
        f"{PROBABILITY.bare(before)} to {PROBABILITY.bare(after)}."
    )


def _acceptance(logits: dict[str, torch.Tensor]) -> float:
    """Return the expected acceptance, Σ min(draft, target), averaged over the tokens."""
    draft, target = (logits[role].softmax(-1) for role in (DRAFT, TARGET))
    return float(torch.minimum(draft, target).sum(-1).mean())
