"""Device rounds equal those of the loop, and the host reads one round behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from specviz.engine import Pair, decode_plainly, speculate
from specviz.engine.decoding.pipelined_run import PipelinedRun
from specviz.engine.decoding.speculation import Speculation
from specviz.engine.graphed.chain import Chain
from specviz.engine.graphed.lanes import GraphedLanes
from specviz.engine.graphed.playback import OnHost, Stage
from specviz.engine.graphed.text_state import rows_for
from specviz.errors import DeviceError
from specviz.record.forks import Fork
from specviz.record.pairs import GRAPHED
from specviz.record.trace import Candidate, Round, RunConfig
from tests.engine.models import noisy_copy, pair_of, stir, tiny_model
from tests.engine.playing import PROMPT, config, llama_pair, play, tokens
from tests.engine.test_lean import SHAPES


def stepwise(pair: Pair) -> Pair:
    return replace(pair, lanes=None)


def lanes_of(pair: Pair) -> GraphedLanes:
    assert isinstance(pair.lanes, GraphedLanes)
    return pair.lanes


def assert_same(ours: list[Round], known: list[Round]) -> None:
    """Compare all decisions; times and rounding may differ."""
    assert [decisions(each) for each in ours] == [decisions(each) for each in known]
    for one, other in zip(ours, known, strict=True):
        for candidate, reference in zip(one.candidates, other.candidates, strict=True):
            assert numbers(candidate) == pytest.approx(numbers(reference), abs=1e-4)


def decisions(entry: Round) -> tuple[object, ...]:
    drafted = [(c.token_id, c.text, c.verdict, c.uniform) for c in entry.candidates]
    extra = entry.extra and (entry.extra.token_id, entry.extra.kind, entry.extra.uniform)
    return entry.index, entry.context_length, entry.emitted, entry.cut, extra, drafted


def numbers(candidate: Candidate) -> list[float]:
    found = [candidate.draft_prob, candidate.target_prob, candidate.expected_acceptance]
    found += [each for each in (candidate.overlap, candidate.bias) if each is not None]
    seen = candidate.insight
    if seen is not None:
        found += [seen.draft_entropy, seen.target_entropy]
        found += [seen.draft_top.probs[0], seen.target_top.probs[0]]
    return found


METHODS: list[dict[str, Any]] = [
    {"temperature": 0.0, "gamma": 4},
    {"temperature": 1.0, "gamma": 1, "seed": 1},
    {"temperature": 0.7, "top_k": 20, "top_p": 0.9, "gamma": 6, "seed": 3},
    {"rule": "over-accept", "epsilon": 0.1, "gamma": 3},
    {"rule": "typical", "epsilon": 0.09, "gamma": 3},
    {"temperature": 0.0, "rule": "over-accept", "epsilon": 0.1, "gamma": 3},
]


@pytest.mark.parametrize("settings", METHODS, ids=str)
@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[:1]], ids=["text", "one token"])
def test_device_rounds_equal_those_of_the_loop(
    settings: dict[str, Any], prompt: tuple[int, ...]
) -> None:
    pair, chosen = llama_pair(GRAPHED), config(**settings)
    run = speculate(pair, prompt, chosen)
    assert isinstance(run, PipelinedRun)
    known = speculate(stepwise(pair), prompt, chosen)
    assert_same(list(run), list(known))
    assert (run.text, run.finish, run.emitted) == (known.text, known.finish, known.emitted)


# Weights of these differ only in parts that steps share; test_lean compares them with the library.
SHARED = ("qwen2", "llama3 rope", "linear rope", "tied", "every head its own keys")


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(name, marks=pytest.mark.thorough if name in SHARED else ())
        for name in SHAPES
        if name != "llama"
    ],
)
def test_device_rounds_equal_those_of_the_loop_in_every_shape(shape: str) -> None:
    family, changes = SHAPES[shape]
    target = stir(tiny_model(family, sigma=0.2, **changes))
    pair = pair_of(target, noisy_copy(target, 0.1), step=GRAPHED)
    chosen = config(max_new_tokens=40)
    assert_same(play(pair, chosen), play(stepwise(pair), chosen))
    alone = replace(chosen, temperature=0.0)
    assert list(decode_plainly(pair, PROMPT, alone)) == list(
        decode_plainly(stepwise(pair), PROMPT, alone)
    )


def test_a_text_beyond_the_first_256_cache_rows() -> None:
    """At first, 256 cache rows are attended to."""
    pair, chosen = llama_pair(GRAPHED), config(gamma=5, max_new_tokens=320)
    assert_same(play(pair, chosen), play(stepwise(pair), chosen))


def test_a_context_much_shorter_than_the_length_limit() -> None:
    target = tiny_model("llama")
    pair = pair_of(target, noisy_copy(target, 0.1), step=GRAPHED, max_context=64)
    chosen = config(max_new_tokens=1_000)
    assert_same(play(pair, chosen), play(stepwise(pair), chosen))
    alone = replace(chosen, temperature=0.0)
    known = list(decode_plainly(stepwise(pair), PROMPT, alone))
    assert list(decode_plainly(pair, PROMPT, alone)) == known


def test_cache_rows_depend_on_the_length_only() -> None:
    for length in (*range(1, 3_000), 4_097, 5_120, 100_000):
        rows = rows_for(length)
        assert length <= rows < 1.25 * length + 256
        assert rows_for(rows) == rows
    assert len({rows_for(length) for length in range(1, 8_193)}) == 16


DRAFT = Chain.draft


def test_a_replayed_round_uses_the_same_cache_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although fewer rounds are running; other shapes may round differently."""
    looked: list[int] = []

    def draft(self: Chain, seen: int) -> Stage:
        looked.append(seen)
        return DRAFT(self, seen)

    pair, chosen = llama_pair(GRAPHED), config(gamma=5, max_new_tokens=270, record=False)
    monkeypatch.setattr(Chain, "draft", draft)
    run = speculate(pair, PROMPT, chosen)
    rounds = list(run)
    first = list(looked)
    assert sorted(set(first)) == [256, 512]
    for entry in reversed(rounds[-20:]):
        looked.clear()
        run.go_back(entry)
        assert next(run).emitted == entry.emitted
        assert looked == first[entry.index : entry.index + 2]


