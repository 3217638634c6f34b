"""The reference implementation and the engine emit the same tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from specviz.engine import speculate
from specviz.engine.decoding.sampling import Sampler
from specviz.engine.reference import Model, Text, decode, play_round
from specviz.record.trace import RunConfig
from tests.engine.playing import PROMPT, STEPS, config, llama_pair, tokens


def read(model: nn.Module, settings: RunConfig) -> Model:
    """A model as a function: a fresh pass over the whole text for each token."""
    sampler = Sampler(settings)

    def distribution(text: Text) -> np.ndarray:
        with torch.inference_mode():
            logits = model(torch.tensor([text])).logits[0, -1]
        return sampler.probs(logits).double().numpy()

    return distribution


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.0, "gamma": 4},
        {"temperature": 1.0, "gamma": 1, "seed": 1},
        {"temperature": 1.0, "gamma": 4, "seed": 2},
        {"temperature": 0.7, "top_k": 20, "top_p": 0.9, "gamma": 6, "seed": 3},
    ],
)
def test_the_engine_emits_the_same_tokens(step: str, settings: dict[str, Any]) -> None:
    pair, chosen = llama_pair(step), config(**settings)
    assert pair.draft is not None
    rounds = list(speculate(pair, PROMPT, chosen))
    assert {"recovered", "bonus"} <= {each.extra_kind for each in rounds}
    written = decode(
        read(pair.draft, chosen), read(pair.target, chosen), PROMPT,
        gamma=chosen.gamma, length=chosen.max_new_tokens, seed=chosen.seed,
    )  # fmt: skip
    assert written == tokens(rounds)


def test_a_round_by_hand() -> None:
    """Two tokens; the draft gives the first probability 0.75, the target 0.5."""

    def draft(_: Text) -> np.ndarray:
        return np.array([0.75, 0.25])

    def target(_: Text) -> np.ndarray:
        return np.array([0.5, 0.5])

    # The extra token, then for each candidate its draw and its verdict.
    assert play_round(draft, target, (), 1, (0.6, 0.5, 0.6)) == (0, 1)  # 0.45 < 0.5, and a bonus
    assert play_round(draft, target, (), 1, (0.6, 0.5, 0.7)) == (1,)  # 0.525, and the residual
    assert play_round(draft, target, (), 1, (0.1, 0.8, 0.9)) == (1, 0)  # 0.225 < 0.5
    assert play_round(draft, target, (), 2, (0.1, 0.8, 0.9, 0.5, 0.7)) == (1, 1)
    assert play_round(draft, draft, (), 1, (0.9, 0.5, 0.9)) == (
        0,
        1,
    )  # equal models: nothing is rejected
