"""The two models: construction, losses, and text generation by the target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import nn
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from specviz.record.bodies import Shape
from specviz.training.corpus import END_OF_TEXT, TokenStream, stream_of
from specviz.training.loop import autocast
from specviz.training.recipe import CONTEXT_LENGTH, HEAD_WIDTH, OwnText

Objective = Callable[[nn.Module, torch.Tensor, float], torch.Tensor]
"""The loss of a batch, given the share of the training that is done."""


def build(shape: Shape, tokenizer: Tokenizer, seed: int, device: torch.device) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    end_id = tokenizer.token_to_id(END_OF_TEXT)
    config = llama_config(
        shape,
        tokenizer.get_vocab_size(),
        bos_token_id=end_id,
        eos_token_id=end_id,
        pad_token_id=end_id,
    )
    model: Any = LlamaForCausalLM(config)
    return model.to(device)


def llama_config(shape: Shape, vocabulary: int, **token_ids: Any) -> LlamaConfig:
    heads = shape.width // HEAD_WIDTH
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=CONTEXT_LENGTH,
        tie_word_embeddings=True,
        **token_ids,
    )


def start_draft_from_target(draft: LlamaForCausalLM, target: LlamaForCausalLM) -> None:
    """Copy the target's embeddings, norm and last layers to the draft.

    If the models have different widths, the draft is left as it is.
    """
    if draft.config.hidden_size != target.config.hidden_size:
        return
    draft.model.embed_tokens.load_state_dict(target.model.embed_tokens.state_dict())
    draft.model.norm.load_state_dict(target.model.norm.state_dict())
    for own, taken in zip(
        reversed(draft.model.layers), reversed(target.model.layers), strict=False
    ):
        own.load_state_dict(taken.state_dict())


def logits_of(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """Return logits `[batch, length, vocab_size]` in float32."""
    with autocast(ids.device):
        logits = model(ids).logits
    return logits.float()


def next_token_loss(model: nn.Module, batch: torch.Tensor, progress: float) -> torch.Tensor:
    """Return the target's loss: cross-entropy of the next token."""
    del progress
    logits = logits_of(model, batch[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def distillation_loss(
    target: nn.Module,
) -> Objective:
    """Return the draft's loss function: KL divergence first, then total variation distance.

    The expected acceptance is Σ min(draft, target) = 1 - distance (Leviathan et al. 2023,
    Corollary 3.6; DistillSpec also optimises it). But the gradient of this distance is poor for an
    untrained draft, so the weight shifts to the distance only over the last 40 % of training.
    """

    def objective(draft: nn.Module, batch: torch.Tensor, progress: float) -> torch.Tensor:
        ids = batch[:, :-1]
        with torch.no_grad():
            target_probs = logits_of(target, ids).softmax(-1)
        draft_log = logits_of(draft, ids).log_softmax(-1)
        divergence = F.kl_div(draft_log, target_probs, reduction="none").sum(-1).mean()
        distance = 0.5 * (draft_log.exp() - target_probs).abs().sum(-1).mean()
        overlap_weight = max(0.0, (progress - 0.6) / 0.4)
        return (1.0 - overlap_weight) * divergence + overlap_weight * 4.0 * distance

    return objective


def write_own_text(
    target: LlamaForCausalLM, openings: TokenStream, plan: OwnText, seed: int, device: torch.device
) -> TokenStream:
    """Return texts in which the target continues the beginnings of documents in ``openings``.

    The texts take the plan's temperatures in turn.
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    rows: list[list[int]] = []
    for first in range(0, plan.sequences, plan.batch):
        size = min(plan.batch, plan.sequences - first)
        picks = torch.randint(
            len(openings.starts), (size,), generator=generator, device=device
        ).tolist()
        begins = torch.tensor([int(openings.starts[pick]) for pick in picks])
        opening = openings.ids[(begins[:, None] + torch.arange(8)).clamp(max=len(openings.ids) - 1)]
        temperatures = torch.tensor(
            [plan.temperatures[(first + row) % len(plan.temperatures)] for row in range(size)]
        )
        written = _continue(
            target, opening.to(device), temperatures.to(device), plan.length, generator
        )
        rows.extend(written.tolist())
    return stream_of(rows)


@torch.no_grad()
def _continue(
    model: LlamaForCausalLM,
    ids: torch.Tensor,
    temperatures: torch.Tensor,
    length: int,
    generator: torch.Generator,
) -> torch.Tensor:
    model.eval()
    cache = DynamicCache()
    fed = ids
    for _ in range(length - ids.shape[1]):
        with autocast(ids.device):
            logits = model(fed, past_key_values=cache, use_cache=True).logits[:, -1]
        fed = _sample(logits.float(), temperatures, generator)
        ids = torch.cat([ids, fed], dim=1)
    return ids


def _sample(
    logits: torch.Tensor, temperatures: torch.Tensor, generator: torch.Generator
) -> torch.Tensor:
    probs = (logits / temperatures.clamp(min=1e-4)[:, None]).softmax(-1)
    return torch.multinomial(probs, 1, generator=generator)
