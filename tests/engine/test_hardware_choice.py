"""The dtype that fits a GPU, on a fake machine with two GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from specviz.engine.loading import hardware


def test_auto_dtype_is_that_of_the_named_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second GPU computes in bfloat16, the first and current one does not."""
    current = [0]

    @contextmanager
    def switch(device: torch.device) -> Iterator[None]:
        current.append(device.index or 0)
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "device", switch)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: current[-1] == 1)
    chosen = [hardware.choose_dtype("auto", torch.device("cuda", each)) for each in (0, 1)]
    assert chosen == [torch.float16, torch.bfloat16]
