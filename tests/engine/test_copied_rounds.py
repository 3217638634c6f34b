"""Prompt lookup along a known text: at temperature 0 exactly the rounds of a run."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from specviz.engine import Pair
from specviz.engine.decoding.scoring import copied_rounds
from specviz.record.scores import CopiedRounds
from specviz.record.trace import Round
from tests.engine.models import noisy_copy, pair_of, tiny_model
from tests.engine.playing import PROMPT, config, play, tokens

GAMMAS = (1, 2, 3, 5, 8, 16)
LOOPING = (5, 6, 7, 8, 5, 6, 7, 9, 5, 6)
LIMIT = 90


@cache
def looping_pair() -> Pair:
    """Its greedy text soon cycles through seven tokens, so much of it is copied."""
    target = tiny_model("llama", sigma=0.05, seed=3)
    return pair_of(target, noisy_copy(target, 0.05), step="lean")


@cache
def turns() -> tuple[int, ...]:
    """A prompt that ends inside the cycle."""
    return (*LOOPING, *tokens(played(looping_pair(), LOOPING, 8, temperature=0.0))[:60])


def whole(rounds: list[Round], gamma: int, num_prompt: int) -> CopiedRounds:
    """The whole rounds that a run recorded."""
    kept = [each for each in rounds if each.whole]
    return CopiedRounds(
        gamma=gamma,
        starts=tuple(each.context_length - num_prompt for each in kept),
        drafted=tuple(each.num_drafted for each in kept),
        emitted=tuple(len(each.emitted) for each in kept),
    )


def played(pair: Pair, prompt: tuple[int, ...], gamma: int, **changes: Any) -> list[Round]:
    settings = config(drafter="prompt-lookup", gamma=gamma, max_new_tokens=LIMIT)
    return play(pair, replace(settings, **changes), prompt)


@pytest.mark.parametrize("prompt", [LOOPING, PROMPT, (7,)])
def test_a_greedy_text_at_its_limit_has_the_rounds_of_a_run(prompt: tuple[int, ...]) -> None:
    pair = looping_pair()
    runs = [played(pair, prompt, gamma, temperature=0.0) for gamma in GAMMAS]
    text = tokens(runs[0])
    assert len(text) == LIMIT
    found = copied_rounds(pair, prompt, text, GAMMAS, ends=False)
    for gamma, rounds, copied in zip(GAMMAS, runs, found, strict=True):
        assert tokens(rounds) == text
        assert copied == whole(rounds, gamma, len(prompt))
    assert sum(found[-1].emitted) < LIMIT  # its last rounds have no room for 17 tokens
    assert max(found[-1].emitted) > 3
    assert len(set(found[-1].drafted)) > 3


@pytest.mark.parametrize("after", range(7))
def test_a_greedy_text_that_ends_by_itself_has_the_rounds_of_a_run(after: int) -> None:
    """The end token occurs in the prompt, so it is copied with more tokens after it."""
    pair, prompt = looping_pair(), turns()
    text = tokens(played(pair, prompt, 1, temperature=0.0))
    ended = replace(pair, eos_ids=frozenset({text[after]}))
    text = text[: text.index(text[after]) + 1]
    found = copied_rounds(pair, prompt, text, GAMMAS, ends=True)
    for gamma, copied in zip(GAMMAS, found, strict=True):
        rounds = played(ended, prompt, gamma, temperature=0.0, ignore_eos=False)
        assert tokens(rounds) == text
        assert copied == whole(rounds, gamma, len(prompt))


def test_some_of_these_ends_cut_a_round_and_some_do_not() -> None:
    text = tokens(played(looping_pair(), turns(), 1, temperature=0.0))
    cut = {
        sum(each.emitted) < after + 1
        for after in range(7)
        for each in copied_rounds(looping_pair(), turns(), text[: after + 1], GAMMAS, ends=True)
    }
    assert cut == {True, False}


@pytest.mark.parametrize("seed", range(4))
def test_copies_along_a_sampled_text_are_accepted(seed: int) -> None:
    """A candidate is accepted iff it is the text's next token, at any temperature."""
    pair = looping_pair()
    for gamma in GAMMAS[1::2]:
        rounds = played(pair, LOOPING, gamma, temperature=0.7, seed=seed)
        (copied,) = copied_rounds(pair, LOOPING, tokens(rounds), (gamma,), ends=False)
        assert copied == whole(rounds, gamma, len(LOOPING))


def test_a_text_shorter_than_a_round_has_none() -> None:
    pair = looping_pair()
    for copied in copied_rounds(pair, PROMPT, (3,), (1, 4), ends=False):
        assert (copied.starts, copied.drafted, copied.emitted) == ((), (), ())
    for copied in copied_rounds(pair, PROMPT, (3,), (1, 4), ends=True):
        assert (copied.starts, copied.emitted) == ((0,), (1,))
