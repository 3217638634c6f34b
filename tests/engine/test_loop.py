"""The loop: caches, passes per round, prompts, repeated and interrupted runs, custom parts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise
from queue import Queue
from typing import Any

import pytest
import torch
from torch import Tensor

from specviz.engine import Pair, decode_plainly, speculate
from specviz.engine.decoding import speculation
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.recording import Recorder
from specviz.engine.decoding.sampling import Draws, inverse_cdf
from specviz.engine.decoding.speculation import Speculation
from specviz.engine.decoding.target_pass import TargetPass
from specviz.engine.decoding.verify import Lossless, OverAccept
from specviz.engine.model.library_step import LibraryStep
from specviz.engine.model.library_weights import LibraryWeights
from specviz.errors import PromptError
from specviz.record.trace import Round
from tests.engine.playing import PROMPT, STEPS, STEPWISE, config, llama_pair, play, timeless, tokens
from tests.engine.spies import StepSpy, watch


@pytest.fixture(params=STEPS)
def pair(request: pytest.FixtureRequest) -> Pair:
    return llama_pair(request.param)


@pytest.fixture(params=STEPWISE)
def stepwise(request: pytest.FixtureRequest) -> Pair:
    return llama_pair(request.param)


# -- caches and costs


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("gamma", [pytest.param(1, marks=pytest.mark.thorough), 2, 5])
def test_caches_hold_the_text_and_nothing_else(
    stepwise: Pair, gamma: int, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = watch(monkeypatch)
    settings = config(gamma=gamma, temperature=temperature, record=False)
    run = speculate(stepwise, PROMPT, settings)
    (target,), (draft,) = notes.targets, notes.drafts
    text: list[int] = list(PROMPT)
    while run.finish == "stopped":
        assert target.length == len(text) - 1
        assert target.held == text[:-1]
        assert draft.held == text[: draft.length]
        assert len(text) - draft.length in (1, 2)
        text += next(run).emitted
    assert len(text) == len(PROMPT) + 60
    assert stepwise.draft is not None
    _check_logits(target, stepwise.target)
    _check_logits(draft, stepwise.draft)


def _check_logits(spy: StepSpy, model: torch.nn.Module) -> None:
    """Each feed gave the logits of a fresh forward pass over the cached tokens."""
    for feed in spy.feeds[1:]:
        with torch.inference_mode():
            fresh = model(torch.tensor([feed.before + feed.fed])).logits[0, -feed.num_logits :]
        torch.testing.assert_close(feed.logits, fresh, rtol=1e-4, atol=1e-4)


def test_a_round_feeds_only_what_is_new(stepwise: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = watch(monkeypatch)
    rounds = play(stepwise, config(gamma=4, max_new_tokens=150))
    fed = [len(feed.fed) for feed in notes.targets[0].feeds]
    assert fed == [len(PROMPT) - 1, *(entry.num_drafted + 1 for entry in rounds)]
    drafted = [len(feed.fed) for feed in notes.drafts[0].feeds[1:]]
    expected = [
        entry.draft_catch_up if position == 0 else 1
        for entry in rounds
        for position in range(entry.num_drafted)
    ]
    assert drafted == expected


def test_the_draft_catches_up_on_two_tokens_after_a_bonus_only(stepwise: Pair) -> None:
    rounds = play(stepwise, config(gamma=2, max_new_tokens=120))
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
    assert isinstance(pair.target_weights, LibraryWeights)
    hook = pair.target_weights.model.register_forward_hook(lambda *_: forwards.append(1))
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
        accepted = [c.token_id for c in entry.candidates if c.verdict == "accepted"]
        extra = [entry.extra.token_id] if entry.extra else []
        assert list(entry.emitted) == accepted + extra
        length += len(entry.emitted)


# -- the prompt


@pytest.mark.parametrize("prompt", ["", (), (-1,), (5, 320), (10**9,)])
def test_rejects_an_invalid_prompt(pair: Pair, prompt: Any) -> None:
    with pytest.raises(PromptError):
        speculate(pair, prompt, config())


def test_a_prompt_of_one_token(pair: Pair) -> None:
    settings = config(temperature=0.0)
    assert tokens(play(pair, settings, (7,))) == tuple(decode_plainly(pair, (7,), settings))
    with torch.inference_mode():
        first = int(pair.target(torch.tensor([[7]])).logits[0, -1].argmax())
    assert tokens(play(pair, settings, (7,)))[0] == first


def test_a_text_prompt_equals_its_tokens(pair: Pair) -> None:
    ids = tuple(pair.tokenizer("Once upon a time")["input_ids"])
    run = speculate(pair, "Once upon a time", config())
    assert run.prompt.token_ids == ids
    assert "".join(run.prompt.token_texts) == "Once upon a time"
    assert timeless(list(run)) == timeless(play(pair, config(), ids))


# -- repetition


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
    texts = {tokens(play(pair, config(seed=seed, max_new_tokens=20))) for seed in range(5)}
    assert len(texts) == 5


def test_a_shorter_run_is_the_beginning_of_a_longer_one(pair: Pair) -> None:
    """Uniforms belong to slots, so limiting gamma at the end changes nothing before it."""
    whole = tokens(play(pair, config()))
    for length in (1, 2, 5, 11, 30):
        assert tokens(play(pair, config(max_new_tokens=length))) == whole[:length]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("gamma", [1, 4])
def test_greedy_emits_the_plain_text(step: str, gamma: int) -> None:
    pair, settings = llama_pair(step), config(temperature=0.0, gamma=gamma)
    assert tokens(play(pair, settings)) == tuple(decode_plainly(pair, PROMPT, settings))


@pytest.mark.parametrize("name", ["lean", "library"])
def test_only_model_steps_use_several_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's threads woken for a softmax would delay the steps' threads."""
    seen: dict[str, set[int]] = {"feed": set(), "softmax": set(), "accepts": set()}

    def note(place: type, function: str) -> None:
        real = getattr(place, function)

        def noted(*args: Any, **settings: Any) -> Any:
            seen[function].add(torch.get_num_threads())
            return real(*args, **settings)

        monkeypatch.setattr(place, function, noted)

    pair = llama_pair(name)
    note(type(pair.target_step(64)), "feed")
    note(torch.Tensor, "softmax")
    note(OverAccept, "accepts")
    torch.set_num_threads(2)
    try:
        play(pair, config(max_new_tokens=8, rule="over-accept", epsilon=0.1))
        list(decode_plainly(pair, PROMPT, config(max_new_tokens=4)))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert seen == {"feed": {2}, "softmax": {1}, "accepts": {1}}


