"""A pair before its weights: settings, small files, tokenizers; opened and compared.

Checking a pair ends here, loading it goes on to the weights. Cheap steps come first. All that a
user can have got wrong is a ``SpecvizError``.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)

from specviz.engine.loading import compatibility, hardware, sources
from specviz.engine.loading.compatibility import ModelVocabulary
from specviz.engine.loading.libraries import explained
from specviz.engine.loading.sources import Chosen, Source
from specviz.record.pairs import PairSpec, Progress, Tell

DRAFT, TARGET = "draft", "target"
LOCAL = {"local_files_only": True, "trust_remote_code": False}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Side:
    """One model of the pair."""

    role: str
    source: Source
    config: PreTrainedConfig
    tokenizer: Any
    parameters: int

    @property
    def model_vocabulary(self) -> ModelVocabulary:
        rows = int(self.config.get_text_config().vocab_size)
        return ModelVocabulary(name=self.source.name, tokenizer=self.tokenizer, rows=rows)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OpenPair:
    """Two models that can work together, as far as their small files tell."""

    name: str
    sides: tuple[Side, ...]  # the target first
    device: torch.device
    dtype: torch.dtype
    vocabulary: int
    max_context: int | None
    notices: tuple[str, ...]


def open_pair(spec: PairSpec, tell: Tell) -> OpenPair:
    """Find both models and prove, without their weights, that they speak the same tokens."""
    device = hardware.choose_device(spec.device)
    dtype = hardware.choose_dtype(spec.dtype, device)
    chosen = sources.choose(spec)
    sides = _open_sides(chosen, tell)
    with explained(sides[0].source.name, "vocabulary"):
        vocabulary, notices = _agree(sides)
    max_context, context_notices = compatibility.context_limits(
        {side.source.name: side.config for side in sides}
    )
    return OpenPair(
        name=chosen.name,
        sides=sides,
        device=device,
        dtype=dtype,
        vocabulary=vocabulary,
        max_context=max_context,
        notices=(*notices, *context_notices),
    )


def tell_nobody(progress: Progress) -> None:
    del progress


def _open_sides(chosen: Chosen, tell: Tell) -> tuple[Side, ...]:
    places = [(TARGET, chosen.target, chosen.target_name)]
    if chosen.draft is not None:
        places.append((DRAFT, chosen.draft, chosen.draft_name or chosen.draft))
    return tuple(
        _open_side(role, sources.open_source(place, name, tell)) for role, place, name in places
    )


def _open_side(role: str, source: Source) -> Side:
    sources.require_tokenizer_files(source)
    with explained(source.name, "configuration"):
        config = AutoConfig.from_pretrained(source.folder, **LOCAL)
    with explained(source.name, "tokenizer"):
        tokenizer: Any = AutoTokenizer.from_pretrained(source.folder, **LOCAL)
        tokenizer.model_max_length = sys.maxsize  # the models' own contexts decide on lengths
    with explained(source.name, "model"):
        skeleton = _skeleton(config)
    compatibility.refuse_without_rollback(skeleton, source.name)
    parameters = sum(parameter.numel() for parameter in skeleton.parameters())
    return Side(role=role, source=source, config=config, tokenizer=tokenizer, parameters=parameters)


def _skeleton(config: PreTrainedConfig) -> PreTrainedModel:
    """The model with its shapes and no numbers: it takes no memory, and counts exactly."""
    with torch.device("meta"):
        own = copy.deepcopy(config)  # it is written to
        return AutoModelForCausalLM.from_config(own, trust_remote_code=False)


def _agree(sides: tuple[Side, ...]) -> tuple[int, tuple[str, ...]]:
    target, *drafts = [side.model_vocabulary for side in sides]
    return compatibility.common_vocabulary(target, drafts[0] if drafts else None)
