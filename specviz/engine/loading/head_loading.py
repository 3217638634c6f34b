"""Load a pair's drafting head after its target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from specviz.engine.decoding.sampling import Sampler
from specviz.engine.heads.following import ReadText, acceptance_along, divergence_along
from specviz.engine.heads.head import Head, TargetParts
from specviz.engine.heads.mtp import find_mtp, open_mtp
from specviz.engine.heads.opening import open_head
from specviz.engine.loading.opening import DRAFT, OpenPair
from specviz.engine.loading.quantising import acceptance_words, change_words, no_kernels
from specviz.engine.model.fingerprint import stamps_of, weights_sha256
from specviz.engine.model.libraries import loading_errors
from specviz.engine.model.packed_weights import PackedProduct, is_packed, quantised_product
from specviz.engine.model.pair import Pair
from specviz.engine.model.product import Product
from specviz.engine.model.products import product_of
from specviz.engine.model.step_capabilities import require_places
from specviz.errors import PairError
from specviz.kernels.readiness import packed_ready
from specviz.record.heads import HeadInfo
from specviz.record.pairs import OTHER_TARGET, QUANTISED, PairSpec, Progress, ProgressCallback
from specviz.record.prompts import read_presets
from specviz.record.run_config import RunConfig
from specviz.record.trace import ModelInfo

_BESIDE_QUANTISED = "q8_0"  # the type of a head's weights if its target's are quantised
_SAME_PRECISION = (
    "The weights of {name} are quantised to {kind}, because the target's weights are quantised. "
    'To keep them in floating point, set "Weights of the draft" to "floating point" '
    "(--draft-weights float)."
)
_OTHER_TARGET = "The files of {name} name the target {named}, but this target is {target}."
_FEW_ACCEPTED = "If these are different models, few of the head's candidates will be accepted."


def add_head(
    pair: Pair,
    opened: OpenPair,
    spec: PairSpec,
    target_files: tuple[Path, ...],
    on_progress: ProgressCallback,
) -> None:
    """Load the drafting head that ``spec`` requests, and add it to the pair.

    Args:
        spec: names the draft method that needs the head, and the type of the head's weights.
        target_files: the target's weights; they contain the head if the head has no separate files.
    """
    side = opened.sides[0]
    kind_of_weights = _type_of_weights(pair, spec)
    parts = replace(
        target_parts(side.source.name, side.config, pair), product=_product(kind_of_weights)
    )
    original: Head | None = None  # without the requested quantisation
    other_target = ""
    if opened.head is None:
        with loading_errors(side.source.name, "MTP layers"):
            head, kind = _own_layers(target_files[0].parent, parts), "mtp"
        name, files = f"{side.source.name} (MTP)", target_files
    else:
        name = opened.head.name
        on_progress(Progress(activity="loading", text=f"loading head {name}"))
        facts = opened.head.fetch(on_progress)
        files, kind = opened.head.identifying_files(), facts.kind
        other_target = facts.other_target(side.source.name)
        if other_target and not spec.other_target:
            raise PairError(
                _OTHER_TARGET.format(name=name, named=other_target, target=side.source.name),
                remedy=f'Load the head with its own target, or turn on "{OTHER_TARGET}" '
                "(--other-target).",
            )
        pair.stamps |= stamps_of(files)
        with loading_errors(name, "head"):
            head = open_head(facts, parts)
            if spec.draft_weights in QUANTISED and head.products:
                original = open_head(facts, replace(parts, product=product_of))
    _check(head, pair, name, spec.head)
    quantised = any(isinstance(each, PackedProduct) for each in head.products)
    if spec.draft_weights in QUANTISED and not quantised:
        raise PairError(
            f"The weights of {name} cannot be quantised here.",
            remedy="Use --draft-weights auto, or an EAGLE head whose matrices have multiples of 32 "
            "columns.",
        )
    pair.head = head
    pair.notices += head.notices
    if other_target:
        found = _OTHER_TARGET.format(name=name, named=other_target, target=side.source.name)
        pair.notices += (f"{found} {_FEW_ACCEPTED}",)
    if original is not None:
        pair.notices += (_change(pair, original, head, kind_of_weights),)
    if quantised and spec.draft_weights == "auto":
        pair.notices += (_SAME_PRECISION.format(name=name, kind=kind_of_weights.upper()),)
    info = ModelInfo(
        name=name,
        family=kind,
        parameters=_count(head),
        weights_sha256=weights_sha256(files, packed=kind_of_weights if quantised else ""),
        step=pair.info.target.step,
        head=HeadInfo(
            places=head.states.places,
            proposable=None if head.proposable is None else len(head.proposable),
            named_target=other_target,
        ),
        weights=kind_of_weights.upper() if quantised else "",
        weights_option=spec.draft_weights,
    )
    pair.info = replace(pair.info, draft=info)


def _type_of_weights(pair: Pair, spec: PairSpec) -> str:
    """Return the type to quantise a head's matrices to; empty to leave them as stored.

    By default, the head's matrices are quantised if the target's weights are quantised. A
    step of an unquantised head would read about as many bytes as several layers of such a target.
    """
    if spec.draft_weights == "auto":
        return _BESIDE_QUANTISED if is_packed(pair.target) else ""
    if spec.draft_weights not in QUANTISED:
        return ""
    if not packed_ready():
        raise no_kernels(DRAFT)
    return spec.draft_weights


def _product(kind: str) -> Callable[[torch.Tensor, torch.Tensor | None], Product]:
    if not kind:
        return product_of

    def made(weight: torch.Tensor, bias: torch.Tensor | None) -> Product:
        return quantised_product(weight, bias, kind.upper()) or product_of(weight, bias)

    return made


def _change(pair: Pair, original: Head, quantised: Head, kind: str) -> str:
    """Return a notice about how quantising the head's weights changes the head's distributions."""
    sampler = Sampler(RunConfig(temperature=1.0))
    text = read_presets()[0].text
    ids = [each for each in pair.tokenizer.encode(text) if each < pair.vocabulary]
    read = ReadText(pair, ids[:1], ids[1:], sampler, quantised.states.places)
    starts = range(1, len(ids) - 1)
    kl, distance = divergence_along(original, quantised, read, starts)
    before, after = (
        float(acceptance_along(head, read, sampler, 1, starts).mean())
        for head in (original, quantised)
    )
    return (
        f"The head's weights are quantised to {kind.upper()}. "
        f"{change_words(len(starts), kl, distance)} {acceptance_words(before, after)}"
    )


def _count(head: Head) -> int:
    """Return the head's number of parameters, which quantisation does not change."""
    packed = [each for each in head.products if isinstance(each, PackedProduct)]
    more = sum(each.columns * each.width - each.weight.numel() for each in packed)
    return sum(each.numel() for each in head.parameters) + more


