"""Check whether a model has a chat template, without reading its weights."""

from __future__ import annotations

import os
from pathlib import Path

from specviz.errors import ModelFileError
from specviz.formats.gguf_header import read_header
from specviz.formats.model_folder import has_chat_template
from specviz.local_models.finding import find_models
from specviz.local_models.searching import path_at
from specviz.record.pairs import PairSpec

_TEMPLATE_FILES = ("tokenizer_config.json", "chat_template.jinja")


def target_has_chat(spec: PairSpec) -> bool | None:
    """Return whether the target has a chat template; None if the target is not on this machine."""
    place = os.path.expanduser(spec.target_place)
    known = place_has_chat(place)
    if known is not None:
        return known
    found = find_models().named(place)
    return found.facts.chat if found is not None else None


def place_has_chat(place: str) -> bool | None:
    """Return whether a folder, GGUF file, Ollama model or cached Hub model has a chat template.

    Return None if there is no such model on this machine. If a file cannot be read, return False;
    loading the model will report the error.
    """
    try:
        path = path_at(place)
        if path is not None and path.is_file():
            return _gguf_has_chat(path)
        if path is None or not (os.path.isdir(place) or _has_small_files(path)):
            return None
        return has_chat_template(path)
    except (ModelFileError, OSError):
        return False


def _has_small_files(folder: Path) -> bool:
    return any((folder / each).is_file() for each in _TEMPLATE_FILES)


def _gguf_has_chat(path: Path) -> bool:
    return bool(read_header(path).text("tokenizer.chat_template"))
