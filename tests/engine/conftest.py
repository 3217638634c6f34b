"""One thread for every engine test, since tiny models gain nothing from more; a tiny Llama pair."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants

from specviz.engine.model.pair import Pair
from tests.engine.asking import load
from tests.engine.fake_hub import FakeHub, running_hub
from tests.engine.models import write_pair


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="package")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="package")
def llama_pair(llama: Path) -> Pair:
    return load(llama)


@pytest.fixture
def llama_copy(llama: Path, tmp_path: Path) -> Path:
    """A copy that tests may damage."""
    return Path(shutil.copytree(llama, tmp_path / "pair"))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A fake Hub that the installed client uses, with an empty cache."""
    with running_hub() as server:
        template = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        yield server
