"""A fork differs from its run from the overruled verdict on, and nowhere before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.engine import Pair
from specviz.engine.decoding.sampling import keyed_uniforms, verdict_slot
from specviz.engine.decoding.timed_replay import TimedReplay
from specviz.errors import ConfigError
from specviz.record.forks import Fork, followed_by
from specviz.record.trace import Candidate, Round, RunConfig
from tests.engine.playing import OWN_STEPS, PROMPT, config, llama_pair, play, timeless, tokens

SAMPLED = config(gamma=4, seed=3, max_new_tokens=80)
GREEDY = config(gamma=4, temperature=0.0, max_new_tokens=80)


@pytest.fixture(params=OWN_STEPS)
def pair(request: pytest.FixtureRequest) -> Pair:
    return llama_pair(request.param)


def first(rounds: list[Round], verdict: str, least: float = 0.0) -> tuple[Round, int, Candidate]:
    """The first such candidate after round 0 with odds below 1 and at least ``least``."""
    return next(
        (entry, place, each)
        for entry in rounds[1:]
        for place, each in enumerate(entry.candidates)
        if each.verdict == verdict and least < each.odds < 1
    )


def flipped(entry: Round, place: int, each: Candidate) -> Fork:
    """The fork that flips the verdict."""
    uniform = 0.0 if each.verdict == "rejected" else (1 - 2**-24)
    return Fork(round=entry.index, place=place, token_id=each.token_id, uniform=uniform)


@pytest.mark.parametrize(("verdict", "other"), [("rejected", "accepted"), ("accepted", "rejected")])
def test_a_fork_continues_from_the_other_verdict(pair: Pair, verdict: str, other: str) -> None:
    rounds = play(pair, SAMPLED)
    entry, place, each = first(rounds, verdict)
    fork = flipped(entry, place, each)
    forked = play(pair, replace(SAMPLED, forks=(fork,)))
    assert timeless(forked[: entry.index]) == timeless(rounds[: entry.index])
    there = forked[entry.index]
    assert [c.token_id for c in there.candidates] == [c.token_id for c in entry.candidates]
    assert there.candidates[place].verdict == other
    assert there.candidates[place].uniform == fork.uniform
    assert there.candidates[place].overruled == each.uniform
    assert tokens(forked) != tokens(rounds)
    assert_verdicts_follow(forked, SAMPLED, {fork.at})


def assert_verdicts_follow(
    rounds: list[Round], settings: RunConfig, overruled: set[tuple[int, int]]
) -> None:
    """Everywhere else the seed's draws decide by the rule."""
    for entry in rounds:
        drawn = keyed_uniforms(settings.seed, entry.index, settings.gamma)
        for place, each in enumerate(entry.candidates):
            if (entry.index, place) not in overruled:
                assert each.overruled is None
                assert each.uniform == float(drawn[verdict_slot(place)])
            if each.tested:
                accepted = each.uniform * each.draft_prob < each.target_prob
                assert accepted == (each.verdict == "accepted")


def test_a_fork_can_be_forked(pair: Pair) -> None:
    rounds = play(pair, SAMPLED)
    one = flipped(*first(rounds, "rejected"))
    forked = play(pair, replace(SAMPLED, forks=(one,)))
    later = flipped(*first(forked[one.round + 1 :], "rejected"))
    both = followed_by((one,), later)
    assert both == (one, later)
    twice = play(pair, replace(SAMPLED, forks=both))
    assert timeless(twice[: later.round]) == timeless(forked[: later.round])
    assert twice[later.round].candidates[later.place].verdict == "accepted"
    assert_verdicts_follow(twice, SAMPLED, {one.at, later.at})
    assert followed_by(both, one) == (one,)  # the later fork was in the abandoned text


