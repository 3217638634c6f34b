"""Shared noise at 50 fixed contexts of the embedded pair, over 2,000 seeds.

How often both models choose the same token, against the exact probability and its lower bound.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch

from specviz.engine import Pair, load_pair
from specviz.engine.decoding.sampling import Draws, Noise, Sampler, SharedNoiseChooser
from specviz.engine.decoding.token_matching import SharedNoise
from specviz.engine.model.chat import encode_prompt
from specviz.figures.method_checks import joint_deviations
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.trace import RunConfig
from tests.oracles.couplings import coupled_acceptance, coupled_floor

CONTEXTS, SEEDS = 50, 2000
CONFIG = RunConfig(rule="coupled", temperature=1.0)


def contexts(pair: Pair) -> list[list[int]]:
    """Return the first half of each prompt, and whole prompts."""
    prompts = [list(encode_prompt(pair, each.text, chat=False)) for each in read_presets()]
    return [*(ids[: len(ids) // 2] for ids in prompts), *prompts][:CONTEXTS]


@cache
def logits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits of draft and target, `[contexts, vocab_size]` each."""
    pair = load_pair(PairSpec(name="tinystories", threads=1))
    with torch.inference_mode():
        found = [
            [step(len(ids) + 1).feed(torch.tensor(ids), 1)[0] for ids in contexts(pair)]
            for step in (pair.draft_step, pair.target_step)
        ]
    draft, target = map(torch.stack, found)
    return draft, target


@cache
def agreed(*, shared: bool) -> np.ndarray:
    """Return the number of seeds with equal tokens, by context."""
    (draft, target), sampler = logits(), Sampler(CONFIG)
    target_probs, choose, rule = sampler.probs(target), SharedNoiseChooser(sampler), SharedNoise()
    found = torch.zeros(CONTEXTS, dtype=torch.int64)
    for seed in range(SEEDS):
        noise = Noise(seed, target_probs.shape[-1], target_probs.device)
        draws = Draws(torch.empty(0), noise.rows(0, CONTEXTS))
        other = draws if shared else Draws(torch.empty(0), noise.rows(CONTEXTS, CONTEXTS))
        drafted = [int(choose(draft[i : i + 1], other, i)[0]) for i in range(CONTEXTS)]
        found += rule.sample(target_probs, draws, ()).token_ids == torch.tensor(drafted)
    return found.numpy()


def distributions() -> list[tuple[np.ndarray, np.ndarray]]:
    both = (Sampler(CONFIG).probs(each).double() for each in logits())
    draft, target = ((each / each.sum(-1, keepdim=True)).numpy() for each in both)
    return list(zip(draft, target, strict=True))


def deviations(counts: np.ndarray, chances: np.ndarray) -> np.ndarray:
    return (counts - SEEDS * chances) / np.sqrt(SEEDS * chances * (1 - chances))


@pytest.mark.thorough
def test_the_models_agree_as_often_as_predicted() -> None:
    exact = np.array([coupled_acceptance(*each) for each in distributions()])
    floor = np.array([coupled_floor(*each) for each in distributions()])
    off, found = deviations(agreed(shared=True), exact), agreed(shared=True) / SEEDS
    print(
        f"accepted {found.mean():.4f}, exact {exact.mean():.4f}, floor {floor.mean():.4f}; "
        f"widest {np.abs(off).max():.2f} deviations; "
        f"{int((found >= floor).sum())} of {CONTEXTS} contexts at or above their floor"
    )
    assert (exact >= floor).all()
    assert np.abs(off).max() < joint_deviations(CONTEXTS, 0.999)
    noise = np.sqrt(exact * (1 - exact) / SEEDS)
    assert (found >= floor - joint_deviations(CONTEXTS, 0.999) * noise).all()
    assert abs(off.sum() / math.sqrt(CONTEXTS)) < 4
    assert exact.min() < 0.5 < exact.max()  # contexts with low and high agreement


@pytest.mark.thorough
def test_agreement_without_shared_noise_is_below_the_floor() -> None:
    floor = np.array([coupled_floor(*each) for each in distributions()])
    exact = np.array([coupled_acceptance(*each) for each in distributions()])
    apart = agreed(shared=False)
    assert deviations(apart, exact).min() < -joint_deviations(CONTEXTS, 0.999)
    assert (apart / SEEDS).mean() < floor.mean()