def test_step_costs_are_timed_where_their_context_ends() -> None:
    """In memory that another text filled to its last row."""
    pair, ids = llama_pair(GRAPHED), [3] * 40
    lanes = lanes_of(pair)
    lanes.step_timer(ids, config(), 20)
    for memory in lanes._idle:
        memory.stages.clear()
        memory.state.set_position(memory.rows, 0)
    timer = lanes.step_timer(ids, config(), 20)
    for read in timer.readers:
        read(ids[:20])
    assert min(timer.draft_phase(1, 4), timer.verification(17), timer.plain_step()) > 0.0


@pytest.mark.parametrize("settings", METHODS[:3], ids=str)
def test_the_target_alone_equals_stepwise_decoding(settings: dict[str, Any]) -> None:
    pair, chosen = llama_pair(GRAPHED), config(**settings)
    assert list(decode_plainly(pair, PROMPT, chosen)) == list(
        decode_plainly(stepwise(pair), PROMPT, chosen)
    )


def test_unsupported_settings_fall_back_with_a_notice() -> None:
    pair = llama_pair(GRAPHED)
    for changes in ({"rule": "block"}, {"num_drafts": 2}, {"draft_until": "confidence:0.4"}):
        run = speculate(pair, PROMPT, config(**changes))
        assert isinstance(run, Speculation)
        assert "step by step" in run.notices[0]
    assert not speculate(pair, PROMPT, config()).notices


