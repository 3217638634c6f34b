"""Fixtures: a small corpus with learnable structure, and one thread."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

_NAMES = ("Lily", "Tom", "Ben", "Mia", "Sam", "Anna")
_THINGS = ("ball", "hat", "cake", "book", "drum", "kite")
_PLACES = ("park", "garden", "shop", "house", "hill", "barn")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    stories = [_story(rng) for _ in range(1500)]
    text = "\n<|endoftext|>\n".join(stories)
    (folder / "tinystories.txt").write_text(text, encoding="utf-8")
    return folder


def _story(rng: np.random.Generator) -> str:
    name, other = rng.choice(_NAMES, 2, replace=False)
    thing, place = rng.choice(_THINGS), rng.choice(_PLACES)
    return (
        f"Once upon a time, {name} had a red {thing}. {name} took the {thing} to the {place}. "
        f"In the {place}, {name} met {other}. {other} liked the {thing}. "
        f"{name} and {other} played with the {thing} all day."
    )
