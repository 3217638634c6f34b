"""Load a pair that is opened and compared: fetch its weights, read them, prove the models.

Probes come last: each model must roll its cache back, and the lean step must give the
library's logits. All that a user can have got wrong is a ``SpecvizError`` of one line.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from specviz.engine.graphed.playback import has_graphs
from specviz.engine.graphed.trial import give_lanes
from specviz.engine.loading import compatibility, hardware, sources
from specviz.engine.loading.opening import (
    DRAFT,
    LOCAL,
    TARGET,
    OpenPair,
    Side,
    no_progress,
    open_pair,
)
from specviz.engine.model.fingerprint import stamps_of, weights_sha256
from specviz.engine.model.growing import body_info, grow
from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.libraries import explained, out_of_memory, quiet_libraries
from specviz.engine.model.pair import Pair, StepWeights
from specviz.engine.model.tensors import type_name
from specviz.engine.model.text import make_token_table
from specviz.errors import DeviceError, PairError
from specviz.kernels.readiness import ready
from specviz.record.numbers import COUNT, SIZE
from specviz.record.pairs import GRAPHED, PairSpec, Progress, ProgressCallback, memory_margin
from specviz.record.trace import ModelInfo, PairInfo


def load_pair(spec: PairSpec, *, progress: ProgressCallback | None = None) -> Pair:
    """The pair that is asked for; without a draft, the target alone.

    Threads matter on a CPU only; if none are named, a short calibration chooses. ``progress`` is
    told what is being done; an exception that it raises stops the load, also in the
    middle of a download, and comes out as it is.
    """
    tell = progress or no_progress
    with quiet_libraries():
        opened = open_pair(spec, tell)
        _require_room(opened)
        files = {side.role: sources.fetch_weights(side.source, tell) for side in opened.sides}
        stamps = stamps_of(  # before they are read: what changes meanwhile is read again
            file
            for side in opened.sides
            for file in sources.identifying_files(side.source, files[side.role])
        )
        candidates = (
            [spec.threads] if spec.threads else hardware.thread_candidates(_largest(opened))
        )
        if opened.device.type == "cpu":  # the probes must not stall on more threads than are free
            torch.set_num_threads(candidates[0])
        models = _load_models(opened, spec.device, tell)
    _prove(opened, models, tell)
    for side in opened.sides:
        vocabulary = opened.vocabulary_of(side.role)
        models[side.role] = _grown(side, models.pop(side.role), vocabulary, tell)
    weights, notices = _step_weights(opened, models, spec.step, tell)
    pair = _assemble(opened, models, files, weights)
    pair.stamps = stamps
    pair.notices = (*opened.notices, *notices, *_take_lanes(pair, spec.step, tell))
    if opened.device.type == "cpu" and len(candidates) > 1:
        chosen_threads = hardware.calibrate_threads(pair.target_step, candidates)
        pair.environment = replace(pair.environment, threads=chosen_threads)
    return pair


def _largest(opened: OpenPair) -> int:
    return max(side.parameters for side in opened.sides)


def _require_room(opened: OpenPair) -> None:
    """Refuse bodies that do not fit, before any memory is taken."""
    free = hardware.free_memory(opened.device)
    needed = memory_margin(sum(side.parameters for side in opened.sides) * opened.dtype.itemsize)
    if free is None or needed <= free:
        return
    for side in opened.sides:
        if side.body is not None:
            raise DeviceError(
                f"A body of {COUNT.shown(side.parameters)} parameters for the {side.role} does not "
                f"fit: the pair would take {SIZE.shown(needed)}, and {SIZE.shown(free)} are free.",
                remedy="Choose a smaller body, or a smaller number type such as bfloat16.",
            )


def _load_models(
    opened: OpenPair, asked: str, tell: ProgressCallback
) -> dict[str, PreTrainedModel]:
    """By role; the draft first, so that the room left is known when the target comes."""
    models: dict[str, PreTrainedModel] = {}
    for side in reversed(opened.sides):
        tell(_loading("loading", side))
        size = side.own_parameters * opened.dtype.itemsize
        spread = side.role == TARGET and asked in ("auto", "cuda")
        placement = _placement(side.source.name, size, opened.device, may_spread=spread)
        models[side.role] = _load_model(side, opened.dtype, placement)
    return models


def _loading(doing: str, side: Side) -> Progress:
    return Progress(activity="loading", text=f"{doing} {side.role} {side.source.name}")


def _placement(name: str, size: int, device: torch.device, *, may_spread: bool) -> Any:
    """What transformers calls a device map; None leaves the model on the CPU."""
    free = hardware.free_memory(device)
    if free is not None and size > free:
        if device.type == "cuda" and may_spread:
            return "auto"
        raise out_of_memory(name)
    return None if device.type == "cpu" else {"": device}


def _load_model(side: Side, dtype: torch.dtype, placement: Any) -> PreTrainedModel:
    with explained(side.source.name, "model"):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            side.source.folder,
            config=side.config,
            dtype=dtype,
            device_map=placement,
            use_safetensors=True,
            output_loading_info=True,
            **LOCAL,
        )
    model, report = loaded
    _require_all_weights(side.source.name, report)
    if placement != "auto" and hasattr(model, "hf_device_map"):
        del model.hf_device_map  # it stands for a model spread over devices; this one is not
    return model.eval().requires_grad_(False)


def _require_all_weights(name: str, report: dict[str, Any]) -> None:
    """Transformers fills what a file lacks with random numbers."""
    missing = sorted(report["missing_keys"])
    if missing:
        raise PairError(
            f"The weights of {name} lack {missing[0]} and {len(missing) - 1} others."
            if len(missing) > 1
            else f"The weights of {name} lack {missing[0]}.",
            remedy="Give a complete causal language model; copy or download it again.",
        )


def _prove(opened: OpenPair, models: dict[str, PreTrainedModel], tell: ProgressCallback) -> None:
    for side in opened.sides:
        vocabulary = opened.vocabulary_of(side.role)
        tell(_loading("checking", side))
        with explained(side.source.name, "model"):
            compatibility.require_numbers(models[side.role], side.source.name)
            compatibility.check_rollback(models[side.role], side.source.name, vocabulary)


def _grown(
    side: Side, model: PreTrainedModel, vocabulary: int, tell: ProgressCallback
) -> PreTrainedModel:
    """The model in its body, proved to give the same logits; the model itself without one."""
    body = side.body
    if body is None:
        return model
    text = f"growing {side.role} {side.source.name} to {COUNT.shown(body.parameters)}"

    def told(done: int, total: int) -> None:
        tell(Progress(activity="growing", text=text, done_bytes=done, total_bytes=total))

    with explained(side.source.name, "body"):
        if getattr(model, "hf_device_map", None) is not None:
            raise PairError(
                f"{side.source.name} is spread over several devices, so it cannot be grown.",
                remedy="Use it without a body, or name one device.",
            )
        grown = grow(model, body.shape, told)
        compatibility.require_same_logits(grown, model, side.source.name, vocabulary)
    return grown


def _step_weights(
    opened: OpenPair, models: dict[str, PreTrainedModel], step: str, tell: ProgressCallback
) -> tuple[dict[str, StepWeights], tuple[str, ...]]:
    if opened.device.type == "cpu":
        text = "preparing the step; the first time on a machine this takes seconds"
        tell(Progress(activity="loading", text=text))
        ready(type_name(opened.dtype))
    with explained(opened.sides[0].source.name, "step"):
        vocabularies = {role: opened.vocabulary_of(role) for role in models}
        return compatibility.take_step_weights(models, vocabularies, step)


def _take_lanes(pair: Pair, asked: str, tell: ProgressCallback) -> tuple[str, ...]:
    """Gives a pair on a GPU, or one that is to have them, lanes on the device; else a notice."""
    if asked != GRAPHED and not (asked == "auto" and has_graphs(pair.device)):
        return ()
    tell(Progress(activity="loading", text="capturing a round on the device"))
    reason = give_lanes(pair)
    if reason and asked == GRAPHED:
        raise PairError(f"The pair cannot run graphed: {reason}.", remedy="Use `--step lean`.")
    return (f"Rounds go step by step, without graphs: {reason}.",) if reason else ()


def _assemble(
    opened: OpenPair,
    models: dict[str, PreTrainedModel],
    files: dict[str, tuple[Path, ...]],
    weights: dict[str, StepWeights],
) -> Pair:
    infos = {
        side.role: _model_info(side, models[side.role], files[side.role], weights[side.role])
        for side in opened.sides
    }
    target, tokenizer, vocabulary = models[TARGET], opened.sides[0].tokenizer, opened.vocabulary
    return Pair(
        name=opened.name,
        target=target,
        draft=models.get(DRAFT),
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        token_table=make_token_table(tokenizer, vocabulary),
        eos_ids=_end_ids(target, tokenizer, vocabulary),
        max_context=opened.max_context,
        device=compatibility.input_device(target),
        info=PairInfo(
            name=opened.name,
            target=infos[TARGET],
            draft=infos.get(DRAFT),
            vocabulary=vocabulary,
            shared_tokens=opened.shared.count if opened.shared else None,
        ),
        environment=hardware.describe(opened.device, opened.dtype),
        target_weights=weights[TARGET],
        draft_weights=weights.get(DRAFT),
        shared=opened.shared,
    )


def _model_info(
    side: Side, model: PreTrainedModel, files: tuple[Path, ...], weights: StepWeights
) -> ModelInfo:
    return ModelInfo(
        name=side.source.name,
        family=side.source.family,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        weights_sha256=weights_sha256(files),
        step="lean" if isinstance(weights, LeanWeights) else "library",
        body=body_info(side.body.name, model, side.own_parameters) if side.body else None,
    )


def _end_ids(target: PreTrainedModel, tokenizer: Any, vocabulary: int) -> frozenset[int]:
    settings = target.generation_config
    named = settings.eos_token_id if settings is not None else None
    ids = {*(named if isinstance(named, list) else [named]), tokenizer.eos_token_id}
    return frozenset(int(i) for i in ids if i is not None and 0 <= i < vocabulary)
