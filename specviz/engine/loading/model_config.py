"""Read a model's untrusted ``config.json`` and ``generation_config.json``.

The files are read with a size limit, and checked before a library builds anything from them. Wrong
types, endless nesting or millions of layers raise a one-line error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specviz.errors import PairError
from specviz.formats.model_folder import SAME_DECODER

MAX_BYTES = 4 * 2**20
_CONFIG, _GENERATION = "config.json", "generation_config.json"
# Limits on modules, which transformers builds one by one; this takes time even on the meta device.
_MOST = (
    (re.compile(r"(n|num|number)(_of)?(_\w+)?_(layers?|blocks)|depth"), 1_000, "layers"),
    (re.compile(r"(n|num|moe_num)(_\w+)?_experts"), 4_096, "experts"),
)


def read_config(folder: Path, name: str, *, plain: bool = False) -> dict[str, Any]:
    """Return the model's configuration after checks that import no model code.

    Args:
        plain: Whether the model is loaded without transformers, so its family is not checked.
    """
    config = _read(folder / _CONFIG, name)
    if config is None:
        refuse_gguf_files(folder, name)
        raise PairError(
            f"{name} contains no model: config.json is missing.",
            remedy="Give a folder or a Hub id of a transformers model.",
        )
    if plain:
        _check_sizes(config, name)
    else:
        check_config(config, name)
    for file, settings in ((_CONFIG, config), (_GENERATION, _read(folder / _GENERATION, name))):
        _check_ends(settings or {}, file, name)
    return config


def refuse_gguf_files(folder: Path, name: str) -> None:
    """Raise PairError if the folder contains GGUF files: the user must choose one of the files."""
    if files := sorted(folder.glob("*.gguf")):
        raise PairError(
            f"{name} holds GGUF files.", remedy=f"Give one of these files, such as {files[0].name}."
        )


def check_config(config: dict[str, Any], name: str) -> None:
    """Raise PairError unless this is a causal language model of a supported size."""
    _check_family(config, name)
    _check_sizes(config, name)


def read_object(path: Path) -> dict[str, Any]:
    """Return a JSON object of at most ``MAX_BYTES``; raise ValueError for anything else."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError("too large")
        found = json.loads(content)
    except (OSError, RecursionError) as error:  # RecursionError: endless nesting
        raise ValueError(str(error)) from error
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _read(path: Path, name: str) -> dict[str, Any] | None:
    try:
        return read_object(path) if path.is_file() else None
    except (OSError, ValueError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if isinstance(cause, OSError):
            raise PairError(
                f"The {path.name} of {name} cannot be read: {cause.strerror}.",
                remedy="Check the file and its permissions.",
            ) from None
        raise PairError(
            f"The {path.name} of {name} cannot be read.", remedy="Copy or download the file again."
        ) from None


def _check_family(config: dict[str, Any], name: str) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    family = config.get("model_type")
    if isinstance(family, str):
        family = SAME_DECODER.get(family, family)
    if isinstance(family, str) and family in CONFIG_MAPPING_NAMES:
        causal = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(family)
        if _is_causal(config, causal, masked=family in MODEL_FOR_MASKED_LM_MAPPING_NAMES):
            return
        raise PairError(
            f"{name} is not a causal language model ({family}).",
            remedy="Choose a decoder-only text model, such as Llama, Qwen or GPT-2.",
        )
    if "auto_map" in config:
        raise PairError(
            f"{name} brings its own model code, which is never run.",
            remedy="Choose a model of a family that transformers itself supports.",
        )
    raise PairError(
        f"{name} belongs to the family {_short(family)}, which transformers does not support here.",
        remedy="Choose another model, or install a transformers version that supports it.",
    )


def _is_causal(config: dict[str, Any], causal: str | None, *, masked: bool) -> bool:
    """Return whether the model is causal.

    transformers lists some encoder families as causal, too. For these, the configuration's
    ``architectures`` says what the model is. If the family has masked models (``masked``), a bare
    model such as BertModel does not count as causal, because it returns embeddings.
    """
    if causal is None or config.get("is_encoder_decoder"):
        return False
    encoders = ["MaskedLM", "PreTraining", "Classification", "ConditionalGeneration"]
    encoders += ["Model"] if masked else []
    named = config.get("architectures")
    built = [str(entry) for entry in named] if isinstance(named, list) else []
    return (
        not built
        or causal in built
        or not any(word in entry for word in encoders for entry in built)
    )


def _check_sizes(config: dict[str, Any], name: str) -> None:
    for key, value in _numbers(config):
        for pattern, most, what in _MOST:
            if value > most and pattern.fullmatch(key):
                raise PairError(
                    f"The config.json of {name} asks for {value:.6g} {what} ({key}).",
                    remedy=f"Choose a model with at most {most:,} {what}.",
                )


def _numbers(config: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the key and value of every number, also in nested configurations."""
    parts = [config]
    while parts:
        for key, value in parts.pop().items():
            if isinstance(value, dict):
                parts.append(value)
            elif isinstance(value, int | float):
                yield key, value


def _check_ends(settings: dict[str, Any], file: str, name: str) -> None:
    ends = settings.get("eos_token_id")
    for end in ends if isinstance(ends, list) else [ends]:
        if end is not None and (isinstance(end, bool) or not isinstance(end, int)):
            raise PairError(
                f"The {file} of {name} names {_short(ends)} as its end-of-text token.",
                remedy="Set eos_token_id to the token's number or to a list of numbers.",
            )


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"
