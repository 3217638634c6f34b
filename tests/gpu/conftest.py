"""Tests that need a GPU. ``make test-gpu`` runs them, and fails without one.

``SPECVIZ_TEST_DEVICE=cpu`` runs them on a CPU and skips those that need CUDA.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch

from specviz.engine import Pair, load_pair
from specviz.record.pairs import GRAPHED, PairSpec

ASKED = "SPECVIZ_TEST_GPU"  # set by ``make test-gpu``: a missing GPU is a failure then


@pytest.fixture(scope="session")
def device() -> str:
    tried = os.environ.get("SPECVIZ_TEST_DEVICE", "cuda")
    if tried != "cuda" or torch.cuda.is_available():
        return tried
    if os.environ.get(ASKED):
        pytest.fail("there is no CUDA device")
    pytest.skip("needs a CUDA device")


@pytest.fixture(autouse=True)
def home(device: str, tmp_path: Path) -> Iterator[None]:
    del device
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(tmp_path))
        yield


@cache
def embedded(device: str, dtype: str, step: str = GRAPHED, body: str = "none") -> Pair:
    """The embedded pair, with its target in a body."""
    return load_pair(PairSpec(device=device, dtype=dtype, step=step, target_body=body))
