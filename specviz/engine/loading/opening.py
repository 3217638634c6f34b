"""Open a pair without its weights: find and compare configurations and tokenizers.

``checkup.py`` stops after this step; ``loading.py`` continues with the weights. Cheap checks come
first. Every user error raises a ``SpecvizError``.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from specviz.engine.loading import compatibility, hardware, rollback, sources
from specviz.engine.loading.compatibility import ModelVocabulary
from specviz.engine.loading.head_source import HeadSource, open_head_source
from specviz.engine.loading.shared_vocabulary import share_vocabulary
from specviz.engine.loading.source import Source
from specviz.engine.loading.sources import Chosen
from specviz.engine.model.growing import grown_skeleton, shape_of_model, skeleton_of
from specviz.engine.model.libraries import loading_errors, quiet_libraries
from specviz.engine.model.shared_tokens import SharedTokens
from specviz.engine.model.tiles import copied_bytes
from specviz.errors import PairError
from specviz.formats.reduced_drafts import proposed_count
from specviz.record.bodies import NO_BODY, Shape, shape_of
from specviz.record.pairs import OWN_MTP, QUANTISED, PairSpec, Progress, ProgressCallback
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine.model.plain_llama import Config, Model


DRAFT, TARGET = "draft", "target"


class Body(Value, eq=False):
    """A simulated size: the shape to which a model will be enlarged without changing its output."""

    name: str
    shape: Shape
    parameters: int  # of the enlarged model


class Side(Value, eq=False):
    """The target or the draft of a pair, before its weights are read."""

    role: str
    source: Source
    config: Config
    tokenizer: Any
    own_parameters: int
    body: Body | None
    weights: str  # as in ``PairSpec``
    packed: bool  # whether the weights stay quantised as they are stored

    @property
    def quantise(self) -> str:
        """Return the type to which loading quantises the weights; empty to leave them as stored."""
        return self.weights if self.weights in QUANTISED else ""

    @property
    def parameters(self) -> int:
        """Return the number of parameters, including those that a simulated size adds."""
        return self.body.parameters if self.body else self.own_parameters

    @property
    def packed_as(self) -> str:
        """Return how the loaded weights are quantised: "stored", a type, or "" if not quantised.

        "stored": the weights stay quantised as in the file. A type: loading quantises the weights
        to this type.
        """
        return "stored" if self.packed else self.quantise

    def needed_bytes(self, dtype: torch.dtype, device: torch.device) -> int:
        """Return the bytes of memory that the weights need, with copies that the kernels read."""
        if self.packed:
            return self.source.packed_bytes()
        size = self.parameters * dtype.itemsize
        return size if self.quantise else size + copied_bytes(size, dtype, device)

    @property
    def model_vocabulary(self) -> ModelVocabulary:
        rows = int(self.config.get_text_config().vocab_size)
        return ModelVocabulary(name=self.source.name, tokenizer=self.tokenizer, rows=rows)


class OpenPair(Value, eq=False):
    """A pair whose configurations and tokenizers are compatible; its weights are not read yet."""

    name: str
    sides: tuple[Side, ...]  # the target first
    head: HeadSource | None  # None if a model drafts, or the head is in the target's files
    device: torch.device
    dtype: torch.dtype
    vocabulary: int
    shared: SharedTokens | None  # if the draft has a different vocabulary
    max_context: int | None
    notices: tuple[str, ...]

    @property
    def needed_bytes(self) -> int:
        """Return the bytes of memory that the weights of all models need."""
        return sum(side.needed_bytes(self.dtype, self.device) for side in self.sides)

    def vocabulary_of(self, role: str) -> int:
        """Return the vocabulary size of the model in this role."""
        if self.shared is not None and role == DRAFT:
            return self.shared.draft.size
        return self.vocabulary


def open_pair(spec: PairSpec, on_progress: ProgressCallback) -> OpenPair:
    """Find the models of a pair, and check that their tokens match; read no weights."""
    device = hardware.choose_device(spec.device)
    dtype = hardware.choose_dtype(spec.dtype, device)
    chosen = sources.choose(spec)
    may_pack = device.type == "cpu" and spec.dtype == "auto"
    sides = _open_sides(chosen, spec, on_progress, may_pack=may_pack)
    head = None
    if spec.head and chosen.draft not in (None, OWN_MTP):
        head = open_head_source(chosen.draft, chosen.draft_name or chosen.draft, on_progress)
    _check_weights(sides, spec, device, dtype)
    shared, notices = _share(sides) if spec.shared_vocabulary else (None, ())
    if shared is None:
        with loading_errors(sides[0].source.name, "vocabulary"):
            vocabulary, notices = _agree(sides)
    else:
        vocabulary = shared.target.size
    max_context, context_notices = compatibility.context_limits(
        {side.source.name: side.config for side in (sides[:1] if shared else sides)}
    )
    return OpenPair(
        name=chosen.name,
        sides=sides,
        head=head,
        device=device,
        dtype=dtype,
        vocabulary=vocabulary,
        shared=shared,
        max_context=max_context,
        notices=(*notices, *context_notices, *_format_notices(sides, dtype)),
    )


def needs_transformers(spec: PairSpec) -> bool:
    """Return whether loading the pair needs transformers, which takes seconds to import."""
    return not sources.choose(spec).plain


def quiet_for(spec: PairSpec) -> AbstractContextManager[None]:
    """Return a context that silences the libraries that load the pair."""
    return quiet_libraries() if needs_transformers(spec) else nullcontext()


def _format_notices(sides: tuple[Side, ...], dtype: torch.dtype) -> tuple[str, ...]:
    return tuple(
        notice
        for side in sides
        if not side.quantise
        for notice in side.source.notices(dtype, packed=side.packed)
    )


def no_progress(progress: Progress) -> None:
    del progress


def _open_sides(
    chosen: Chosen, spec: PairSpec, on_progress: ProgressCallback, *, may_pack: bool
) -> tuple[Side, ...]:
    target = (spec.target_body, spec.target_weights)
    places = [(TARGET, chosen.target, chosen.target_name, *target)]
    if chosen.draft is not None and not spec.head:
        name = chosen.draft_name or chosen.draft
        places.append((DRAFT, chosen.draft, name, spec.draft_body, spec.draft_weights))
    elif spec.draft_weights != "auto" and not spec.head:
        raise PairError(
            "--draft-weights needs a draft model.",
            remedy="Remove --draft-weights, or choose a draft.",
        )
    elif spec.draft_body != NO_BODY:
        raise PairError(
            "--draft-body needs a draft model.",
            remedy="Remove --draft-body, or choose a draft.",
        )
    return tuple(
        _open_side(
            role,
            sources.open_plain(place, name)
            if chosen.plain
            else sources.open_source(place, name, on_progress),
            body,
            weights,
            may_pack=may_pack,
        )
        for role, place, name, body, weights in places
    )


def _open_side(role: str, source: Source, body: str, weights: str, *, may_pack: bool) -> Side:
    if role == TARGET and (count := proposed_count(source.config)) is not None:
        raise PairError(
            f"{source.name} can propose only {count:,} of its tokens, so it is no target.",
            remedy="Give it as a draft.",
        )
    with loading_errors(source.name, "configuration"):
        config = source.read_config()
    with loading_errors(source.name, "tokenizer"):
        tokenizer: Any = source.read_tokenizer()
        tokenizer.model_max_length = sys.maxsize  # the models' contexts limit lengths, not this
    with loading_errors(source.name, "model"):
        skeleton = skeleton_of(config)
    rollback.refuse_without_rollback(skeleton, source.name)
    return Side(
        role=role,
        source=source,
        config=config,
        tokenizer=tokenizer,
        own_parameters=_count(skeleton),
        body=None if body == NO_BODY else _body(skeleton, source.name, body),
        weights=weights,
        packed=may_pack
        and weights == "auto"
        and body == NO_BODY
        and source.can_stay_packed(skeleton),
    )


def _check_weights(
    sides: tuple[Side, ...], spec: PairSpec, device: torch.device, dtype: torch.dtype
) -> None:
    """Raise PairError if the user requests quantised weights where no kernel supports them."""
    asked = {side.role: side.weights for side in sides} | {DRAFT: spec.draft_weights}
    role = next((role for role, weights in asked.items() if weights in QUANTISED), None)
    if role is not None and (device.type != "cpu" or dtype != torch.float32):
        raise PairError(
            f"--{role}-weights {asked[role]} needs a CPU and the dtype float32.",
            remedy="Use --device cpu --dtype float32, or leave the weights as they are.",
        )


def _body(skeleton: Model, name: str, body: str) -> Body:
    own = shape_of_model(skeleton)
    if own is None:
        raise PairError(
            f"{name} cannot have a simulated size: it is not a Llama-shaped model.",
            remedy="Remove the simulated size, or choose a Llama, Mistral, Qwen2 or Qwen3 model.",
        )
    shape = shape_of(body, own)
    with loading_errors(name, "body"):
        return Body(name=body, shape=shape, parameters=_count(grown_skeleton(skeleton, shape)))


def _count(skeleton: Model) -> int:
    return sum(parameter.numel() for parameter in skeleton.parameters())


def _agree(sides: tuple[Side, ...]) -> tuple[int, tuple[str, ...]]:
    target, *drafts = [side.model_vocabulary for side in sides]
    return compatibility.common_vocabulary(target, drafts[0] if drafts else None)


def _share(sides: tuple[Side, ...]) -> tuple[SharedTokens | None, tuple[str, ...]]:
    if len(sides) == 1:
        raise PairError(
            "--shared-vocabulary needs a draft model.",
            remedy="Remove --shared-vocabulary, or choose a draft.",
        )
    target, draft = sides
    with loading_errors(draft.source.name, "tokenizer"):
        return share_vocabulary(target.model_vocabulary, draft.model_vocabulary, draft.config)