def test_a_fork_overrules_the_draw_of_its_own_place_only(pair: Pair) -> None:
    rounds = play(pair, SAMPLED)
    for place in range(SAMPLED.gamma):
        entry = next(each for each in rounds[1:] if place < each.num_tested)
        judged = entry.candidates[place]
        same = Fork(
            round=entry.index, place=place, token_id=judged.token_id, uniform=judged.uniform
        )
        forked = play(pair, replace(SAMPLED, forks=(same,)))
        assert tokens(forked) == tokens(rounds)  # the fork repeats the seed's draw
        drawn = [(each.uniform, each.overruled) for each in entry.candidates]
        drawn[place] = (judged.uniform, judged.uniform)
        there = forked[entry.index].candidates
        assert [(each.uniform, each.overruled) for each in there] == drawn


def test_a_fork_at_the_place_of_the_last_fork_replaces_it(pair: Pair) -> None:
    rounds = play(pair, SAMPLED)
    one = flipped(*first(rounds, "rejected"))
    forked = play(pair, replace(SAMPLED, forks=(one,)))
    judged = rounds[one.round].candidates[one.place]
    back = replace(one, uniform=judged.uniform)
    assert tokens(forked) != tokens(rounds)
    again = play(pair, replace(SAMPLED, forks=followed_by((one,), back)))
    assert tokens(again) == tokens(rounds)
    assert again[one.round].candidates[one.place].overruled == judged.uniform


@pytest.mark.parametrize("verdict", ["accepted", "rejected"])
def test_a_fork_at_temperature_0_forces_another_token(pair: Pair, verdict: str) -> None:
    rounds = play(pair, GREEDY)
    entry, place, each = next(
        (entry, place, each)
        for entry in rounds[1:]
        for place, each in enumerate(entry.candidates)
        if each.verdict == verdict
    )
    assert each.insight is not None
    for instead in each.insight.target_top.token_ids[1:4]:
        fork = Fork(round=entry.index, place=place, token_id=each.token_id, instead=instead)
        forked = play(pair, replace(GREEDY, forks=(fork,)))
        assert timeless(forked[: entry.index]) == timeless(rounds[: entry.index])
        there = forked[entry.index]
        assert there.emitted[: place + 1] == (*entry.emitted[:place], instead)
        assert (there.candidates[place].verdict == "accepted") == (instead == each.token_id)
        assert there.candidates[place].insight == each.insight  # the models' outputs stay


def test_timing_a_fork_replays_its_rounds(pair: Pair) -> None:
    settings = replace(SAMPLED, forks=(flipped(*first(play(pair, SAMPLED), "rejected")),))
    rounds = play(pair, settings)
    timed_replay = TimedReplay(pair, PROMPT, settings, rounds)
    fork = settings.forks[0].round
    for start, end in ((0, len(rounds)), (fork, fork + 1), (0, fork + 1)):
        assert len(timed_replay.speculative(start, end)) == end - start  # asserts equal tokens


def test_rejects_a_fork_of_another_run(pair: Pair) -> None:
    fork = flipped(*first(play(pair, SAMPLED), "rejected"))
    with pytest.raises(ConfigError, match=f"candidate at {fork.words} differs"):
        play(pair, replace(SAMPLED, seed=4, forks=(fork,)))
    beyond = replace(fork, round=1, place=30)
    with pytest.raises(ConfigError, match="not the run that was forked"):
        play(pair, replace(SAMPLED, forks=(beyond,)))
    foreign = Fork(round=1, place=0, token_id=1, instead=10**8)
    with pytest.raises(ConfigError, match="token 100000000"):
        play(pair, replace(GREEDY, forks=(foreign,)))


def test_rejects_a_fork_at_an_untested_candidate(pair: Pair) -> None:
    entry, place, each = next(
        (entry, place, each)
        for entry in play(pair, SAMPLED)
        for place, each in enumerate(entry.candidates)
        if each.verdict == "discarded"
    )
    fork = Fork(round=entry.index, place=place, token_id=each.token_id, uniform=0.5)
    with pytest.raises(ConfigError, match="not the run that was forked"):
        play(pair, replace(SAMPLED, forks=(fork,)))
