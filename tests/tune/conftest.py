"""One thread for every test of a pair."""

from __future__ import annotations

import pytest
import torch

from tests.step_costs import rough_costs

__all__ = ["rough_costs"]  # a fixture


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> None:
    torch.set_num_threads(1)
