"""Transformers' lanes of the bench: tokens, counted passes, and restored settings."""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from specviz.bench.rivals import Assistance, RivalRun, assisted, generate
from specviz.engine import decode_plainly, speculate
from specviz.engine.model.pair import Pair
from specviz.record.trace import RunConfig

LENGTH = 40
CONFIG = RunConfig(gamma=5, temperature=0.0, max_new_tokens=LENGTH, ignore_eos=True)
PROMPTS = ("Once upon a time there was a dog", "The ball rolled away and", "T")
FEW = ((5, PROMPTS[0]), (2, PROMPTS[2]))  # and the shortest prompt, of one token


def encoded(pair: Pair, prompt: str) -> list[int]:
    return pair.tokenizer(prompt)["input_ids"]


def settings_of(pair: Pair) -> list[dict[str, Any]]:
    assert pair.draft is not None
    configs: list[Any] = [pair.target.generation_config, pair.draft.generation_config]
    return [copy.deepcopy(vars(config)) for config in configs]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_generation_writes_our_tokens(pair: Pair, prompt: str) -> None:
    ids = encoded(pair, prompt)
    run = generate(pair, ids, LENGTH)
    assert run.token_ids == tuple(decode_plainly(pair, ids, CONFIG))
    assert (len(run.token_ids), run.target_forwards) == (LENGTH, LENGTH)
    assert run.seconds > 0


@pytest.mark.parametrize(
    ("gamma", "prompt"),
    [
        pytest.param(*each, marks=() if each in FEW else pytest.mark.thorough)
        for each in product((2, 5), PROMPTS)
    ],
)
def test_fixed_gamma_makes_as_many_passes_as_our_rounds(
    pair: Pair, gamma: int, prompt: str
) -> None:
    ids = encoded(pair, prompt)
    ours = speculate(pair, ids, replace(CONFIG, gamma=gamma))
    rounds = list(ours)
    run = assisted(pair, ids, LENGTH, Assistance(gamma=gamma, threshold=0.0))
    assert run.token_ids == ours.emitted
    assert run.target_forwards == len(rounds) < LENGTH


@pytest.mark.parametrize("assistance", [Assistance(), Assistance(gamma=3, threshold=0.6)])
def test_any_assistance_writes_the_same_tokens(pair: Pair, assistance: Assistance) -> None:
    ids = encoded(pair, PROMPTS[0])
    run = assisted(pair, ids, LENGTH, assistance)
    assert run.token_ids == tuple(decode_plainly(pair, ids, CONFIG))
    assert 0 < run.target_forwards < LENGTH


def lanes(pair: Pair, ids: list[int]) -> list[RivalRun]:
    fixed = Assistance(gamma=5, threshold=0.0)
    return [generate(pair, ids, LENGTH), assisted(pair, ids, LENGTH, fixed)]


def test_ignores_eos(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = encoded(pair, PROMPTS[0])
    early = tuple(decode_plainly(pair, ids, CONFIG))[3]
    assert pair.draft is not None
    for model in (pair.target, pair.draft):
        monkeypatch.setattr(model.generation_config, "eos_token_id", early)
    assert [len(run.token_ids) for run in lanes(pair, ids)] == [LENGTH, LENGTH]


def test_restores_every_setting(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    # Values that no lane sets, so that leftovers of an earlier call would show.
    assert pair.draft is not None
    for model in (pair.target, pair.draft):
        monkeypatch.setattr(model.generation_config, "eos_token_id", 7)
    monkeypatch.setattr(pair.draft.generation_config, "num_assistant_tokens", 9)
    monkeypatch.setattr(pair.draft.generation_config, "num_assistant_tokens_schedule", "heuristic")
    monkeypatch.setattr(pair.draft.generation_config, "assistant_confidence_threshold", 0.3)
    before = settings_of(pair)
    lanes(pair, encoded(pair, PROMPTS[0]))
    assert settings_of(pair) == before
    with pytest.raises(IndexError):
        lanes(pair, [pair.vocabulary + 1])
    with pytest.raises(IndexError):
        assisted(pair, [pair.vocabulary + 1], LENGTH, Assistance(gamma=5, threshold=0.0))
    assert settings_of(pair) == before


def test_removes_its_hooks(pair: Pair) -> None:
    hooks = len(pair.target._forward_pre_hooks)
    lanes(pair, encoded(pair, PROMPTS[0]))
    assert len(pair.target._forward_pre_hooks) == hooks


def test_time_excludes_the_first_pass(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    # The prefill pass is made slow; the measured time must not change.
    slow = 0.2
    forward = pair.target.forward
    calls: list[None] = []

    def slow_at_first(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        time.sleep(slow if len(calls) == 1 else 0.0)
        return forward(*args, **kwargs)

    ids = encoded(pair, PROMPTS[0])
    fixed = Assistance(gamma=5, threshold=0.0)
    monkeypatch.setattr(pair.target, "forward", slow_at_first)
    for write in (lambda: generate(pair, ids, LENGTH), lambda: assisted(pair, ids, LENGTH, fixed)):
        calls.clear()
        began = time.perf_counter()
        result = write()
        assert 0 < result.seconds < time.perf_counter() - began - slow / 2


def test_assistance_text() -> None:
    assert str(Assistance()) == "defaults"
    assert str(Assistance(gamma=5, threshold=0.4)) == "γ 5, threshold 0.4"
