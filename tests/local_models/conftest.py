"""A machine with models of several programs, laid out as those programs do."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.engine.models import CHAT_TEMPLATE, write_pair
from tests.formats.tiny_gguf import tiny_gguf

DIGEST = "cd" * 32


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("pair"), chat_template=CHAT_TEMPLATE)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: Path) -> Path:
    """An empty home with a Hub cache, LM Studio, Ollama and llama.cpp."""
    for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "OLLAMA_MODELS", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "specviz"))
    hub = tmp_path / ".cache" / "huggingface" / "hub"
    _hub_model(hub, "maker/big", pair / "target", "1" * 40)
    _hub_model(hub, "maker/small", pair / "draft", "2" * 40)
    studio = tmp_path / ".lmstudio" / "models" / "publisher" / "Tiny-GGUF"
    studio.mkdir(parents=True)
    tiny_gguf(studio / "Tiny-F32.gguf", tokens=40)
    (studio / "mmproj-Tiny.gguf").write_bytes(b"GGUF" + bytes(60))
    write_ollama(tmp_path / ".ollama" / "models")
    cache = tmp_path / ".cache" / "llama.cpp"
    cache.mkdir(parents=True)
    for part in (1, 2):
        tiny_gguf(cache / f"Split-0000{part}-of-00002.gguf", tokens=50, parts=2)
    return tmp_path


def _hub_model(hub: Path, name: str, source: Path, commit: str) -> None:
    """Store a model as the Hub client does: blobs, and links to them in a snapshot."""
    folder = hub / f"models--{name.replace('/', '--')}"
    snapshot, blobs = folder / "snapshots" / commit, folder / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, file in enumerate(sorted(source.iterdir())):
        shutil.copy(file, blobs / str(number))
        (snapshot / file.name).symlink_to(os.path.relpath(blobs / str(number), snapshot))
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(commit)


def write_ollama(folder: Path) -> None:
    manifests, blobs = folder / "manifests", folder / "blobs"
    blobs.mkdir(parents=True)
    tiny_gguf(blobs / f"sha256-{DIGEST}", tokens=60)
    for path, digest in (("library/story/1m", DIGEST), ("user/lost/latest", "ef" * 32)):
        manifest = manifests / "registry.ollama.ai" / path
        manifest.parent.mkdir(parents=True)
        layer = {
            "mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"
        }  # fmt: skip
        manifest.write_text(json.dumps({"layers": [layer]}))
