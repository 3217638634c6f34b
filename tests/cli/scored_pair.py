"""Fixtures: a tiny pair, and a data folder with its step costs, so that none are measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from specviz.cli import main
from specviz.engine import load_pair
from specviz.record.pairs import PairSpec
from tests.cli.tiny_models import folder, models
from tests.step_costs import place_step_costs

__all__ = ["complaint", "folder", "home", "models"]


@pytest.fixture(scope="module", autouse=True)
def home(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The data folder, instead of the one of conftest.py."""
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("SPECVIZ_TIMING_SECONDS", "0.03")  # wide intervals are enough
        pair = PairSpec(draft=str(folder / "draft"), target=str(folder / "target"), threads=1)
        place_step_costs(load_pair(pair), "model", "prompt-lookup")
        yield
    torch.set_num_threads(threads)


def complaint(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the error line, the last one after any loading progress; standard output is empty."""
    capsys.readouterr()
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    output = [line for line in printed.err.rstrip("\n").split("\n") if line.startswith("error: ")]
    assert len(output) == 1
    assert len(output[0]) < 500
    return output[0].removeprefix("error: ")