# -- interruption


def test_a_record_is_written_during_the_next_rounds_target_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: Queue[str] = Queue()
    unwritten: list[bool] = []  # when each target pass begins
    write, checking = Recorder._insights, TargetPass.checking

    def noted(self: Recorder, *args: Any) -> Any:
        insights = write(self, *args)
        written.put(threading.current_thread().name)
        return insights

    def waiting(self: TargetPass, *args: Any) -> Any:
        if unwritten:
            assert written.get(timeout=20).startswith("record")
        unwritten.append(written.empty())
        return checking(self, *args)

    monkeypatch.setattr(speculation, "_BATCH", 0.0)
    monkeypatch.setattr(Recorder, "_insights", noted)
    monkeypatch.setattr(TargetPass, "checking", waiting)
    rounds = play(llama_pair("lean"), config())
    assert len(rounds) == len(unwritten) > 3
    assert all(unwritten)  # one each, and never early
    assert not written.get(timeout=20).startswith("record")  # nothing followed the last


@pytest.mark.parametrize("record", [True, False])
def test_a_stopped_run_keeps_its_rounds(
    pair: Pair, record: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the record on, one more round had been played than returned."""
    monkeypatch.setattr(speculation, "_BATCH", 0.0)
    settings = config(record=record, max_new_tokens=30)
    whole = play(pair, settings)
    run = speculate(pair, PROMPT, settings)
    kept = [next(run), next(run)]
    run.stop()
    kept += run
    assert len(kept) == 2 + (record and pair.lanes is None)
    assert run.finish == "stopped"
    assert run.emitted == tokens(kept)
    assert timeless(kept) == timeless(whole[: len(kept)])
    assert all((each.insight is not None) == record for each in kept[-1].candidates)
    assert timeless(play(pair, settings)) == timeless(whole)


def test_runs_side_by_side_do_not_disturb_each_other(pair: Pair) -> None:
    settings = [config(seed=seed, max_new_tokens=30) for seed in (1, 2)]
    alone = [play(pair, each) for each in settings]
    runs = [speculate(pair, PROMPT, each) for each in settings]
    mixed: list[list[Round]] = [[], []]
    for _ in range(30):
        for run, rounds in zip(runs, mixed, strict=True):
            entry = next(run, None)
            if entry is not None:
                rounds.append(entry)
    assert [timeless(rounds) for rounds in mixed] == [timeless(rounds) for rounds in alone]


@pytest.mark.parametrize(
    ("error", "record"),
    [
        (RuntimeError, False),
        (KeyboardInterrupt, True),
        pytest.param(RuntimeError, True, marks=pytest.mark.thorough),
        pytest.param(KeyboardInterrupt, False, marks=pytest.mark.thorough),
    ],
)
def test_a_run_that_fails_in_mid_round_leaves_the_pair_unchanged(
    error: type[BaseException], record: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speculation, "_BATCH", 0.0)
    pair = llama_pair("library")
    settings = config(record=record, max_new_tokens=30)
    whole = play(pair, settings)
    run = speculate(pair, PROMPT, settings)
    kept = [next(run), next(run)]
    feed = LibraryStep.feed

    def failing(self: LibraryStep, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        if num_logits > 1:
            raise error("in the target pass")
        return feed(self, token_ids, num_logits)

    with monkeypatch.context() as broken:
        broken.setattr(LibraryStep, "feed", failing)
        kept += [next(run)] if record else []  # the previous round, whose record was pending
        with pytest.raises(error):
            next(run)
    assert next(run, None) is None  # its caches are in mid-round: it must not continue
    assert run.finish == "stopped"
    assert run.emitted == tokens(kept)
    assert timeless(kept) == timeless(whole[: 2 + record])
    assert timeless(play(pair, settings)) == timeless(whole)


# -- custom drafters and rules


class Guesser:
    """Draws candidates from a fixed distribution; records the hidden states it receives."""

    wants_hidden = True

    def __init__(self, vocabulary: int) -> None:
        self.distribution = torch.rand(vocabulary, generator=torch.Generator().manual_seed(1))
        self.distribution /= self.distribution.sum()
        self.hidden: list[torch.Tensor | None] = []

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        del prompt_ids

    def propose(
        self, history: Sequence[int], count: int, draws: Draws, hidden: torch.Tensor | None
    ) -> Proposal:
        del history
        self.hidden.append(None if hidden is None else hidden.clone())
        probs = self.distribution.expand(count, -1)
        drawn = [inverse_cdf(self.distribution[None], draws.of_candidate(i)) for i in range(count)]
        return Proposal(torch.cat(drawn), probs, None, 0)

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        del valid, kept


def test_a_custom_drafter_receives_the_targets_hidden_states(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = watch(monkeypatch)
    drafter = Guesser(pair.vocabulary)
    run = Speculation(pair, PROMPT, config(gamma=3), drafter=drafter)
    rounds = list(run)
    assert len(drafter.hidden) == len(rounds)
    head = pair.target.get_output_embeddings()
    assert head is not None
    assert drafter.hidden[0] is not None
    assert len(drafter.hidden[0]) == len(run.prompt.token_ids) - 1
    feeds = notes.targets[0].feeds[1:]
    for hidden, feed, entry in zip(drafter.hidden[1:], feeds, rounds, strict=False):
        assert hidden is not None
        kept = feed.logits[: entry.num_accepted + 1]
        with torch.inference_mode():
            torch.testing.assert_close(head(hidden), kept, rtol=1e-4, atol=1e-4)


def test_a_random_drafter_does_not_change_the_text(pair: Pair) -> None:
    settings = config(temperature=0.0, gamma=3)
    run = Speculation(pair, PROMPT, settings, drafter=Guesser(pair.vocabulary))
    assert tokens(list(run)) == tuple(decode_plainly(pair, PROMPT, settings))


def test_a_custom_rule_decides(pair: Pair) -> None:
    class Refuse(Lossless):
        def accepts(
            self, uniforms: Tensor, draft_probs: Tensor, target_probs: Tensor, distributions: Tensor
        ) -> Tensor:
            del uniforms, target_probs, distributions
            return torch.zeros_like(draft_probs, dtype=torch.bool)

    rounds = list(Speculation(pair, PROMPT, config(), rule=Refuse()))
    assert all(entry.num_accepted == 0 for entry in rounds)
    assert all(len(entry.emitted) == 1 for entry in rounds)
