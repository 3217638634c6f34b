"""The models of Ollama: manifests that name files by their digests.

``manifests/REGISTRY/NAMESPACE/MODEL/TAG`` is JSON. Its layer of the type "model" is the GGUF file
``blobs/sha256-DIGEST``. A name such as ``ollama:llama3.2:1b`` selects a model. Such a name
omits defaults: the registry ``registry.ollama.ai``, the namespace ``library`` and the tag
``latest``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from specviz.errors import ModelFileError

PREFIX = "ollama:"
_LAYER = "application/vnd.ollama.image.model"
_REGISTRY, _NAMESPACE, _TAG = "registry.ollama.ai", "library", "latest"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_MAX_MANIFEST, _MAX_MODELS = 1 << 20, 2_000


def ollama_folders() -> tuple[Path, ...]:
    """Return the folders where Ollama stores models; the folders may not exist."""
    if chosen := os.environ.get("OLLAMA_MODELS"):
        return (Path(chosen),)
    return Path.home() / ".ollama" / "models", Path("/usr/share/ollama/.ollama/models")


def ollama_models(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and the manifest of each model in a folder."""
    root = folder / "manifests"
    for index, path in enumerate(sorted(root.glob("*/*/*/*"))):
        if index == _MAX_MODELS:
            return
        registry, namespace, model, tag = path.relative_to(root).parts
        parts = [registry, namespace, model]
        if registry == _REGISTRY:
            parts = [model] if namespace == _NAMESPACE else [namespace, model]
        yield "/".join(parts) + ("" if tag == _TAG else f":{tag}"), path


def model_file(folder: Path, manifest: Path) -> Path:
    """Return the GGUF file that a manifest names.

    Raises:
        ModelFileError: The manifest is damaged or names no GGUF file, or the GGUF file is missing.
    """
    try:
        with manifest.open("rb") as file:
            record = json.loads(file.read(_MAX_MANIFEST))
        kinds = {str(each["mediaType"]): str(each["digest"]) for each in record["layers"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ModelFileError(
            "The model's manifest cannot be read.", remedy="Pull the model again with Ollama."
        ) from None
    digest = _DIGEST.fullmatch(kinds.get(_LAYER, ""))
    if digest is None:
        raise ModelFileError(
            "The model's weights are not a GGUF file.", remedy="Choose a model in GGUF format."
        )
    path = folder / "blobs" / f"sha256-{digest[1]}"
    if not path.is_file():
        raise ModelFileError(
            "The model's weights are missing; the download was not finished.",
            remedy="Pull the model again with Ollama.",
        )
    return path


def find_ollama(place: str) -> Path:
    """Return the GGUF file of a model such as ``ollama:llama3.2:1b``.

    Raises:
        ModelFileError: Ollama has no such model on this machine, or its file is missing.
    """
    wanted = place.removeprefix(PREFIX).removesuffix(f":{_TAG}")
    for folder in ollama_folders():
        for name, manifest in ollama_models(folder):
            if name == wanted:
                return model_file(folder, manifest)
    raise ModelFileError(
        f"Ollama has no model {wanted!r} on this machine.",
        remedy="Run `python -m specviz models` for a list, or pull the model.",
    )


def file_of(place: str) -> str:
    """Return the GGUF file of an installed Ollama model; return any other ``place`` unchanged."""
    if place.startswith(PREFIX):
        with contextlib.suppress(ModelFileError):
            return str(find_ollama(place))
    return place


def is_gguf(file: str) -> bool:
    """Return whether this is the name of a GGUF file or of a file in Ollama's storage."""
    return file.endswith(".gguf") or os.path.basename(file).startswith("sha256-")
