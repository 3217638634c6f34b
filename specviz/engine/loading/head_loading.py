"""Load a pair's head, whose target is loaded already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from specviz.engine.heads.head import Head, TargetParts
from specviz.engine.heads.mtp import find_mtp, open_mtp
from specviz.engine.heads.opening import open_head
from specviz.engine.loading.opening import OpenPair
from specviz.engine.model.fingerprint import stamps_of, weights_sha256
from specviz.engine.model.libraries import loading_errors
from specviz.engine.model.pair import Pair
from specviz.engine.model.step_capabilities import require_places
from specviz.errors import PairError
from specviz.record.heads import HeadInfo
from specviz.record.pairs import Progress, ProgressCallback
from specviz.record.trace import ModelInfo


def add_head(
    pair: Pair,
    opened: OpenPair,
    method: str,
    target_files: tuple[Path, ...],
    on_progress: ProgressCallback,
) -> None:
    """Load the head and add it to the pair.

    Args:
        method: the draft method that needs the head.
        target_files: the target's weights, which contain the head if it has no files of its own.
    """
    side = opened.sides[0]
    parts = target_parts(side.source.name, side.config, pair)
    if opened.head is None:
        with loading_errors(side.source.name, "MTP layers"):
            head, kind = _own_layers(target_files[0].parent, parts), "mtp"
        name, files = f"{side.source.name} (MTP)", target_files
    else:
        name = opened.head.name
        on_progress(Progress(activity="loading", text=f"loading head {name}"))
        facts = opened.head.fetch(on_progress)
        files, kind = opened.head.identifying_files(), facts.kind
        pair.stamps |= stamps_of(files)
        with loading_errors(name, "head"):
            head = open_head(facts, parts)
    _check(head, pair, name, method)
    pair.head = head
    pair.notices += head.notices
    info = ModelInfo(
        name=name,
        family=kind,
        parameters=sum(each.numel() for each in head.parameters),
        weights_sha256=weights_sha256(files),
        step=pair.info.target.step,
        head=HeadInfo(
            places=head.states.places,
            proposable=None if head.proposable is None else len(head.proposable),
        ),
    )
    pair.info = replace(pair.info, draft=info)


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
    """Return what a head uses of the target; the columns that a body adds are cut off.

    Args:
        config: the target's configuration without a body.
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