def _own_layers(folder: Path, parts: TargetParts) -> Head:
    facts = find_mtp(folder)
    if facts is None:
        raise PairError(
            f"{parts.name} has no MTP layers.", remedy="Choose another drafter for this target."
        )
    return open_mtp(facts, parts)


def _check(head: Head, pair: Pair, name: str, method: str) -> None:
    if head.method != method:
        raise PairError(
            f"{name} is a head for drafter={head.method}, not for drafter={method}.",
            remedy=f"Use drafter={head.method}.",
        )
    require_places(pair.target_weights.capabilities.hidden_states, head.states)


def target_parts(name: str, config: Any, pair: Pair) -> TargetParts:
    """Return the parts of the target that a drafting head uses, for example the embedding.

    If the target was enlarged to a simulated size, the columns that the enlargement added are left
    out.

    Args:
        config: the configuration of the original target, before it was enlarged.
    """
    config = config.get_text_config()
    width = int(config.hidden_size)
    model: Any = pair.target
    embedding, output = model.get_input_embeddings(), model.get_output_embeddings()
    full = int(model.config.get_text_config().hidden_size)
    return TargetParts(
        name=name,
        layers=int(config.num_hidden_layers),
        width=width,
        vocabulary=int(config.vocab_size),
        config=config,
        embed=lambda token_ids: embedding(token_ids)[..., :width],
        output=_output(output, width, full),
        like=torch.empty(0, dtype=model.dtype, device=pair.device),
    )


def _output(layer: Any, width: int, full: int) -> Callable[[torch.Tensor], torch.Tensor]:
    if width == full:
        return layer
    if not isinstance(layer.weight, torch.Tensor):
        return lambda x: layer(F.pad(x, (0, full - width)))
    weight = layer.weight[:, :width].contiguous()  # the other columns multiply zeros
    return lambda x: F.linear(x, weight, layer.bias)