class Watched(OnHost):
    """Records what is played and when values are read."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def capture(self, function: Callable[[], None], state: Any) -> Callable[[], None]:
        done = super().capture(function, state)

        def play() -> None:
            self.notes.append("play")
            done()

        return play

    def fetch(self, values: torch.Tensor) -> Callable[[], list[float]]:
        found = values.tolist()

        def read() -> list[float]:
            self.notes.append("read")
            return found

        return read


def watched_lanes(pair: Pair) -> tuple[GraphedLanes, Watched]:
    lanes = lanes_of(pair)
    watched = Watched()
    own = GraphedLanes(*lanes.weights, pair.token_table, pair.device)
    own._playback = watched
    return own, watched


@pytest.mark.parametrize(("record", "stages"), [(False, 2), (True, 3)])
def test_a_round_is_read_while_the_next_one_runs(record: bool, stages: int) -> None:
    pair = llama_pair(GRAPHED)
    lanes, watched = watched_lanes(pair)
    run = PipelinedRun(pair, PROMPT, config(record=record), lanes)
    assert watched.notes == []
    next(run)
    reads = 1 + record
    assert watched.notes == ["play"] * 2 * stages + ["read"] * reads
    next(run)
    assert watched.notes[2 * stages + reads :] == ["play"] * stages + ["read"] * reads


def test_the_target_alone_is_read_one_step_behind() -> None:
    pair = llama_pair(GRAPHED)
    lanes, watched = watched_lanes(pair)
    lane = lanes.target_lane(PROMPT, config(), 100)
    first = lane.next_token(PROMPT[-1], 0)
    assert watched.notes == ["play", "play", "read"]
    lane.next_token(first, 1)
    assert watched.notes[3:] == ["play", "read"]


def test_the_target_alone_is_timed_with_its_draws() -> None:
    pair = llama_pair(GRAPHED)
    lanes, watched = watched_lanes(pair)
    lane = lanes.target_lane(PROMPT, config(), 100)
    assert len(lane.timed([PROMPT[-1], 5, 6, 7], 0)) == 4
    assert watched.notes == ["play", *["play", "read"] * 3]
    assert lane.prefill > 0.0


def test_times_use_the_device_clock_and_exclude_capturing() -> None:
    """A round begins where the previous one ended, unless a stage was captured in between."""
    pair = llama_pair(GRAPHED)
    rounds = play(pair, config(gamma=2, max_new_tokens=300, seed=11))
    times = [each.times for each in rounds]
    assert all(min(each.draft, each.verify, each.record) > 0.0 for each in times)
    assert times[0].other == 0.0
    assert (
        sum(each.other == 0.0 for each in times) <= 3
    )  # the first, and where more rows are attended to


def test_catch_up_counts_the_tokens_actually_fed() -> None:
    """Two per round, whatever the draft has read."""
    assert {each.draft_catch_up for each in play(llama_pair(GRAPHED), config())} == {2}
    first = play(llama_pair(GRAPHED), config(), PROMPT[:1])[0]
    assert first.draft_catch_up == 1


# -- reused memory


def test_memory_and_stages_serve_the_next_run() -> None:
    pair = pair_of(tiny_model("llama"), noisy_copy(tiny_model("llama")), step=GRAPHED)
    lanes = lanes_of(pair)

    def kept() -> set[int]:
        return {id(stage) for memory in lanes._idle for stage in memory.stages.values()}

    play(pair, config(gamma=3))
    before = kept()
    play(pair, config(gamma=3, seed=5))
    assert kept() == before


def test_forced_tokens_do_not_stay_for_the_next_run() -> None:
    """The forks' runs share memory and stages."""
    pair = pair_of(tiny_model("llama"), noisy_copy(tiny_model("llama")), step=GRAPHED)
    chosen = config(temperature=0.0, gamma=3)
    free = play(pair, chosen)
    for entry in (free[2], free[5], free[3]):
        judged = entry.candidates[0]
        other = (judged.token_id + 1) % pair.vocabulary
        fork = Fork(round=entry.index, place=0, token_id=judged.token_id, instead=other)
        forked = replace(chosen, forks=(fork,))
        rounds = play(pair, forked)
        assert rounds[entry.index].emitted[0] == other
        assert_same(rounds, play(stepwise(pair), forked))
    assert_same(play(pair, chosen), free)


def test_few_settings_and_memories_are_kept() -> None:
    pair = pair_of(tiny_model("llama"), noisy_copy(tiny_model("llama")), step=GRAPHED)
    lanes = lanes_of(pair)
    for gamma in range(1, 8):
        play(pair, config(gamma=gamma, max_new_tokens=8))
    assert max(len(each.stages) for each in lanes._idle) <= 4
    runs = [speculate(pair, PROMPT, config(gamma=1)) for _ in range(5)]
    assert all(next(run) for run in runs)
    runs.clear()
    assert sum(each.draft is not None for each in lanes._idle) <= 2


def test_a_released_run_is_over() -> None:
    pair = llama_pair(GRAPHED)
    run = speculate(pair, PROMPT, config())
    kept = [next(run), next(run)]
    run.release()
    assert list(run) == []
    assert run.emitted == tokens(kept)


def test_a_failed_run_leaves_the_pair_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = llama_pair(GRAPHED)
    whole = play(pair, config())
    run = speculate(pair, PROMPT, config())
    next(run)
    with monkeypatch.context() as patch:
        patch.setattr(
            OnHost, "mark", lambda self: (_ for _ in ()).throw(torch.OutOfMemoryError("none left"))
        )
        with pytest.raises(DeviceError, match="Out of memory"):
            list(run)
    assert list(run) == []
    assert_same(play(pair, config()), whole)


def test_memory_does_not_grow_over_many_runs() -> None:
    pair = pair_of(tiny_model("llama"), noisy_copy(tiny_model("llama")), step=GRAPHED)
    generator = torch.Generator().manual_seed(4)
    held: list[int] = []
    for _ in range(40):
        gamma, length = (
            torch.randint(1, most, (1,), generator=generator).item() for most in (6, 30)
        )
        settings = RunConfig(gamma=int(gamma), max_new_tokens=int(length), temperature=1.0)
        play(pair, settings)
        held.append(sum(each.rows for each in lanes_of(pair)._idle))
    assert held[-1] == held[0]
