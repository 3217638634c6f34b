"""The loop: caches, endings, limits, and verdicts that can be replayed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from specviz.engine import Pair, Speculation, plain, speculate
from specviz.engine.drafting import Proposal
from specviz.engine.sampling import draft_slot, inverse_cdf, keyed_uniforms, verdict_slot
from specviz.engine.steps import LibraryStep
from specviz.engine.verify import Lossless
from specviz.errors import PairError, PromptError
from specviz.trace import Round, RoundTimes, RunConfig
from tests.engine import oracle
from tests.engine.models import noisy_copy, pair_of, tiny_model
from tests.engine.spies import StepSpy, watch

PROMPT = (5, 17, 101, 42, 9, 77, 200, 31, 8, 64)
STEPS = ("library", "lean")


@cache
def llama_pair(step: str) -> Pair:
    target = tiny_model("llama")
    return pair_of(target, noisy_copy(target, 0.05), step=step)


@pytest.fixture(params=STEPS)
def pair(request: pytest.FixtureRequest) -> Pair:
    return llama_pair(request.param)


def config(**changes: Any) -> RunConfig:
    settings: dict[str, Any] = {"temperature": 1.0, "ignore_eos": True, "max_new_tokens": 60}
    return RunConfig(**(settings | changes))


def play(pair: Pair, settings: RunConfig, prompt: tuple[int, ...] = PROMPT) -> list[Round]:
    return list(speculate(pair, prompt, settings))


def tokens(rounds: list[Round]) -> tuple[int, ...]:
    return tuple(token for entry in rounds for token in entry.emitted)


def timeless(rounds: list[Round]) -> list[Round]:
    """Without what a second run may change: times, and what the record adds."""
    return [
        replace(
            entry,
            times=RoundTimes(draft=0, verify=0, other=0),
            candidates=tuple(replace(c, insight=None) for c in entry.candidates),
        )
        for entry in rounds
    ]


# -- caches and costs


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("gamma", [1, 2, 5])
def test_caches_hold_the_text_and_nothing_else(
    pair: Pair, gamma: int, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = watch(monkeypatch)
    run = speculate(pair, PROMPT, config(gamma=gamma, temperature=temperature))
    (target,), (draft,) = notes.targets, notes.drafts
    text: list[int] = list(PROMPT)
    while run.finish == "stopped":
        assert target.length == len(text) - 1
        assert target.held == text[:-1]
        assert draft.held == text[: draft.length]
        assert len(text) - draft.length in (1, 2)
        text += next(run).emitted
    assert len(text) == len(PROMPT) + 60
    assert pair.draft is not None
    _check_logits(target, pair.target)
    _check_logits(draft, pair.draft)


def _check_logits(spy: StepSpy, model: torch.nn.Module) -> None:
    """Each feed gave what a fresh forward over the tokens in the cache gives."""
    for feed in spy.feeds[1:]:
        with torch.inference_mode():
            fresh = model(torch.tensor([feed.before + feed.fed])).logits[0, -feed.num_logits :]
        torch.testing.assert_close(feed.logits, fresh, rtol=1e-4, atol=1e-4)


def test_a_round_feeds_only_what_is_new(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = watch(monkeypatch)
    rounds = play(pair, config(gamma=4, max_new_tokens=150))
    fed = [len(feed.fed) for feed in notes.targets[0].feeds]
    assert fed == [len(PROMPT) - 1, *(entry.num_drafted + 1 for entry in rounds)]
    drafted = [len(feed.fed) for feed in notes.drafts[0].feeds[1:]]
    expected = [
        entry.draft_catch_up if position == 0 else 1
        for entry in rounds
        for position in range(entry.num_drafted)
    ]
    assert drafted == expected


def test_the_draft_catches_up_on_two_tokens_after_a_bonus_only(pair: Pair) -> None:
    rounds = play(pair, config(gamma=2, max_new_tokens=120))
    kinds = [entry.extra_kind for entry in rounds]
    assert {"bonus", "recovered"} <= set(kinds)
    assert rounds[0].draft_catch_up == 1
    for before, after in pairwise(rounds):
        assert after.draft_catch_up == (2 if before.extra_kind == "bonus" else 1)


@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[:2], PROMPT[:1]])
@pytest.mark.parametrize("drafter", ["model", "prompt-lookup"])
def test_one_target_forward_a_round_and_one_for_the_prompt(
    prompt: tuple[int, ...], drafter: str
) -> None:
    pair = llama_pair("library")
    forwards: list[int] = []
    hook = pair.target.register_forward_hook(lambda *_: forwards.append(1))
    try:
        rounds = play(pair, config(drafter=drafter), prompt)
    finally:
        hook.remove()
    assert len(forwards) == len(rounds) + (len(prompt) > 1)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_rounds_follow_on_from_each_other(pair: Pair, temperature: float) -> None:
    rounds = play(pair, config(gamma=3, temperature=temperature))
    length = len(PROMPT)
    for index, entry in enumerate(rounds):
        assert entry.index == index
        assert entry.context_length == length
        stood = [c.token_id for c in entry.candidates if c.verdict == "accepted"]
        extra = [entry.extra.token_id] if entry.extra else []
        assert list(entry.emitted) == stood + extra
        length += len(entry.emitted)


# -- the same again


def test_the_same_seed_gives_the_same_rounds_with_the_record_on_or_off(pair: Pair) -> None:
    on = play(pair, config(seed=3))
    again = play(pair, config(seed=3))
    off = play(pair, config(seed=3, record=False))
    assert timeless(on) == timeless(again) == timeless(off)
    assert [[c.insight for c in r.candidates] for r in on] == [
        [c.insight for c in r.candidates] for r in again
    ]
    assert all(c.insight is not None for r in on for c in r.candidates)
    assert all(c.insight is None for r in off for c in r.candidates)


def test_another_seed_gives_another_text(pair: Pair) -> None:
    assert len({tokens(play(pair, config(seed=seed))) for seed in range(5)}) == 5


def test_a_slot_has_the_same_uniform_whatever_gamma() -> None:
    for seed, index in ((0, 0), (7, 3), (2**63 - 1, 10_000)):
        longest = keyed_uniforms(seed, index, 64)
        for count in (0, 1, 2, 5):
            assert keyed_uniforms(seed, index, count).tolist() == longest[: 2 * count + 1].tolist()


def test_a_shorter_run_is_the_beginning_of_a_longer_one(pair: Pair) -> None:
    """Uniforms belong to slots, so capping gamma at the limit changes nothing before it."""
    whole = tokens(play(pair, config()))
    for length in (1, 2, 5, 11, 30):
        assert tokens(play(pair, config(max_new_tokens=length))) == whole[:length]


# -- replaying a run by hand

SAMPLINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 12},
    {"temperature": 1.3, "top_p": 0.8},
    {"temperature": 0.0},
    {"temperature": 1.0, "rule": "over-accept", "epsilon": 0.05},
    {"temperature": 1.0, "rule": "over-accept", "epsilon": 0.05, "residual": "target"},
    {"temperature": 1.0, "rule": "over-accept", "epsilon": 0.05, "residual": "draft"},
    {"temperature": 0.2, "drafter": "prompt-lookup"},
)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_every_verdict_and_every_draw_can_be_replayed(
    sampling: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = watch(monkeypatch)
    settings = config(seed=5, gamma=3, max_new_tokens=160, **sampling)
    rounds = play(llama_pair("lean"), settings)
    assert len(rounds) > 40
    for entry, (proposal, _, checked) in zip(rounds, notes.passes, strict=True):
        replay(entry, settings, proposal.probs.numpy(), checked.probs.numpy())
    seen = {c.verdict for entry in rounds for c in entry.candidates}
    assert seen == {"accepted", "rejected", "discarded"}


def replay(entry: Round, settings: RunConfig, draft: np.ndarray, target: np.ndarray) -> None:
    uniforms = keyed_uniforms(settings.seed, entry.index, settings.gamma).tolist()
    candidates = entry.candidates
    for position, candidate in enumerate(candidates):
        own, theirs = draft[position], target[position]
        assert candidate.uniform == uniforms[verdict_slot(position)]
        assert candidate.draft_prob == own[candidate.token_id] > 0.0
        assert candidate.target_prob == theirs[candidate.token_id]
        shared = np.minimum(own.astype(float), theirs.astype(float)).sum()
        assert candidate.expected_acceptance == pytest.approx(shared, abs=1e-5)
        if settings.drafter == "model":
            drawn = oracle.draw(own.astype(float).tolist(), uniforms[draft_slot(position)])
            assert candidate.token_id == drawn
    if entry.cut is None:
        _replay_verdicts(entry, settings)
        _replay_extra(entry, settings, draft, target, uniforms[0])


def _replay_verdicts(entry: Round, settings: RunConfig) -> None:
    epsilon = settings.epsilon if settings.rule == "over-accept" else 0.0
    standing = True
    for candidate in entry.candidates:
        accepts = candidate.uniform * candidate.draft_prob < candidate.target_prob + epsilon
        expected = ("accepted" if accepts else "rejected") if standing else "discarded"
        assert candidate.verdict == expected
        standing = standing and accepts


def _replay_extra(
    entry: Round, settings: RunConfig, draft: np.ndarray, target: np.ndarray, uniform: float
) -> None:
    extra, at = entry.extra, entry.num_accepted
    assert extra is not None
    assert extra.uniform == uniform
    assert extra.target_prob == target[at][extra.token_id]
    if at == entry.num_drafted:
        assert extra.kind == "bonus"
        assert extra.draft_prob is None
        law = target[at].astype(float)
    else:
        assert extra.kind == "recovered"
        assert extra.draft_prob == draft[at][extra.token_id]
        source = settings.residual if settings.rule == "over-accept" else "leftover"
        law = oracle.recovery(draft[at].astype(float), target[at].astype(float), source)
    assert extra.token_id == oracle.draw(law.tolist(), uniform)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("gamma", [1, 4])
def test_greedy_is_the_plain_text(step: str, gamma: int) -> None:
    pair, settings = llama_pair(step), config(temperature=0.0, gamma=gamma)
    assert tokens(play(pair, settings)) == tuple(plain(pair, PROMPT, settings))


# -- where a text ends


def first_seen(rounds: list[Round], minimum: int, kind: str) -> tuple[int, int]:
    """Round and place of a token new to the text: an accepted one or the extra one."""
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
def test_the_end_token_inside_the_accepted_run_ends_the_text_there(
    pair: Pair, temperature: float
) -> None:
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
def test_the_end_token_as_last_candidate_costs_the_bonus(pair: Pair, temperature: float) -> None:
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
def test_the_end_token_as_extra_leaves_the_round_whole(pair: Pair, temperature: float) -> None:
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
    """Equal models accept everything, so a bonus stands at the limit, and is not written."""
    same = replace(pair, draft=pair.target, lean_draft=pair.lean_target)
    rounds = play(same, config(gamma=3, max_new_tokens=3))
    assert [entry.num_accepted for entry in rounds] == [3]
    assert rounds[0].extra is None
    rounds = play(same, config(gamma=3, max_new_tokens=4))
    assert rounds[0].extra_kind == "bonus"
    assert rounds[0].whole


@cache
def short_context_pair() -> Pair:
    """Learned positions: one token too many is an IndexError, not a wrong text."""
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
    alone = tuple(plain(short_context_pair(), prompt, settings))
    assert tokens(play(short_context_pair(), settings, prompt)) == alone


def test_a_prompt_that_fills_the_context_but_for_one() -> None:
    run = speculate(short_context_pair(), tuple(range(1, 32)), config())
    (entry,) = list(run)
    assert entry.num_drafted == 1
    assert len(entry.emitted) == 1
    assert (entry.cut, run.finish) == ("context", "context")


def test_a_limit_that_just_fits_the_context_is_a_length() -> None:
    run = speculate(short_context_pair(), tuple(range(1, 21)), config(max_new_tokens=12))
    list(run)
    assert run.finish == "length"


@pytest.mark.parametrize("length", [32, 33, 100])
def test_a_prompt_beyond_the_context_is_refused(length: int) -> None:
    with pytest.raises(PromptError, match=f"{length} tokens; the pair's context holds 32"):
        speculate(short_context_pair(), (1,) * length, config())
    with pytest.raises(PromptError):
        next(plain(short_context_pair(), (1,) * length, config()))


@pytest.mark.parametrize("prompt", ["", (), (-1,), (5, 320), (10**9,)])
def test_a_prompt_that_means_nothing_is_refused(pair: Pair, prompt: Any) -> None:
    with pytest.raises(PromptError):
        speculate(pair, prompt, config())


def test_a_prompt_of_one_token(pair: Pair) -> None:
    settings = config(temperature=0.0)
    assert tokens(play(pair, settings, (7,))) == tuple(plain(pair, (7,), settings))
    with torch.inference_mode():
        first = int(pair.target(torch.tensor([[7]])).logits[0, -1].argmax())
    assert tokens(play(pair, settings, (7,)))[0] == first


def test_a_prompt_of_text_is_its_tokens(pair: Pair) -> None:
    ids = tuple(pair.tokenizer("Once upon a time")["input_ids"])
    run = speculate(pair, "Once upon a time", config())
    assert run.prompt.token_ids == ids
    assert "".join(run.prompt.token_texts) == "Once upon a time"
    assert timeless(list(run)) == timeless(play(pair, config(), ids))


# -- stop strings

LETTERS = tuple(bytes([97 + i % 26, 97 + (i // 26) % 26]) for i in range(320))


def lettered(pair: Pair) -> Pair:
    """Every token two letters, so that a stop string can begin inside one."""
    table = pair_of(pair.target, None, pieces=LETTERS).token_table
    return replace(pair, token_table=table)


def written(ids: tuple[int, ...]) -> str:
    return b"".join(LETTERS[token] for token in ids).decode()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("begin", [0, 1, 5, 12, 23, 40])
@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_a_stop_string_ends_the_text_before_it(
    pair: Pair, begin: int, length: int, temperature: float
) -> None:
    pair = lettered(pair)
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


def test_a_stop_string_in_the_prompt_stops_nothing(pair: Pair) -> None:
    pair = lettered(pair)
    free = tokens(play(pair, config()))
    stop = written(PROMPT)[-4:]
    assert stop not in written(free)
    assert tokens(play(pair, config(stop=(stop,)))) == free


@pytest.mark.parametrize("stop", ["é", "🙂é", "é🙂", "🙂é🙂"])
@pytest.mark.parametrize("gamma", [1, 5])
def test_a_stop_string_of_characters_split_over_tokens(pair: Pair, gamma: int, stop: str) -> None:
    """One byte a token: the stop string is complete only with its last byte."""
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


# -- leaving early


def test_a_stopped_run_keeps_its_rounds_and_the_next_is_the_same(pair: Pair) -> None:
    whole = play(pair, config())
    run = speculate(pair, PROMPT, config())
    kept = [next(run), next(run)]
    run.stop()
    assert next(run, None) is None
    assert run.finish == "stopped"
    assert run.emitted == tokens(kept)
    assert timeless(kept) == timeless(whole[:2])
    assert timeless(play(pair, config())) == timeless(whole)


def test_runs_side_by_side_do_not_disturb_each_other(pair: Pair) -> None:
    alone = [play(pair, config(seed=seed)) for seed in (1, 2)]
    runs = [speculate(pair, PROMPT, config(seed=seed)) for seed in (1, 2)]
    mixed: list[list[Round]] = [[], []]
    for _ in range(60):
        for run, rounds in zip(runs, mixed, strict=True):
            entry = next(run, None)
            if entry is not None:
                rounds.append(entry)
    assert [timeless(rounds) for rounds in mixed] == [timeless(rounds) for rounds in alone]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_run_broken_off_in_mid_round_leaves_the_pair_as_it_was(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = llama_pair("library")
    whole = play(pair, config())
    run = speculate(pair, PROMPT, config())
    kept = [next(run), next(run)]
    feed = LibraryStep.feed

    def failing(self: LibraryStep, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        if num_logits > 1:
            raise error("in the target pass")
        return feed(self, token_ids, num_logits)

    with monkeypatch.context() as broken:
        broken.setattr(LibraryStep, "feed", failing)
        with pytest.raises(error):
            next(run)
    assert next(run, None) is None  # its caches are half-way: it must not go on
    assert run.finish == "stopped"
    assert run.emitted == tokens(kept)
    assert timeless(play(pair, config())) == timeless(whole)


# -- prompt lookup

LOOPING = (5, 6, 7, 8, 5, 6, 7, 9, 5, 6)


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("prompt", [LOOPING, PROMPT, (7,)])
def test_prompt_lookup_writes_the_plain_text(
    pair: Pair, gamma: int, prompt: tuple[int, ...]
) -> None:
    settings = config(temperature=0.0, gamma=gamma, drafter="prompt-lookup", max_new_tokens=120)
    assert tokens(play(pair, settings, prompt)) == tuple(plain(pair, prompt, settings))


def test_prompt_lookup_proposes_what_followed_before_and_sometimes_nothing(pair: Pair) -> None:
    settings = config(gamma=4, drafter="prompt-lookup", max_new_tokens=150)
    rounds = play(pair, settings, LOOPING)
    text: list[int] = list(LOOPING)
    for entry in rounds:
        left = len(LOOPING) + 150 - len(text)
        proposed = [candidate.token_id for candidate in entry.candidates]
        assert proposed == copied(text, min(4, left))
        assert all(candidate.draft_prob == 1.0 for candidate in entry.candidates)
        text += entry.emitted
    sizes = {entry.num_drafted for entry in rounds}
    assert 0 in sizes
    assert len(sizes) > 2
    for entry in rounds:
        if entry.num_drafted == 0:
            assert len(entry.emitted) == 1
            assert entry.extra_kind == "bonus"
            assert entry.draft_catch_up == 0


def copied(text: list[int], count: int) -> list[int]:
    """What followed the latest earlier occurrence of the longest suffix of at most three."""
    for size in (3, 2, 1):
        for start in range(len(text) - size - 1, -1, -1):
            if size < len(text) and text[start : start + size] == text[-size:]:
                return text[start + size : start + size + count]
    return []


def test_prompt_lookup_needs_no_draft_and_the_model_drafter_does() -> None:
    lone = pair_of(tiny_model("llama"), None)
    assert len(tokens(play(lone, config(drafter="prompt-lookup")))) == 60
    with pytest.raises(PairError, match="no draft model"):
        speculate(lone, PROMPT, config())


# -- drafters and rules of one's own


class Guesser:
    """Draws candidates from a law of its own; notes the hidden states it is handed."""

    wants_hidden = True

    def __init__(self, vocabulary: int) -> None:
        self.law = torch.rand(vocabulary, generator=torch.Generator().manual_seed(1))
        self.law /= self.law.sum()
        self.hidden: list[torch.Tensor | None] = []

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        del prompt_ids

    def propose(
        self,
        history: Sequence[int],
        count: int,
        uniforms: torch.Tensor,
        hidden: torch.Tensor | None,
    ) -> Proposal:
        del history
        self.hidden.append(None if hidden is None else hidden.clone())
        probs = self.law.expand(count, -1)
        drawn = [inverse_cdf(self.law, uniforms[draft_slot(i)]) for i in range(count)]
        return Proposal(torch.stack(drawn), probs, None, 0)

    def settle(self, valid: int) -> None:
        del valid


def test_a_drafter_of_ones_own_is_handed_the_targets_hidden_states(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = watch(monkeypatch)
    drafter = Guesser(pair.vocabulary)
    rounds = list(Speculation(pair, PROMPT, config(gamma=3), drafter=drafter))
    assert len(drafter.hidden) == len(rounds)
    head = pair.target.get_output_embeddings()
    assert head is not None
    for hidden, feed in zip(drafter.hidden[1:], notes.targets[0].feeds[1:], strict=False):
        assert hidden is not None
        with torch.inference_mode():
            torch.testing.assert_close(head(hidden), feed.logits, rtol=1e-4, atol=1e-4)


def test_a_drafter_that_knows_nothing_changes_nothing_but_the_speed(pair: Pair) -> None:
    settings = config(temperature=0.0, gamma=3)
    run = Speculation(pair, PROMPT, settings, drafter=Guesser(pair.vocabulary))
    assert tokens(list(run)) == tuple(plain(pair, PROMPT, settings))


def test_a_rule_of_ones_own_decides(pair: Pair) -> None:
    class Refuse(Lossless):
        def accepts(
            self, uniforms: torch.Tensor, draft_probs: torch.Tensor, target_probs: torch.Tensor
        ) -> torch.Tensor:
            del uniforms, target_probs
            return torch.zeros_like(draft_probs, dtype=torch.bool)

    rounds = list(Speculation(pair, PROMPT, config(), rule=Refuse()))
    assert all(entry.num_accepted == 0 for entry in rounds)
    assert all(len(entry.emitted) == 1 for entry in rounds)
