"""A machine whose only models are in one added folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.local_models.added_folders import add_folders
from tests.engine.models import CHAT_TEMPLATE, tiny_model, write_model
from tests.engine.two_vocabularies import tokenizers

_PLACES = ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "OLLAMA_MODELS", "LLAMA_CACHE")


def write_models(folder: Path) -> Path:
    """Write a target, a draft with its tokenizer, one with another, and a broken file."""
    shapes = {
        "large": ("words", {"num_hidden_layers": 8}),
        "small": ("words", {}),
        "foreign": ("other words", {}),
    }
    for name, (words, shape) in shapes.items():
        tokenizer = tokenizers()[words]
        tokenizer.chat_template = CHAT_TEMPLATE if name == "large" else None
        end = tokenizer.eos_token_id
        model = tiny_model(vocabulary=len(tokenizer), eos_token_id=end, **shape)
        write_model(folder / name, model, tokenizer)
        tokenizer.chat_template = None
    (folder / "broken.gguf").write_bytes(b"GGUF" + bytes(60))
    return folder


def use_home(home: Path, patch: pytest.MonkeyPatch) -> None:
    """Use a home without models, and no models of other programs."""
    for name in _PLACES:
        patch.delenv(name, raising=False)
    patch.setenv("HOME", str(home))


def use_models(folder: Path, home: Path, patch: pytest.MonkeyPatch) -> None:
    """Use a machine with the models of a folder, which the user has added."""
    use_home(home, patch)
    patch.setenv("SPECVIZ_HOME", str(home / "specviz"))
    add_folders([folder])
