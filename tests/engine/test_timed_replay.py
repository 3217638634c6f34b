"""Timed replay of a finished run: the same rounds and tokens, from any round on."""

from __future__ import annotations

import random

import pytest

from specviz.engine import Pair
from specviz.engine.decoding.timed_replay import TimedReplay
from specviz.record.trace import Round, RunConfig
from tests.engine.models import pair_of, tiny_model
from tests.engine.playing import OWN_STEPS, PROMPT, STEPWISE, config, llama_pair, play
from tests.engine.spies import watch


@pytest.fixture(params=OWN_STEPS)
def pair(request: pytest.FixtureRequest) -> Pair:
    return llama_pair(request.param)


def spans(count: int) -> list[tuple[int, int]]:
    """Ranges back and forth over all rounds, some of them twice."""
    chance = random.Random(2)
    drawn = [sorted(chance.sample(range(count + 1), 2)) for _ in range(8)]
    return [(0, count), *((first, last) for first, last in drawn), (count - 1, count)]


@pytest.mark.parametrize("drafter", ["model", "prompt-lookup"])
@pytest.mark.parametrize("prompt", [PROMPT, (7,)])
def test_every_range_of_rounds_replays_identically(
    pair: Pair, prompt: tuple[int, ...], drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(gamma=3, max_new_tokens=40, drafter=drafter, temperature=0.9)
    rounds = play(pair, settings, prompt)
    assert any(entry.extra_kind == "bonus" for entry in rounds)
    timed_replay = TimedReplay(pair, prompt, settings, rounds)
    played = played_rounds(timed_replay, monkeypatch)
    for first, last in spans(len(rounds)):
        played.clear()
        times = timed_replay.speculative(first, last)
        assert len(times) == last - first
        assert all(each.verify > 0 for each in times)
        again = played[first - last :]
        assert [decisions(entry) for entry in again] == [
            decisions(entry) for entry in rounds[first:last]
        ]


def decisions(entry: Round) -> tuple[object, ...]:
    """Everything except times and records, uniforms and probabilities included."""
    drafted = [
        (each.token_id, each.verdict, each.draft_prob, each.target_prob, each.uniform)
        for each in entry.candidates
    ]
    return entry.index, entry.context_length, entry.emitted, entry.draft_catch_up, drafted


def played_rounds(timed_replay: TimedReplay, monkeypatch: pytest.MonkeyPatch) -> list[Round]:
    played: list[Round] = []
    run = type(timed_replay._run)
    ordinary = run.__next__

    def noted(self: object) -> Round:
        played.append(ordinary(self))  # type: ignore[arg-type]
        return played[-1]

    monkeypatch.setattr(run, "__next__", noted)
    return played


@pytest.mark.parametrize("step", STEPWISE)
@pytest.mark.parametrize("prompt", [PROMPT, (7,)])
def test_the_target_alone_takes_one_step_per_token(
    step: str, prompt: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, settings = llama_pair(step), config(gamma=3, max_new_tokens=30)
    rounds = play(pair, settings, prompt)
    text = [*prompt, *(token for entry in rounds for token in entry.emitted)]
    notes = watch(monkeypatch)
    timed_replay = TimedReplay(pair, prompt, settings, rounds)
    _, target = notes.targets  # of the replayed run, then of the target alone
    for first, last in spans(len(rounds)):
        seconds = timed_replay.alone(first, last)
        start = rounds[first].context_length
        end = start + sum(len(entry.emitted) for entry in rounds[first:last])
        assert len(seconds) == end - start
        assert target.held == text[: end - 1]
        steps = target.feeds[start - end :]
        assert [feed.fed for feed in steps] == [(token,) for token in text[start - 1 : end - 1]]


def test_at_the_end_of_the_context() -> None:
    """With learned positions, a step beyond the last one would be an error."""
    short = pair_of(
        tiny_model("gpt2", n_positions=16), tiny_model("gpt2", n_positions=16, seed=1),
        max_context=16,
    )  # fmt: skip
    for length in (13, 14, 15):
        prompt, settings = tuple(range(1, length + 1)), RunConfig(gamma=2)
        rounds = play(short, settings, prompt)
        timed_replay = TimedReplay(short, prompt, settings, rounds)
        count = len(rounds)
        assert len(timed_replay.alone(0, count)) == 16 - length
        assert len(timed_replay.speculative(0, count)) == count
