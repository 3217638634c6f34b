"""Greedy float32 decoding matches ``generate`` in every family that supports rollback."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch

from specviz.engine import Pair, decode_plainly, speculate
from specviz.record.trace import Round, RunConfig
from tests.engine.models import FAMILIES, WINDOW, generated, noisy_copy, pair_of, stir, tiny_model

LENGTH = 60
LONG = 150  # with all prompts, enough for a bonus token after 8 candidates
PROMPT_LENGTHS = (12, 15, 18)  # all beyond the sliding window
GAMMAS = (1, 2, 8)
RECORDED_GAMMA = 5
LEAN = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True)
class Recipe:
    """Weights with a varied, unambiguous greedy text, and a draft that is often right."""

    seed: int = 0
    sigma: float = 0.3
    noise: float = 0.05


RECIPES = {
    "llama": Recipe(noise=0.03),
    "qwen2": Recipe(),
    "qwen3": Recipe(seed=3),
    "gemma2": Recipe(sigma=1.0, noise=0.1),
    "gemma3_text": Recipe(sigma=1.0, noise=0.1),
    "gpt2": Recipe(seed=3, noise=0.08),
    "gpt_neox": Recipe(seed=3, noise=0.08),
    "opt": Recipe(seed=1),
    "phi": Recipe(seed=3, noise=0.08),
    "mistral": Recipe(seed=2),
}


@cache
def family_pair(family: str, step: str) -> Pair:
    recipe = RECIPES[family]
    target = stir(tiny_model(family, seed=recipe.seed, sigma=recipe.sigma))
    return pair_of(target, noisy_copy(target, recipe.noise, recipe.seed + 1), step=step)


@cache
def prompts(length: int = LENGTH) -> tuple[tuple[int, ...], ...]:
    generator = torch.Generator().manual_seed(100)
    return tuple(
        tuple(torch.randint(1, 300, (count,), generator=generator).tolist())
        for count in (PROMPT_LENGTHS if length == LONG else PROMPT_LENGTHS[:2])
    )


@cache
def written(family: str, length: int = LENGTH) -> tuple[tuple[int, ...], ...]:
    """The text of transformers after each prompt, ignoring the end token."""
    model = family_pair(family, "library").target
    return tuple(generated(model, prompt, length) for prompt in prompts(length))


def greedy(gamma: int, length: int = LENGTH, *, record: bool = False) -> RunConfig:
    return RunConfig(
        gamma=gamma, temperature=0.0, max_new_tokens=length, ignore_eos=True, record=record
    )


def acceptance(rounds: list[Round]) -> float:
    tested = sum(entry.num_tested for entry in rounds)
    return sum(entry.num_accepted for entry in rounds) / tested


def test_every_family_has_a_recipe() -> None:
    assert set(RECIPES) == set(FAMILIES)
    assert min(PROMPT_LENGTHS) > WINDOW


@pytest.mark.parametrize("family", FAMILIES)
def test_recipes_give_varied_texts(family: str) -> None:
    """Constant texts or equal models would prove little."""
    target = family_pair(family, "library").target
    for prompt, text in zip(prompts(), written(family), strict=True):
        assert len(set(text)) >= 8
        with torch.inference_mode():
            logits = target(torch.tensor([prompt + text])).logits[0, len(prompt) - 1 : -1]
        top = logits.topk(2).values
        assert float((top[:, 0] - top[:, 1]).min()) > 1e-4
        assert tuple(logits.argmax(-1).tolist()) == text


def settings(families: Sequence[str], every: int) -> Iterator[Any]:
    """Each with the recorded gamma, one in ``every`` with another one; all others are thorough."""
    for row, family in enumerate(families):
        for gamma in (*GAMMAS, RECORDED_GAMMA):
            another = GAMMAS[row // every % len(GAMMAS)] if row % every == 0 else None
            often = gamma in (RECORDED_GAMMA, another)
            yield pytest.param(family, gamma, marks=() if often else pytest.mark.thorough)


@pytest.mark.parametrize(("family", "gamma"), settings(tuple(FAMILIES), every=5))
def test_the_library_step_matches_generate(family: str, gamma: int) -> None:
    check_greedy(family, "library", gamma)


@pytest.mark.parametrize(("family", "gamma"), settings(LEAN, every=1))
def test_the_lean_step_matches_generate(family: str, gamma: int) -> None:
    check_greedy(family, "lean", gamma)


def check_greedy(family: str, step: str, gamma: int) -> None:
    pair = family_pair(family, step)
    length = LONG if gamma > RECORDED_GAMMA else LENGTH
    chosen = greedy(gamma, length, record=gamma == RECORDED_GAMMA)
    everything: list[Round] = []
    for prompt, text in zip(prompts(length), written(family, length), strict=True):
        rounds = list(speculate(pair, prompt, chosen))
        assert tuple(token for entry in rounds for token in entry.emitted) == text
        everything += rounds
    assert 0.1 < acceptance(everything) < 0.95
    kinds = {entry.extra_kind for entry in everything}
    assert {"recovered", "bonus"} <= kinds


@pytest.mark.parametrize(
    ("family", "step"),
    [*((family, "library") for family in FAMILIES), *((family, "lean") for family in LEAN)],
)
def test_plain_decoding_matches_generate(family: str, step: str) -> None:
    pair = family_pair(family, step)
    for prompt, text in zip(prompts(), written(family), strict=True):
        assert tuple(decode_plainly(pair, prompt, greedy(1))) == text
