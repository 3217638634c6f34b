"""A small model in training, made of the target's embedding, last layers, norm and output.

If the model can propose only a part of the vocabulary, its output matrix has fewer rows. Its folder
is then a model with a reduced output, as in ``formats/reduced_drafts.py``.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import nn

from specviz.engine import Pair
from specviz.engine.model.lean_weights import LeanLayer
from specviz.engine.model.plain_llama import PlainConfig
from specviz.formats.reduced_drafts import OFFSETS, OUTPUT, PROPOSED
from specviz.training.drafts.draft import Draft, halved, target_probs
from specviz.training.drafts.losses import Learned, learned
from specviz.training.drafts.stored_states import Window
from specviz.training.drafts.target_weights import TargetWeights, matrix_of


class SmallDraft(Draft):
    def __init__(
        self,
        pair: Pair,
        target: TargetWeights,
        kept: torch.Tensor,
        layers: int,
        positions: int,
    ) -> None:
        super().__init__()
        self._target, self._tokenizer, self._positions = target, pair.tokenizer, positions
        self.keep(kept, target.vocabulary)
        self.model = _model_of(pair, target, min(layers, len(target.layers)))
        if self._is_reduced:
            self._reduce()

    @property
    def _is_reduced(self) -> bool:
        return len(self.kept) < self._target.vocabulary

    def _reduce(self) -> None:
        """Replace the output matrix by its rows for the tokens that the model can propose."""
        config = self.model.config
        output = nn.Linear(self._target.width, len(self.kept), bias=False)
        with torch.no_grad():
            output.weight.copy_(self._target.output[self.kept])
        self.model.lm_head = output
        config.tie_word_embeddings = False
        setattr(config, PROPOSED, len(self.kept))

    def learn(self, window: Window, overlap: float) -> Learned:
        """Return the loss; the acceptance of the next token counts for every position."""
        logits: torch.Tensor = self.model(window.ids, use_cache=False).logits
        logs = logits[..., : len(self.kept)].log_softmax(-1)
        probs = target_probs(window, self._target.output[self.kept])
        found = learned([logs], [probs], [self.index(window.best)], [window.written], overlap)
        return Learned(
            loss=found.loss,
            accepted=found.accepted.expand(self._positions),
            agreeing=found.agreeing.expand(self._positions),
            places=found.places.expand(self._positions),
        )

    def write(self, folder: Path) -> None:
        halves = halved(self.model.state_dict())
        if self.model.config.tie_word_embeddings:
            del halves[OUTPUT]
        if self._is_reduced:
            halves[OFFSETS] = self.kept - torch.arange(len(self.kept))
        self.model.save_pretrained(folder, state_dict=halves)
        save_tokenizer(self._tokenizer, folder)


@torch.no_grad()
def _model_of(pair: Pair, target: TargetWeights, layers: int) -> Any:
    from transformers import AutoModelForCausalLM, LlamaConfig

    given = pair.target.config
    config: Any = LlamaConfig(**vars(given)) if isinstance(given, PlainConfig) else None
    config = copy.deepcopy(given) if config is None else config
    config.num_hidden_layers = layers
    if kinds := getattr(config, "layer_types", None):
        config.layer_types = list(kinds)[-layers:]
    model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    table = model.model.embed_tokens.weight
    table.copy_(target.lean.embed(torch.arange(len(table))).float())
    if not config.tie_word_embeddings:
        model.lm_head.weight.copy_(matrix_of(target.lean.head))
    model.model.norm.weight.copy_(target.lean.norm.weight)
    for own, taken in zip(model.model.layers, target.layers[-layers:], strict=True):
        _take_layer(own, taken)
    return model.requires_grad_(True)


def _take_layer(own: Any, taken: LeanLayer) -> None:
    attention, inside = own.self_attn, own.mlp
    _take(taken.qkv, attention.q_proj, attention.k_proj, attention.v_proj)
    _take(taken.output, attention.o_proj)
    _take(taken.gate_up, inside.gate_proj, inside.up_proj)
    _take(taken.down, inside.down_proj)
    norms = {
        own.input_layernorm: taken.attention_norm,
        own.post_attention_layernorm: taken.feed_forward_norm,
    }
    if taken.query_norm is not None and taken.key_norm is not None:
        norms |= {attention.q_norm: taken.query_norm, attention.k_norm: taken.key_norm}
    for norm, source in norms.items():
        norm.weight.copy_(source.weight)


def _take(product: Any, *layers: nn.Linear) -> None:
    """Copy a fused matrix, such as QKV, into the separate layers."""
    sizes = [each.out_features for each in layers]
    for layer, part in zip(layers, matrix_of(product).split(sizes), strict=True):
        layer.weight.copy_(part)
    if product.bias is not None:
        for layer, part in zip(layers, product.bias.split(sizes), strict=True):
            layer.bias.copy_(part)


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write the target's tokenizer into a model's folder."""
    if hasattr(tokenizer, "save_pretrained"):
        tokenizer.save_pretrained(folder)
        return
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer,
        eos_token=tokenizer.eos_token,
        pad_token=tokenizer.eos_token,
        model_max_length=tokenizer.model_max_length,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)
