"""Steps with recurrent layers: rollback by snapshots."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
import torch

from specviz.engine import Pair, decode_plainly, speculate
from specviz.engine.decoding.plain_decoding import PlainLane
from specviz.engine.decoding.timed_replay import TimedReplay
from specviz.engine.model.recurrent_step import MOST_PENDING, RecurrentStep
from specviz.engine.model.step_capabilities import AFTER_NORM, HiddenStates
from specviz.record.trace import RunConfig
from tests.engine.models import VOCABULARY, noisy_copy, pair_of
from tests.engine.playing import config, play
from tests.engine.recurrent_models import RECURRENT, recurrent_model
from tests.engine.test_timed_replay import decisions, played_rounds, spans

FAMILY = "qwen3_5_text"
STATES = HiddenStates((1, AFTER_NORM))
Walk = list[tuple[int, int]]  # tokens to forget, then tokens to feed


@cache
def model_of(family: str) -> Any:
    return recurrent_model(family)


@cache
def pair() -> Pair:
    target = model_of(FAMILY)
    return pair_of(target, noisy_copy(target, 0.05))


def fresh(family: str = FAMILY) -> RecurrentStep:
    return RecurrentStep(model_of(family), VOCABULARY)


def some_tokens(count: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(1, VOCABULARY, (count,), generator=torch.Generator().manual_seed(seed))


def random_walk(seed: int, moves: int) -> Walk:
    """Passes as in runs, with rollbacks within the newest pass and far behind it."""
    chance, length, walk = random.Random(seed), 13, [(0, 13)]
    for _ in range(moves):
        count = chance.choice((1, 1, 3, 6))
        walk.append((0, count))
        length += count
        most = length if chance.random() < 0.2 else count
        forgotten = chance.randrange(most)
        walk.append((forgotten, 1))
        length += 1 - forgotten
    return walk


def follow(step: RecurrentStep, walk: Walk, seed: int = 5) -> list[torch.Tensor]:
    """Return the logits of each feed."""
    found: list[torch.Tensor] = []
    for number, (forgotten, count) in enumerate(walk):
        if forgotten:
            step.forget(forgotten)
        found.append(step.feed(some_tokens(count, seed + number), count))
    return found


SLOW = ("inkling_text", "inkling2_text")


@pytest.mark.parametrize(
    "family",
    [pytest.param(each, marks=pytest.mark.thorough if each in SLOW else ()) for each in RECURRENT],
)
def test_logits_and_states_are_those_of_a_full_read(family: str) -> None:
    model, step, text = model_of(family), fresh(family), torch.empty(0, dtype=torch.int64)
    step.request_hidden(STATES)
    for number, (forgotten, count) in enumerate(random_walk(3, 6)):
        step.forget(forgotten)
        text = torch.cat((text[: len(text) - forgotten], some_tokens(count, number)))
        logits = step.feed(text[len(text) - count :], count)
        with torch.inference_mode():
            full = model(text[None], use_cache=False, output_hidden_states=True)
        close(logits, full.logits[0, -count:])
        last = len(full.hidden_states) - 1
        expected = [full.hidden_states[place][0, -count:] for place in (1, last)]
        assert step.hidden is not None
        close(step.hidden, torch.cat(expected, -1))


def close(ours: torch.Tensor, reference: torch.Tensor) -> None:
    assert ours.shape == reference.shape
    spread = (reference - reference.mean(-1, keepdim=True)).abs().max()
    assert float((ours - reference).abs().max()) < 1e-4 * float(spread)


def test_a_rollback_gives_the_very_same_logits_again() -> None:
    """So that a replayed round is equal, even in half precision."""
    step = fresh()
    first = follow(step, [(0, 20), *((0, 1) for _ in range(30)), (2, 6), (4, 5), (3, 5)])
    follow(step, [(0, 1) for _ in range(80)], seed=90)
    step.forget(step.length - 48)  # to the first rollback
    assert [each.snapshot is None for each in step._passes].count(False) < len(step._passes)
    again = follow(step, [(0, 6), (4, 5), (3, 5)], seed=5 + 31)
    for before, after in zip(first[-3:], again[-3:], strict=True):
        assert torch.equal(before, after)


def rows_of_passes(step: RecurrentStep, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    rows, run = list[int](), step._run

    def noted(token_ids: torch.Tensor, count: int, **how: Any) -> torch.Tensor:
        rows.append(len(token_ids))
        return run(token_ids, count, **how)

    monkeypatch.setattr(step, "_run", noted)
    return rows


def test_a_rejection_adds_rows_but_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    step = fresh()
    follow(step, [(0, 20)])
    rows = rows_of_passes(step, monkeypatch)
    follow(step, [(0, 4), (3, 4), (4, 4)])
    assert rows == [4, 5, 5]


def test_many_pending_tokens_are_read_in_a_pass_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = fresh()
    follow(step, [(0, 20)])
    rows = rows_of_passes(step, monkeypatch)
    follow(step, [(0, 4), *((3, 4) for _ in range(30))])
    assert max(rows) == MOST_PENDING + 4
    assert len(rows) == 31 + 30 // (MOST_PENDING + 1)
    assert step.num_pending <= MOST_PENDING + 4


def test_few_snapshots_are_kept_and_repeating_passes_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = fresh()
    follow(step, [(0, 20), *((0, 1) for _ in range(300))])
    kept = [each.start for each in step._passes if each.snapshot is not None]
    assert len(kept) <= 8
    rows = rows_of_passes(step, monkeypatch)
    step.forget(40)
    assert sum(rows) <= 60
    step.forget(step.length - 21)
    assert sum(rows) <= 100


def test_copied_rows_continue_the_text() -> None:
    first = fresh()
    follow(first, [(0, 30), (0, 6), (4, 5)])
    for count in (first.length, first.length - 2, 31, 12):
        step, text = fresh(), first._text[:count]
        step.copy_rows(first, count)
        assert step.length == count
        more = some_tokens(4)
        with torch.inference_mode():
            full = model_of(FAMILY)(torch.cat((text, more))[None], use_cache=False).logits[0, -4:]
        close(step.feed(more, 4), full)
    assert first.length == 37


def test_a_plain_step_after_a_rollback_reads_one_token(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = PlainLane(pair(), tuple(some_tokens(20).tolist()), config(), 64)
    step = lane._target
    assert isinstance(step, RecurrentStep)
    lane.timed(some_tokens(12).tolist(), 0)
    lane.forget(5)
    rows = rows_of_passes(step, monkeypatch)
    for _ in range(2):
        lane.timed([7], 0)
        lane.forget(1)
    assert rows == [1, 1]


@pytest.mark.parametrize(
    ("prompt", "drafter"), [(tuple(range(40, 53)), "model"), ((7,), "prompt-lookup")]
)
def test_every_range_of_rounds_replays_identically(
    prompt: tuple[int, ...], drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(gamma=3, max_new_tokens=24, drafter=drafter, temperature=0.9)
    rounds = play(pair(), settings, prompt)
    timed_replay = TimedReplay(pair(), prompt, settings, rounds)
    played = played_rounds(timed_replay, monkeypatch)
    for first, last in spans(len(rounds))[:8]:
        played.clear()
        timed_replay.speculative(first, last)
        timed_replay.alone(first, last)
        again = [decisions(entry) for entry in played[first - last :]]
        assert again == [decisions(entry) for entry in rounds[first:last]]


def test_a_continued_text_reads_only_what_is_new() -> None:
    settings = RunConfig(gamma=3, temperature=0.0, max_new_tokens=20, ignore_eos=True, record=False)
    own = pair()
    first = speculate(own, tuple(range(40, 60)), settings)
    for _ in first:
        pass
    own.last_read = first.read_text()
    try:
        assert own.last_read is not None
        prompt = (*own.last_read.token_ids, *range(80, 90))
        continued = speculate(own, prompt, settings)
        for _ in continued:
            pass
        assert continued.prefill.copied == len(own.last_read.token_ids)
    finally:
        own.last_read = None
    assert continued.emitted == tuple(decode_plainly(own, prompt, settings))
