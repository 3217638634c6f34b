"""The embedded models that are installed, with a caption for each."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from specviz.errors import ModelFileError
from specviz.formats.gguf_parts import parameters_of, read_parts
from specviz.record.pairs import (
    CHAT_PAIR,
    DEFAULT_PAIR,
    EMBEDDED_HEADS,
    EMBEDDED_PAIRS,
    chat_file,
    installed_pairs,
)
from specviz.ui.session.machine_models import itemsize_of, size_in_memory

_FIRST = os.environ.get("SPECVIZ_FIRST_MODEL", DEFAULT_PAIR)  # `make chat` sets the chat model
EMBEDDED_MODELS = (*sorted(EMBEDDED_PAIRS, key=lambda name: name != _FIRST),)  # first: chosen
_HEAD_TARGETS = {DEFAULT_PAIR: "The same target", CHAT_PAIR: "The chat model"}
_HEAD_NAMES = {"eagle3": "an EAGLE-3 head", "medusa": "Medusa heads"}


def embedded_captions() -> dict[str, str]:
    """Return a caption for each installed embedded pair or model, by name."""
    captions = {
        name: f"{_HEAD_TARGETS[pair]} with {_HEAD_NAMES[kind]}"
        for name, (pair, kind) in EMBEDDED_HEADS.items()
    }
    captions[DEFAULT_PAIR] = "Target and draft, trained on short stories"
    if (path := chat_file()) is not None:
        captions[CHAT_PAIR] = f"Chat model without a draft{_chat_size(path)}"
    here = installed_pairs()
    return {name: captions[name] for name in EMBEDDED_MODELS if name in here}


def _chat_size(path: Path) -> str:
    """Return the size of the chat model for its caption; empty if its file cannot be read."""
    try:
        parameters, file_bytes = _parameters_and_bytes(path, path.stat().st_mtime_ns)
    except (ModelFileError, OSError):
        return ""
    itemsize = itemsize_of("auto", "auto")  # None on a CPU: weights as in the file
    return f": {size_in_memory(file_bytes, parameters * itemsize if itemsize else file_bytes)}"


@lru_cache(maxsize=2)
def _parameters_and_bytes(path: Path, changed: int) -> tuple[int, int]:
    del changed
    headers = read_parts(path)
    return parameters_of(headers), sum(each.file_bytes for each in headers)
