"""Fixtures: one thread, a separate data folder, and one tiny pair per execution path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from specviz.engine.model.pair import Pair
from tests.engine.asking import load
from tests.engine.models import write_pair


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="package")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with step costs measured once, shared by tests that do not need an empty one."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(folder))
        yield folder


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("pair"), num_hidden_layers=1)


@pytest.fixture(scope="package")
def pair(folder: Path) -> Pair:
    """A pair on the lean path."""
    return load(folder)


@pytest.fixture(scope="package")
def library_pair(folder: Path) -> Pair:
    return load(folder, step="library")
