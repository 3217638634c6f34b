"""A tiny pair in folders for the real command line, and the command line in a process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.engine.models import write_pair
from tests.ready_processes import fork

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


class Command:
    """The command line in a forked process, with its output in pipes."""

    def __init__(self, arguments: list[str]) -> None:
        ends = [os.pipe(), os.pipe()]
        places = {1: ends[0][1], 2: ends[1][1]}
        self._process = fork("specviz.cli:main", arguments, descriptors=places)
        for _, written in ends:
            os.close(written)
        self.stdout, self.stderr = (os.fdopen(read, encoding="utf-8") for read, _ in ends)

    def interrupt(self) -> None:
        os.kill(self._process.pid, signal.SIGINT)

    def end(self, seconds: float = 120) -> tuple[int, str, str]:
        """Return the exit code, the rest of the output and all errors."""
        with self.stdout, self.stderr:
            printed, errors = self.stdout.read(), self.stderr.read()
        return self._process.wait(seconds), printed, errors
