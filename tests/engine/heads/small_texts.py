"""The first tokens of sampled runs on a target of seven tokens, and their exact distribution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from specviz.engine import Pair, speculate
from specviz.engine.decoding.head_drafting import HeadDrafter
from specviz.record.run_config import RunConfig

SMALL, DEPTH, START = 7, 2, (3, 1, 4)  # vocabulary, tokens, prompt


def first_tokens(pair: Pair, count: int, changes: Mapping[str, Any] | None = None) -> np.ndarray:
    """The first DEPTH tokens of runs with different seeds, each as a number."""
    assert pair.head is not None
    settings: dict[str, Any] = {"drafter": pair.head.method, "gamma": 2, "temperature": 1.0}
    chosen = RunConfig(
        **settings | dict(changes or {}),
        max_new_tokens=DEPTH + 1,
        ignore_eos=True,
        record=False,
    )
    cells = []
    for seed in range(count):
        run = speculate(pair, START, replace(chosen, seed=seed))
        list(run)
        cells.append(run.emitted[0] * SMALL + run.emitted[1])
    return np.array(cells)


def exact(pair: Pair) -> np.ndarray:
    texts = torch.tensor([[*START, *text] for text in product(range(SMALL), repeat=DEPTH)])
    model: Any = pair.target
    with torch.inference_mode():
        probs = model(texts).logits.softmax(-1).double()
    chances = torch.ones(len(texts), dtype=torch.float64)
    for place in range(len(START) - 1, len(START) - 1 + DEPTH):
        chances *= probs[torch.arange(len(texts)), place, texts[:, place + 1]]
    return chances.numpy() / chances.sum().item()


def report_wrong_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let heads report equal probabilities of all tokens, whatever they drew from."""
    propose = HeadDrafter.propose

    def lie(*given: Any, **named: Any) -> Any:
        made = propose(*given, **named)
        return replace(made, probs=torch.full_like(made.probs, 1 / SMALL))

    monkeypatch.setattr(HeadDrafter, "propose", lie)
