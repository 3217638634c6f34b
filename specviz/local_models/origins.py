"""Find the folders in which programs store models on this machine.

| origin | place |
|---|---|
| Hugging Face | ``HF_HUB_CACHE``, or ``hub`` in ``HF_HOME`` or ``~/.cache/huggingface`` |
| LM Studio | ``~/.lmstudio/models``; in old versions, ``~/.cache/lm-studio/models`` |
| Ollama | ``OLLAMA_MODELS`` or ``~/.ollama/models``; the Linux service's folder |
| llama.cpp | ``LLAMA_CACHE`` or ``~/.cache/llama.cpp`` |
| specviz | the package that ``INSTALL_CHAT`` installs |
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from specviz.formats.ollama import ollama_folders
from specviz.record.pairs import chat_file
from specviz.values import Value

OURS = "specviz"
Layout = Literal["hub", "ollama", "files"]


class Origin(Value):
    """A program that stores models: its name, its folder, and the layout of the folder."""

    name: str
    folder: Path
    layout: Layout


def hub_folder() -> Path:
    """Return the folder in which Hugging Face's libraries store models."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    hub = Path(os.environ.get("HF_HOME") or cache / "huggingface") / "hub"
    return Path(os.environ.get("HF_HUB_CACHE") or hub)


def known_origins() -> tuple[Origin, ...]:
    """Return the folders of known programs that exist on this machine."""
    home, env = Path.home(), os.environ
    cache = Path(env.get("XDG_CACHE_HOME") or home / ".cache")
    places: list[tuple[str, Layout, Path]] = [
        ("Hugging Face", "hub", hub_folder()),
        ("LM Studio", "files", home / ".lmstudio" / "models"),
        ("LM Studio", "files", cache / "lm-studio" / "models"),
        *(("Ollama", "ollama", each) for each in ollama_folders()),
        ("llama.cpp", "files", Path(env.get("LLAMA_CACHE") or cache / "llama.cpp")),
    ]
    if (chat := chat_file()) is not None:
        places.insert(0, (OURS, "files", chat.parent))
    return tuple(
        Origin(name=name, folder=folder, layout=layout)
        for name, layout, folder in places
        if os.path.isdir(folder)
    )
