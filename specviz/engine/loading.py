"""Load a pair: find both models, prove that they can work together, choose how they step.

The order is from cheap to dear: settings, small files, tokenizers, then weights, then
probes. All that a user can have got wrong is a ``SpecvizError`` of one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.utils import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)
from huggingface_hub.utils import logging as hub_logging
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.utils import logging as hf_logging

from specviz.engine import compatibility, hardware, sources
from specviz.engine.compatibility import Words
from specviz.engine.fingerprint import weights_sha256
from specviz.engine.lean import LeanWeights
from specviz.engine.pair import Pair
from specviz.engine.sources import Chosen, Source, Tell
from specviz.engine.text import make_token_table
from specviz.errors import ConfigError, DeviceError, PairError, SpecvizError
from specviz.trace import ModelInfo, PairInfo

STEPS = ("auto", "library", "lean")
_DRAFT, _TARGET = "draft", "target"
_LOCAL = {"local_files_only": True, "trust_remote_code": False}


@dataclass(slots=True, eq=False, kw_only=True)
class _Side:
    """One model on its way into the pair."""

    role: str
    source: Source
    config: PreTrainedConfig
    tokenizer: Any
    files: tuple[Path, ...] = ()
    parameters: int = 0  # as stored

    @property
    def words(self) -> Words:
        rows = int(self.config.get_text_config().vocab_size)
        return Words(name=self.source.name, tokenizer=self.tokenizer, rows=rows)


def load_pair(
    name: str | None = None,
    *,
    draft: str | None = None,
    target: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    step: str = "auto",
    threads: int | None = None,
    needs_draft: bool = True,
    progress: Tell | None = None,
) -> Pair:
    """An embedded pair by ``name``, or two models by Hub id or folder.

    ``threads`` counts on a CPU only; without it a short calibration chooses. ``progress``
    is told, in a line each, what is being loaded.
    """
    place = hardware.choose_device(device)
    number = hardware.choose_dtype(dtype, place)
    hardware.check_threads(threads)
    _check_step(step)
    chosen = sources.choose(name, draft, target, needs_draft)
    tell = progress or _tell_nobody
    with _quiet_libraries():
        sides = _open_sides(chosen, tell)
        vocabulary, notices = _agree(sides)
        _fetch_weights(sides, tell)
        candidates = [threads] if threads else hardware.thread_candidates(_largest(sides))
        if place.type == "cpu":  # the probes must not stall on more threads than are free
            torch.set_num_threads(candidates[0])
        models = _load_models(sides, device, place, number, tell)
    lean, lean_notices = _prove(sides, models, vocabulary, step, tell)
    max_context, context_notices = compatibility.context_limits(
        {side.source.name: models[side.role] for side in sides}
    )
    pair = _assemble(chosen.name, sides, models, vocabulary, max_context, lean, place, number)
    pair.notices = (*notices, *lean_notices, *context_notices)
    if place.type == "cpu" and len(candidates) > 1:
        chosen_threads = hardware.calibrate_threads(pair.target_step, candidates)
        pair.environment = replace(pair.environment, threads=chosen_threads)
    return pair


def _check_step(step: str) -> None:
    if step not in STEPS:
        raise ConfigError(f"step is {step!r}.", remedy=f"Choose one of {', '.join(STEPS)}.")


def _tell_nobody(line: str) -> None:
    del line


def _open_sides(chosen: Chosen, tell: Tell) -> list[_Side]:
    """Target first; with its configuration and tokenizer, and no weights yet."""
    places = [(_TARGET, chosen.target, chosen.target_name)]
    if chosen.draft is not None:
        places.append((_DRAFT, chosen.draft, chosen.draft_name or chosen.draft))
    return [
        _open_side(role, sources.open_source(place, name, tell)) for role, place, name in places
    ]


def _open_side(role: str, source: Source) -> _Side:
    sources.require_tokenizer_files(source)
    with _explained(source.name, "configuration"):
        config = AutoConfig.from_pretrained(source.folder, **_LOCAL)
    with _explained(source.name, "tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(source.folder, **_LOCAL)
    return _Side(role=role, source=source, config=config, tokenizer=tokenizer)


def _agree(sides: list[_Side]) -> tuple[int, tuple[str, ...]]:
    target, *drafts = [side.words for side in sides]
    return compatibility.common_vocabulary(target, drafts[0] if drafts else None)


def _fetch_weights(sides: list[_Side], tell: Tell) -> None:
    for side in sides:
        side.files = sources.fetch_weights(side.source, tell)
        side.parameters = sources.count_weights(side.files)


def _largest(sides: list[_Side]) -> int:
    return max(side.parameters for side in sides)


def _load_models(
    sides: list[_Side], asked: str, device: torch.device, dtype: torch.dtype, tell: Tell
) -> dict[str, PreTrainedModel]:
    """By role; the draft first, so that the room left is known when the target comes."""
    models: dict[str, PreTrainedModel] = {}
    for side in reversed(sides):
        tell(f"loading {side.role} {side.source.name}")
        size = side.parameters * dtype.itemsize
        spread = side.role == _TARGET and asked in ("auto", "cuda")
        placement = _placement(side.source.name, size, device, may_spread=spread)
        models[side.role] = _load_model(side, dtype, placement)
    return models


def _placement(name: str, size: int, device: torch.device, *, may_spread: bool) -> Any:
    """What transformers calls a device map; None leaves the model on the CPU."""
    free = hardware.free_memory(device)
    if free is not None and size > free:
        if device.type == "cuda" and may_spread:
            return "auto"
        raise _out_of_memory(name)
    return None if device.type == "cpu" else {"": device}


def _load_model(side: _Side, dtype: torch.dtype, placement: Any) -> PreTrainedModel:
    with _explained(side.source.name, "model"):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            side.source.folder,
            config=side.config,
            dtype=dtype,
            device_map=placement,
            use_safetensors=True,
            output_loading_info=True,
            **_LOCAL,
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


def _prove(
    sides: list[_Side], models: dict[str, PreTrainedModel], vocabulary: int, step: str, tell: Tell
) -> tuple[dict[str, LeanWeights], tuple[str, ...]]:
    for side in sides:
        tell(f"checking {side.role} {side.source.name}")
        with _explained(side.source.name, "model"):
            compatibility.check_rollback(models[side.role], side.source.name, vocabulary)
    with _explained(sides[0].source.name, "lean step"):
        return compatibility.take_lean(models, vocabulary, step)


def _assemble(
    name: str,
    sides: list[_Side],
    models: dict[str, PreTrainedModel],
    vocabulary: int,
    max_context: int | None,
    lean: dict[str, LeanWeights],
    device: torch.device,
    dtype: torch.dtype,
) -> Pair:
    infos = {side.role: _model_info(side, models[side.role], bool(lean)) for side in sides}
    target, tokenizer = models[_TARGET], sides[0].tokenizer
    return Pair(
        name=name,
        target=target,
        draft=models.get(_DRAFT),
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        token_table=make_token_table(tokenizer, vocabulary),
        eos_ids=_end_ids(target, tokenizer, vocabulary),
        max_context=max_context,
        device=compatibility.input_device(target),
        info=PairInfo(
            name=name, target=infos[_TARGET], draft=infos.get(_DRAFT), vocabulary=vocabulary
        ),
        environment=hardware.describe(device, dtype),
        lean_target=lean.get(_TARGET),
        lean_draft=lean.get(_DRAFT),
    )


def _model_info(side: _Side, model: PreTrainedModel, lean: bool) -> ModelInfo:
    return ModelInfo(
        name=side.source.name,
        family=side.source.family,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        weights_sha256=weights_sha256(side.files),
        step="lean" if lean else "library",
    )


def _end_ids(target: PreTrainedModel, tokenizer: Any, vocabulary: int) -> frozenset[int]:
    settings = target.generation_config
    named = settings.eos_token_id if settings is not None else None
    ids = {*(named if isinstance(named, list) else [named]), tokenizer.eos_token_id}
    return frozenset(int(i) for i in ids if i is not None and 0 <= i < vocabulary)


@contextmanager
def _explained(name: str, part: str) -> Iterator[None]:
    """Turn what the libraries raise while they load into one line for the user."""
    try:
        yield
    except SpecvizError:
        raise
    except ImportError as error:
        raise PairError(
            f"The {part} of {name} needs a package that is not installed: {_first_line(error)}.",
            remedy="Install it, or choose another model.",
        ) from error
    except Exception as error:
        if hardware.is_out_of_memory(error):
            raise _out_of_memory(name) from error
        raise PairError(
            f"The {part} of {name} cannot be loaded: {_first_line(error)}.",
            remedy="Copy or download it again, or choose another model.",
        ) from error


def _out_of_memory(name: str) -> DeviceError:
    return DeviceError(
        f"{name} does not fit in the memory of the device.",
        remedy="Choose a smaller model, or --dtype bfloat16, or another --device.",
    )


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".:")[:200]


@contextmanager
def _quiet_libraries() -> Iterator[None]:
    """No bars and no warnings while loading; as the user had them afterwards."""
    verbosity, hub_verbosity = hf_logging.get_verbosity(), hub_logging.get_verbosity()
    bars, hub_bars = hf_logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
    hf_logging.set_verbosity_error()
    hub_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    disable_progress_bars()
    try:
        yield
    finally:
        hf_logging.set_verbosity(verbosity)
        hub_logging.set_verbosity(hub_verbosity)
        if bars:
            hf_logging.enable_progress_bar()
        if hub_bars:
            enable_progress_bars()
