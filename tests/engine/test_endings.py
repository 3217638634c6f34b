"""Endings of a text (end token, length, context, stop string) and its last round."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from specviz.engine import Pair, decode_plainly, speculate
from specviz.errors import PromptError
from specviz.record.trace import Round
from tests.engine.models import noisy_copy, pair_of, tiny_model
from tests.engine.playing import OWN_STEPS, PROMPT, config, llama_pair, play, timeless, tokens


@pytest.fixture(params=OWN_STEPS)
def pair(request: pytest.FixtureRequest) -> Pair:
    return llama_pair(request.param)


# -- the end token


def first_seen(rounds: list[Round], minimum: int, kind: str) -> tuple[int, int]:
    """Round and position of an accepted or extra token that is new to the text."""
    seen: set[int] = set()
    for entry in rounds:
        for place, token in enumerate(entry.emitted):
            is_extra = place == entry.num_accepted
            new = token not in seen and token not in entry.emitted[:place]
            middle = place >= minimum and not is_extra and place + 1 < len(entry.candidates)
            last = place + 1 == entry.num_drafted == entry.num_accepted
            if new and entry.whole and {"middle": middle, "last": last, "extra": is_extra}[kind]:
                return entry.index, place
        seen.update(entry.emitted)
    raise AssertionError("no such token: choose another seed")


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_accepted_end_token_ends_the_text(pair: Pair, temperature: float) -> None:
    free = play(pair, config(temperature=temperature, max_new_tokens=150))
    index, place = first_seen(free, 1, "middle")
    end = free[index].emitted[place]
    run = speculate(
        replace(pair, eos_ids=frozenset({end})),
        PROMPT,
        config(temperature=temperature, max_new_tokens=150, ignore_eos=False),
    )
    rounds = list(run)
    assert timeless(rounds[:-1]) == timeless(free[:index])
    last = rounds[-1]
    assert last.emitted == free[index].emitted[: place + 1]
    assert last.emitted[-1] == end
    assert last.extra is None
    assert last.cut == "eos"
    assert run.finish == "eos"
    verdicts = [candidate.verdict for candidate in last.candidates]
    assert verdicts == ["accepted"] * (place + 1) + ["discarded"] * (5 - place - 1)
    assert run.text == pair.token_table.join(run.emitted[:-1])
    assert next(run, None) is None


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_end_token_as_last_candidate_drops_the_bonus(pair: Pair, temperature: float) -> None:
    settings = config(temperature=temperature, gamma=2, max_new_tokens=150)
    free = play(pair, settings)
    index, place = first_seen(free, 0, "last")
    ending = replace(pair, eos_ids=frozenset({free[index].emitted[place]}))
    last = play(ending, replace(settings, ignore_eos=False))[-1]
    assert last.index == index
    assert [candidate.verdict for candidate in last.candidates] == ["accepted"] * 2
    assert last.extra is None
    assert last.cut == "eos"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_end_token_as_extra_leaves_the_round_whole(pair: Pair, temperature: float) -> None:
    settings = config(temperature=temperature, max_new_tokens=150)
    free = play(pair, settings)
    index, place = first_seen(free, 0, "extra")
    ending = replace(pair, eos_ids=frozenset({free[index].emitted[place]}))
    run = speculate(ending, PROMPT, replace(settings, ignore_eos=False))
    rounds = list(run)
    assert timeless(rounds) == timeless(free[: index + 1])
    assert rounds[-1].cut is None
    assert run.finish == "eos"


def test_the_end_token_can_be_ignored(pair: Pair) -> None:
    free = play(pair, config())
    ending = replace(pair, eos_ids=frozenset({free[0].emitted[0]}))
    assert timeless(play(ending, config())) == timeless(free)
    assert len(tokens(play(ending, config(ignore_eos=False)))) == 1


# -- the limits


@pytest.mark.parametrize("gamma", [1, 5, 64])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("length", [1, 2, 5, 6, 7, 13])
def test_the_length_limit_is_met_exactly(
    pair: Pair, length: int, temperature: float, gamma: int
) -> None:
    run = speculate(
        pair, PROMPT, config(temperature=temperature, gamma=gamma, max_new_tokens=length)
    )
    rounds = list(run)
    assert len(run.emitted) == length
    assert run.finish == "length"
    left = length
    for entry in rounds:
        assert entry.num_drafted == min(gamma, left)
        assert len(entry.emitted) <= left
        assert entry.cut == ("length" if left < gamma + 1 else None)
        if entry.num_accepted == left:
            assert entry.extra is None
        left -= len(entry.emitted)
    assert left == 0


def test_no_bonus_beyond_the_limit(pair: Pair) -> None:
    """Equal models accept everything, so the bonus would be beyond the limit."""
    same = pair_of(pair.target, pair.target, step=pair.info.target.step)
    rounds = play(same, config(gamma=3, max_new_tokens=3))
    assert [entry.num_accepted for entry in rounds] == [3]
    assert rounds[0].extra is None
    rounds = play(same, config(gamma=3, max_new_tokens=4))
    assert rounds[0].extra_kind == "bonus"
    assert rounds[0].whole


@cache
def short_context_pair() -> Pair:
    """With learned positions, one token too many is an IndexError."""
    target = tiny_model("gpt2", n_positions=32)
    return pair_of(target, noisy_copy(target), max_context=32)


@pytest.mark.parametrize("length", [1, 2, 5, 20, 29, 30, 31])
@pytest.mark.parametrize("gamma", [1, 5])
def test_the_context_is_filled_to_its_last_token(length: int, gamma: int) -> None:
    prompt = tuple(range(1, length + 1))
    run = speculate(short_context_pair(), prompt, config(gamma=gamma, max_new_tokens=100))
    rounds = list(run)
    assert len(prompt) + len(run.emitted) == 32
    assert run.finish == "context"
    assert rounds[-1].cut in ("context", None)
    settings = config(temperature=0.0, gamma=gamma, max_new_tokens=100)
    alone = tuple(decode_plainly(short_context_pair(), prompt, settings))
    assert tokens(play(short_context_pair(), settings, prompt)) == alone


def test_a_prompt_that_leaves_room_for_one_token() -> None:
    run = speculate(short_context_pair(), tuple(range(1, 32)), config())
    (entry,) = list(run)
    assert entry.num_drafted == 1
    assert len(entry.emitted) == 1
    assert (entry.cut, run.finish) == ("context", "context")


def test_a_length_limit_at_the_end_of_the_context() -> None:
    run = speculate(short_context_pair(), tuple(range(1, 21)), config(max_new_tokens=12))
    list(run)
    assert run.finish == "length"


@pytest.mark.parametrize("length", [32, 33, 100])
def test_a_prompt_beyond_the_context_is_refused(length: int) -> None:
    with pytest.raises(PromptError, match=f"{length} tokens; the pair's context holds 32"):
        speculate(short_context_pair(), (1,) * length, config())
    with pytest.raises(PromptError):
        next(decode_plainly(short_context_pair(), (1,) * length, config()))


# -- stop strings

LETTERS = tuple(bytes([97 + i % 26, 97 + (i // 26) % 26]) for i in range(320))


def lettered(pair: Pair) -> Pair:
    """Every token has two letters, so a stop string can begin inside one."""
    table = pair_of(pair.target, None, pieces=LETTERS).token_table
    return replace(pair, token_table=table)


def written(ids: tuple[int, ...]) -> str:
    return b"".join(LETTERS[token] for token in ids).decode()


@pytest.mark.parametrize("begin", [0, 1, 5, 12, 23, 40])
@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_a_stop_string_ends_the_text_before_it(pair: Pair, begin: int, length: int) -> None:
    pair, temperature = lettered(pair), float((begin + length) % 2)
    free = play(pair, config(temperature=temperature))
    whole = written(tokens(free))
    stop = whole[begin : begin + length]
    found = whole.find(stop)
    needed = -(-(found + length) // 2)  # tokens until the stop string is complete
    run = speculate(pair, PROMPT, config(temperature=temperature, stop=("#", stop)))
    rounds = list(run)
    assert run.emitted == tokens(free)[:needed]
    assert run.text == whole[:found]
    assert run.finish == "stop"
    last, same = rounds[-1], free[rounds[-1].index]
    lost = len(last.emitted) < len(same.emitted)
    assert last.cut == ("stop" if lost else None)
    if lost:
        assert last.extra is None
        verdicts = [candidate.verdict for candidate in last.candidates]
        count = len(last.emitted)
        assert verdicts == ["accepted"] * count + ["discarded"] * (len(verdicts) - count)
    else:
        assert timeless([last]) == timeless([same])


def test_a_stop_string_in_the_prompt_is_ignored(pair: Pair) -> None:
    pair = lettered(pair)
    free = tokens(play(pair, config()))
    stop = written(PROMPT)[-4:]
    assert stop not in written(free)
    assert tokens(play(pair, config(stop=(stop,)))) == free


@pytest.mark.parametrize("stop", ["é", "🙂é", "é🙂", "🙂é🙂"])
@pytest.mark.parametrize("gamma", [1, 5])
def test_a_stop_string_of_characters_split_over_tokens(pair: Pair, gamma: int, stop: str) -> None:
    """With one byte per token, a stop string is complete only with its last byte."""
    text = "🙂é🙂"
    settings = config(gamma=gamma, max_new_tokens=40)
    free = tokens(play(pair, settings))
    distinct = list(dict.fromkeys(free))[: len(text.encode())]
    pieces = [b""] * 320
    for token, byte in zip(distinct, text.encode(), strict=True):
        pieces[token] = bytes([byte])
    table = pair_of(pair.target, None, pieces=pieces).token_table
    assert table.join(free).startswith(text)
    run = speculate(replace(pair, token_table=table), PROMPT, replace(settings, stop=(stop,)))
    list(run)
    assert run.finish == "stop"
    assert run.text == text[: text.find(stop)]
    assert table.join(run.emitted) == text[: text.find(stop) + len(stop)]
