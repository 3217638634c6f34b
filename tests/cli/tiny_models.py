"""A tiny pair in folders for the real command line, and the command line in a forked process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.engine.models import write_pair
from tests.killing import KilledCommand

PROMPT = "Once upon a time there was a dog. Once upon a time there was"


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Share measured step costs over the whole module, including its processes."""
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("pair"), num_hidden_layers=1)


def models(folder: Path) -> list[str]:
    return ["--draft", f"{folder / 'draft'}", "--target", f"{folder / 'target'}", "--threads", "1"]


def forked(arguments: list[str], folder: Path) -> tuple[int, str, str]:
    """Run the command line in a forked process; return its exit code, output and errors."""
    command = KilledCommand("specviz.cli:main", words=arguments, folder=folder)
    code = command.start().wait(120)
    return code, command.out.read_text(), command.err.read_text()
