"""Load a pair: open it, load and check its models, and enlarge or quantise them on request.

Probes check that each model can roll its cache back (``rollback.py``), and that the lean step,
specviz's own forward pass, gives the same logits as the model's original code
(``compatibility.py``). Every user error raises a one-line ``SpecvizError``.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from specviz.engine.graphed.playback import has_graphs
from specviz.engine.graphed.trial import add_lanes
from specviz.engine.loading import compatibility, hardware, rollback
from specviz.engine.loading.head_loading import add_head
from specviz.engine.loading.late_kernels import can_run_before_kernels, mark_lacking_kernels
from specviz.engine.loading.opening import (
    DRAFT,
    TARGET,
    OpenPair,
    Side,
    no_progress,
    open_pair,
    quiet_for,
)
from specviz.engine.loading.quantising import no_kernels, quantise_models
from specviz.engine.model.fingerprint import stamps_of, weights_sha256
from specviz.engine.model.growing import body_info, grow
from specviz.engine.model.libraries import loading_errors, out_of_memory
from specviz.engine.model.packed_weights import types_of
from specviz.engine.model.pair import Pair
from specviz.engine.model.steps import StepWeights
from specviz.engine.model.tensors import type_name
from specviz.engine.model.text import make_token_table
from specviz.errors import DeviceError, PairError
from specviz.kernels.readiness import are_available, packed_ready, ready, without_kernels
from specviz.record.bodies import BodyInfo
from specviz.record.numbers import COUNT, SIZE
from specviz.record.pairs import (
    COMPILING,
    GRAPHED,
    PairSpec,
    Progress,
    ProgressCallback,
    memory_margin,
)
from specviz.record.trace import ModelInfo, PairInfo

if TYPE_CHECKING:
    from specviz.engine.model.plain_llama import Model


def load_pair(
    spec: PairSpec, *, progress: ProgressCallback | None = None, before_kernels: bool = False
) -> Pair:
    """Load the pair, or the target alone if ``spec`` has no draft.

    On a CPU, a short calibration chooses the number of threads unless ``spec`` names one.

    Args:
        progress: called with each activity; an exception that it raises stops the load, even
            during a download, and propagates.
        before_kernels: while a child process still compiles the kernels, do not wait; the pair's
            steps run through torch until ``add_kernels`` is called.
    """
    on_progress = progress or no_progress
    with quiet_for(spec):
        opened = _with_kernels(open_pair(spec, on_progress), on_progress)
        _require_room(opened)
        files = {side.role: side.source.fetch_weights(on_progress) for side in opened.sides}
        stamps = stamps_of(  # taken before reading, so that a later change is noticed
            file
            for side in opened.sides
            for file in side.source.identifying_files(files[side.role])
        )
        candidates = (
            [spec.threads] if spec.threads else hardware.thread_candidates(_largest(opened))
        )
        if opened.device.type == "cpu":  # few, so that the probes wait for no busy thread
            torch.set_num_threads(candidates[0])
        models = _load_models(opened, spec.device, on_progress)
        _check_models(opened, models, on_progress)
    for side in opened.sides:
        vocabulary = opened.vocabulary_of(side.role)
        models[side.role] = _enlarge(side, models.pop(side.role), vocabulary, on_progress)
    changes = quantise_models(opened, models, on_progress)
    before_kernels = before_kernels and can_run_before_kernels(opened, spec)
    with without_kernels() if before_kernels else nullcontext():
        weights, notices = _step_weights(opened, models, spec.step, on_progress)
    pair = _assemble(opened, models, files, weights)
    pair.stamps = stamps
    pair.notices = (*opened.notices, *changes, *notices)
    if before_kernels:
        mark_lacking_kernels(pair)
    if spec.head:
        add_head(pair, opened, spec, files[TARGET], on_progress)
    pair.notices += _add_lanes(pair, spec.step, on_progress)
    if opened.device.type == "cpu" and len(candidates) > 1 and not before_kernels:
        chosen_threads = hardware.calibrate_threads(pair.target_step, candidates)
        pair.environment = replace(pair.environment, threads=chosen_threads)
    return pair


def _with_kernels(opened: OpenPair, on_progress: ProgressCallback) -> OpenPair:
    """Check the kernels for quantised weights; without kernels, loading dequantises the weights.

    Returns:
        The pair. If the kernels do not work here, its settings say to dequantise the weights.

    Raises:
        PairError: the user requested quantised weights, but the kernels do not work here.
    """
    sides = [side for side in opened.sides if side.packed_as]
    if not sides:
        return opened
    on_progress(COMPILING)
    if packed_ready():
        return opened
    if asked := next((side for side in sides if side.quantise), None):
        raise no_kernels(asked.role)
    return replace(opened, sides=tuple(replace(side, packed=False) for side in opened.sides))


def _largest(opened: OpenPair) -> int:
    return max(side.parameters for side in opened.sides)


def _require_room(opened: OpenPair) -> None:
    """Raise DeviceError if the pair at its simulated size does not fit into the free memory."""
    free = hardware.free_memory(opened.device)
    needed = memory_margin(opened.needed_bytes)
    if free is None or needed <= free:
        return
    for side in opened.sides:
        if side.body is not None:
            raise DeviceError(
                f"A simulated {side.role} of {COUNT.shown(side.parameters)} parameters does not "
                f"fit: the pair needs {SIZE.shown(needed)}, but only {SIZE.shown(free)} are free.",
                remedy="Choose a smaller size, or a smaller dtype such as bfloat16.",
            )


def _load_models(opened: OpenPair, asked: str, on_progress: ProgressCallback) -> dict[str, Model]:
    """Return the loaded models by role.

    The draft is loaded first. If the target does not fit into the memory that is left, its layers
    are spread over several devices.
    """
    models: dict[str, Model] = {}
    for side in reversed(opened.sides):
        on_progress(_loading("loading", side))
        size = side.own_parameters * opened.dtype.itemsize
        if side.packed:
            size = side.source.packed_bytes()
        may_spread = side.source.can_spread and side.role == TARGET and asked in ("auto", "cuda")
        spread = _must_spread(side.source.name, size, opened.device, may_spread=may_spread)
        models[side.role] = _load_model(side, opened, on_progress, spread=spread)
    return models


def _loading(doing: str, side: Side) -> Progress:
    return Progress(activity="loading", text=f"{doing} {side.role} {side.source.name}")


def _must_spread(name: str, size: int, device: torch.device, *, may_spread: bool) -> bool:
    """Return whether the model must be spread over several devices.

    Raises:
        DeviceError: the model must be spread, but cannot be.
    """
    free = hardware.free_memory(device)
    if free is None or size <= free:
        return False
    if device.type != "cuda" or not may_spread:
        raise out_of_memory(name)
    from transformers.utils.import_utils import is_accelerate_available

    if not is_accelerate_available():
        raise DeviceError(
            f"{name} does not fit on one GPU, and the package that spreads it over several devices "
            "is not installed.",
            remedy="Run `pip install accelerate`, or choose a smaller model.",
        )
    return True


def _load_model(
    side: Side, opened: OpenPair, on_progress: ProgressCallback, *, spread: bool
) -> Model:
    """Load a model onto the device or, with ``spread``, onto several devices.

    Without ``spread``, transformers loads the model into CPU memory, because loading it directly
    onto another device needs accelerate. ``model.to`` then moves the parameters one by one, so the
    device never holds a parameter twice.
    """
    text = f"reading {side.role} {side.source.name}"

    def report(done: int, total: int) -> None:
        on_progress(Progress(activity="loading", text=text, done_bytes=done, total_bytes=total))

    with loading_errors(side.source.name, "model"):
        model, missing = side.source.read_model(
            side.config, opened.dtype, report, spread=spread, packed=side.packed
        )
    _require_all_weights(side.source.name, missing)
    with loading_errors(side.source.name, "model"):
        placed: Any = model if spread else model.to(opened.device)  # pyright: ignore
    return placed.eval().requires_grad_(False)


def _require_all_weights(name: str, missing: list[str]) -> None:
    """Raise PairError for missing weights, which transformers would initialise randomly."""
    if missing:
        raise PairError(
            f"The weights of {name} lack {missing[0]} and {len(missing) - 1} other tensors."
            if len(missing) > 1
            else f"The weights of {name} lack {missing[0]}.",
            remedy="Give a complete causal language model, or download this model again.",
        )


def _check_models(
    opened: OpenPair, models: dict[str, Model], on_progress: ProgressCallback
) -> None:
    for side in opened.sides:
        vocabulary = opened.vocabulary_of(side.role)
        on_progress(_loading("checking", side))
        with loading_errors(side.source.name, "model"):
            compatibility.require_numbers(models[side.role], side.source.name)
            rollback.check_rollback(models[side.role], side.source.name, vocabulary)


def _enlarge(side: Side, model: Model, vocabulary: int, on_progress: ProgressCallback) -> Model:
    """Enlarge the model if a simulated size is requested, check its logits, and return it."""
    body = side.body
    if body is None:
        return model
    text = f"enlarging {side.role} {side.source.name} to {COUNT.shown(body.parameters)}"

    def report(done: int, total: int) -> None:
        on_progress(Progress(activity="growing", text=text, done_bytes=done, total_bytes=total))

    with loading_errors(side.source.name, "body"):
        if getattr(model, "hf_device_map", None) is not None:
            raise PairError(
                f"{side.source.name} is spread over several devices, so it cannot be enlarged.",
                remedy="Use the model without a simulated size, or choose one device.",
            )
        grown = grow(model, body.shape, report)
        compatibility.require_same_logits(grown, model, side.source.name, vocabulary)
    return grown


def _step_weights(
    opened: OpenPair, models: dict[str, Model], step: str, on_progress: ProgressCallback
) -> tuple[dict[str, StepWeights], tuple[str, ...]]:
    if opened.device.type == "cpu" and are_available():
        on_progress(COMPILING)
        ready(type_name(opened.dtype))
    with loading_errors(opened.sides[0].source.name, "step"):
        vocabularies = {role: opened.vocabulary_of(role) for role in models}
        return compatibility.take_step_weights(models, vocabularies, step)


def _add_lanes(pair: Pair, asked: str, on_progress: ProgressCallback) -> tuple[str, ...]:
    """Prepare rounds that run entirely on the device (on a GPU, as CUDA graphs); return notices.

    ``asked`` is the value of the option --step. "graphed" requests such rounds, and "auto" uses
    them if CUDA graphs are available. If the pair cannot run such rounds, "graphed" raises
    PairError, and "auto" returns a notice.
    """
    if asked != GRAPHED and not (asked == "auto" and has_graphs(pair.device)):
        return ()
    on_progress(
        Progress(activity="loading", text="preparing rounds that run entirely on the device")
    )
    reason = add_lanes(pair)
    if reason and asked == GRAPHED:
        raise PairError(
            f"The pair does not support --step graphed: {reason}.", remedy="Use `--step lean`."
        )
    return (f"The host runs rounds step by step, without CUDA graphs: {reason}.",) if reason else ()


def _assemble(
    opened: OpenPair,
    models: dict[str, Model],
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
    side: Side, model: Model, files: tuple[Path, ...], weights: StepWeights
) -> ModelInfo:
    return ModelInfo(
        name=side.source.name,
        family=side.source.family,
        parameters=side.parameters,
        weights_sha256=weights_sha256(files, packed=side.packed_as),
        step=weights.kind,
        body=_body_info(side, model) if side.body else None,
        weights=types_of(model),
        weights_option=side.weights,
    )


def _body_info(side: Side, model: Model) -> BodyInfo:
    assert side.body is not None
    return body_info(side.body.name, side.body.parameters, model, side.own_parameters)


def _end_ids(target: Model, tokenizer: Any, vocabulary: int) -> frozenset[int]:
    settings = target.generation_config
    named = settings.eos_token_id if settings is not None else None
    ids = {*(named if isinstance(named, list) else [named]), tokenizer.eos_token_id}
    return frozenset(int(i) for i in ids if i is not None and 0 <= i < vocabulary)
