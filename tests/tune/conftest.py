"""One thread for every test of a pair; tiny pairs in folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from specviz.engine import Pair
from tests.engine.asking import load
from tests.engine.models import noisy_copy, small_tokenizer, tiny_model, write_model
from tests.step_costs import place_step_costs, rough_costs

__all__ = ["rough_costs"]  # a fixture


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target and two drafts; the second is better."""
    target, tokenizer = tiny_model(num_hidden_layers=1), small_tokenizer()
    folder = tmp_path_factory.mktemp("pairs")
    for name, model in (
        ("target", target),
        ("draft", noisy_copy(target, 0.2)),
        ("better", noisy_copy(target, 0.02)),
    ):
        write_model(folder / name, model, tokenizer)
    return folder


@pytest.fixture(scope="module")
def pair(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The first pair; step costs of both pairs are in the data folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(tmp_path_factory.mktemp("home")))
        found = load(folder)
        place_step_costs(found, "model", "prompt-lookup")
        place_step_costs(load(folder, draft=str(folder / "better")))
        yield found
