"""Each bug has the symptom that its entry names: a wrong distribution or less acceptance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from specviz.engine import Pair, speculate
from specviz.engine.decoding.bugs import broken
from specviz.engine.decoding.sampling import (
    Sampler,
    draft_slot,
    inverse_cdf,
    keyed_uniforms,
    verdict_slot,
)
from specviz.engine.model.steps import Step
from specviz.errors import ConfigError, PairError
from specviz.record.breaks import BREAKS
from specviz.record.trace import Round, RunConfig
from tests.engine import test_lossless as lossless
from tests.engine.playing import PROMPT, STEPS, config, llama_pair, timeless, tokens

TEXTS = 700
SETTINGS = config(gamma=4, seed=3, max_new_tokens=80, record=False)
SHORT = replace(SETTINGS, temperature=0.0, max_new_tokens=30)


def play(name: str | None, settings: RunConfig, pair: Pair | None = None) -> list[Round]:
    pair = pair or llama_pair("lean")
    if name is None:
        return list(speculate(pair, PROMPT, settings))
    return list(broken(pair, PROMPT, settings, name))


# -- the distribution of the first tokens, on a pair where it is known


def cells(name: str) -> np.ndarray:
    """First tokens of many broken runs, as cells of the joint distribution."""
    gamma = 1 if name == "bonus-from-draft" else 2  # many bonus tokens; or more than one candidate
    settings = config(gamma=gamma, max_new_tokens=gamma + lossless.DEPTH, record=False)
    texts = np.empty((TEXTS, lossless.DEPTH), dtype=np.int64)
    for seed in range(TEXTS):
        run = broken(lossless.tiny_pair(), lossless.PROMPT, replace(settings, seed=seed), name)
        while len(run.emitted) < lossless.DEPTH:
            next(run)
        texts[seed] = run.emitted[: lossless.DEPTH]
    return texts @ lossless.VOCABULARY ** np.arange(lossless.DEPTH - 1, -1, -1)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "reused-uniform" else pytest.mark.thorough)
        for name in BREAKS
    ],
)
def test_the_distribution_is_wrong_only_for_bugs_that_say_so(name: str) -> None:
    found = lossless.p_value(cells(name), lossless.exact_distribution("plain"))
    if BREAKS[name].biased:
        assert found < 1e-4
    else:
        assert found > 1e-3


# -- acceptance


@cache
def alpha(name: str | None) -> float:
    rounds = [each for seed in range(4) for each in play(name, replace(SETTINGS, seed=seed))]
    return sum(each.num_accepted for each in rounds) / sum(each.num_tested for each in rounds)


@pytest.mark.parametrize("name", BREAKS)
def test_acceptance_falls_only_for_bugs_that_say_so(name: str) -> None:
    """Other texts alone change it by less than 0.1."""
    assert (alpha(None) - alpha(name) > 0.2) == (BREAKS[name].symptom != "distribution")


# -- how each bug works


@pytest.mark.parametrize("step", STEPS)
def test_an_untrimmed_target_reads_rejected_candidates(step: str) -> None:
    """At temperature 0 it emits what follows the text with all candidates in it."""
    pair = llama_pair(step)
    read = list(PROMPT)
    for entry in play("untrimmed-target-cache", SHORT, pair):
        ids = [each.token_id for each in entry.candidates]
        own = rows(pair.target_step, read, ids).argmax(-1).tolist()
        assert list(entry.emitted) == own[: len(entry.emitted)]
        read += [*ids, entry.emitted[-1]]
    assert len(read) > len(PROMPT) + SHORT.max_new_tokens + 10


@pytest.mark.parametrize("step", STEPS)
def test_an_untrimmed_draft_reads_rejected_candidates(step: str) -> None:
    """The last candidate of a round is fed in the next one, if at all."""
    pair = llama_pair(step)
    read: list[int] = list(PROMPT[:-1])
    text: list[int] = list(PROMPT)
    for entry in play("untrimmed-draft-cache", SHORT, pair):
        ids = [each.token_id for each in entry.candidates]
        read += text[-entry.draft_catch_up :]
        assert ids == rows(pair.draft_step, read, ids).argmax(-1).tolist()[:-1]
        read += ids[:-1]
        text += list(entry.emitted)
    assert len(read) > len(PROMPT) + SHORT.max_new_tokens + 10


def rows(
    make_step: Callable[[int], Step], text: Sequence[int], candidates: Sequence[int]
) -> torch.Tensor:
    """Logits after the text and each candidate, from a separate cache."""
    fed = torch.tensor([*text, *candidates])
    with torch.inference_mode():
        return make_step(len(fed) + 1).feed(fed, len(candidates) + 1)


def test_candidates_are_drawn_at_half_the_temperature() -> None:
    pair = llama_pair("lean")
    first = play("draft-temperature", SETTINGS)[0]
    drawn = torch.from_numpy(keyed_uniforms(SETTINGS.seed, 0, SETTINGS.gamma))
    ids = [each.token_id for each in first.candidates]
    logits = rows(pair.draft_step, PROMPT, ids)
    own = Sampler(SETTINGS).probs(logits)
    colder = Sampler(replace(SETTINGS, temperature=SETTINGS.temperature / 2)).probs(logits)
    for place, each in enumerate(first.candidates):
        uniform = drawn[draft_slot(place) : draft_slot(place) + 1]
        assert each.token_id == int(inverse_cdf(colder[place][None], uniform))
        assert each.draft_prob == pytest.approx(float(own[place, each.token_id]), rel=1e-4)


def test_match_proposes_the_likeliest_token_with_certainty() -> None:
    pair = llama_pair("lean")
    for entry in play("match", SETTINGS)[:3]:
        assert [each.draft_prob for each in entry.candidates] == [1.0] * entry.num_drafted
    first = play("match", SETTINGS)[0]
    ids = [each.token_id for each in first.candidates]
    assert ids == rows(pair.draft_step, PROMPT, ids).argmax(-1).tolist()[:-1]
    for each in first.candidates:
        if each.tested:
            assert (each.uniform < each.target_prob) == (each.verdict == "accepted")


def test_reused_uniforms_decide_the_verdicts() -> None:
    for entry in play("reused-uniform", SETTINGS):
        drawn = keyed_uniforms(SETTINGS.seed, entry.index, entry.num_drafted)
        for place, each in enumerate(entry.candidates):
            assert each.uniform == float(drawn[draft_slot(place)])
            assert each.uniform != float(drawn[verdict_slot(place)])


def test_the_bonus_token_comes_from_the_draft() -> None:
    pair, greedy = llama_pair("lean"), replace(SETTINGS, temperature=0.0)
    rounds = play("bonus-from-draft", greedy)
    bonuses = [each for each in rounds if each.extra_kind == "bonus"]
    assert bonuses
    text = [*PROMPT, *tokens(rounds)]
    for entry in bonuses:
        at = entry.context_length + entry.num_accepted
        assert text[at] == int(rows(pair.draft_step, text[:at], ()).argmax())
    others = [each for each in rounds if each.extra_kind == "recovered"]
    for entry in others:
        at = entry.context_length + entry.num_accepted
        assert text[at] == int(rows(pair.target_step, text[:at], ()).argmax())


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_run_leaves_the_loop_unchanged(name: str) -> None:
    """A broken run leaves no state in the pair."""
    before = timeless(play(None, SETTINGS))
    assert timeless(play(name, SETTINGS)) != before
    assert timeless(play(None, SETTINGS)) == before


def test_rejects_an_unknown_bug() -> None:
    with pytest.raises(ConfigError, match="'gremlin' is not a bug"):
        play("gremlin", SETTINGS)
    lonely = replace(llama_pair("lean"), draft=None, draft_weights=None)
    with pytest.raises(PairError, match="no draft model"):
        play("match", SETTINGS, lonely)


def test_an_untrimmed_cache_stays_within_the_context() -> None:
    """Beyond its spare room it forgets correctly."""
    for context in (len(PROMPT) + 61, len(PROMPT) + 80):
        pair = replace(llama_pair("lean"), max_context=context)
        settings = replace(SETTINGS, max_new_tokens=60)
        for name in ("untrimmed-target-cache", "untrimmed-draft-cache"):
            assert len(tokens(play(name, settings, pair))) == 60
