"""Scores of other methods, against numpy oracles and against runs."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import pytest

from specviz.engine import Pair
from specviz.engine.decoding.scoring import copied_rounds, score_text
from specviz.errors import PairError
from specviz.figures.expectation import acceptance_along
from specviz.record.trace import Round, RunConfig
from specviz.theory.along import Walk, walks_along
from tests.engine.models import noisy_copy, pair_of, tiny_model
from tests.engine.playing import OWN_STEPS, PROMPT, config, llama_pair, play, tokens
from tests.engine.test_scoring import CONFIGS, TEXT, distribution_of, logits
from tests.oracles.own_odds import coupled_odds, match_odds, multi_draft_odds, token_odds

GAMMAS = (1, 2, 3, 5, 8)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("rule", ["match", "coupled"])
def test_odds_of_other_rules_match_the_oracle(rule: Any, config: RunConfig) -> None:
    pair, settings = llama_pair("lean"), replace(config, rule=rule)
    (scores,) = score_text(pair, PROMPT, TEXT, [settings])
    oracle = {"match": match_odds, "coupled": coupled_odds}[rule]
    drafts, targets = logits(pair, "draft", TEXT), logits(pair, "target", TEXT)
    for at, token in enumerate(TEXT):
        draft, target = (
            distribution_of(drafts[at], settings),
            distribution_of(targets[at], settings),
        )
        odds = oracle(draft, target, token) if target[token] else 0.0
        assert scores.odds[at] == pytest.approx(odds, abs=1e-4)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("count", [2, 8])
def test_odds_of_several_drafts_match_the_oracle(count: int, config: RunConfig) -> None:
    pair, settings = llama_pair("lean"), replace(config, num_drafts=count)
    (scores,) = score_text(pair, PROMPT, TEXT, [settings])
    drafts, targets = logits(pair, "draft", TEXT), logits(pair, "target", TEXT)
    for at, token in enumerate(TEXT):
        draft, target = (
            distribution_of(drafts[at], settings),
            distribution_of(targets[at], settings),
        )
        first = multi_draft_odds(draft, target, token, count) if target[token] else 0.0
        later = token_odds(draft, target, token) if target[token] else 0.0
        assert scores.first_odds[at] == pytest.approx(first, abs=1e-4)
        assert scores.odds[at] == pytest.approx(later, abs=1e-4)
    assert score_text(pair, PROMPT, TEXT, [config])[0].first_odds == ()


# Against runs

SEEDS = 20
METHODS: dict[str, dict[str, Any]] = {
    "match": {"rule": "match"},
    "coupled": {"rule": "coupled"},
    "several": {"num_drafts": 3},
    "unsure": {"draft_until": "confidence:0.05"},
    "exit": {"drafter": "early-exit:1"},
    "exit, unsure": {"drafter": "early-exit:1", "draft_until": "confidence:0.05"},
    "coupled, unsure": {"rule": "coupled", "draft_until": "confidence:0.05"},
    "match, unsure": {"rule": "match", "draft_until": "confidence:0.05"},
}

# Combined methods are thorough: each of their parts is in every check.
NAMES = [pytest.param(each, marks=pytest.mark.thorough if "," in each else ()) for each in METHODS]


def expected(pair: Pair, settings: RunConfig, rounds: list[Round]) -> Walk:
    (scores,) = score_text(pair, PROMPT, tokens(rounds), [settings])
    chances = acceptance_along(scores.as_written(), settings.until.threshold)
    (walk,) = walks_along(chances, (settings.gamma,))
    return walk


def counted(rounds: list[Round]) -> tuple[int, int]:
    whole = [entry for entry in rounds if entry.whole]
    return len(whole), sum(len(entry.emitted) for entry in whole)


def pair_for(method: dict[str, Any], step: str = "lean") -> Pair:
    """An early exit needs a target of several layers."""
    if "drafter" not in method:
        return llama_pair(step)
    target = tiny_model("llama", num_hidden_layers=2, seed=1)
    return pair_of(target, noisy_copy(target, 0.05), step=step)


@pytest.mark.parametrize("step", OWN_STEPS)
@pytest.mark.parametrize("name", NAMES)
def test_scored_rounds_equal_those_of_a_run_at_temperature_0(name: str, step: str) -> None:
    """Nothing is random, so every count is exact."""
    method, several = METHODS[name], set[int]()
    pair = pair_for(method, step)
    for gamma in GAMMAS:
        settings = config(temperature=0.0, gamma=gamma, **method)
        rounds = play(pair, settings)
        walk = expected(pair, settings, rounds)
        assert counted(rounds) == (walk.rounds, walk.tokens)
        several.add(len(rounds))
    assert len(several) > 1


@pytest.mark.parametrize("name", NAMES)
def test_sampled_runs_have_the_expected_number_of_rounds(name: str) -> None:
    """Over many seeds the mean difference is 0; without the method it is not."""
    method, differences, without = METHODS[name], list[float](), list[float]()
    pair = pair_for(method)
    for seed in range(SEEDS):
        settings = config(temperature=0.9, gamma=4, max_new_tokens=40, seed=seed, **method)
        rounds = play(pair, replace(settings, record=False))
        differences.append(counted(rounds)[0] - expected(pair, settings, rounds).rounds)
        usual = config(temperature=0.9, gamma=4)
        without.append(counted(rounds)[0] - expected(pair, usual, rounds).rounds)
    assert abs(fmean(differences)) <= 3.3 * stdev(differences) / math.sqrt(SEEDS)
    if name != "match, unsure":  # which always has probability 1
        assert abs(fmean(without)) > 3.3 * stdev(without) / math.sqrt(SEEDS)


def test_a_run_records_the_odds_of_an_early_exit() -> None:
    pair = pair_for(METHODS["exit"])
    settings = config(temperature=0.8, gamma=4, drafter="early-exit:1")
    rounds = play(pair, settings)
    (scores,) = score_text(pair, PROMPT, tokens(rounds), [settings])
    compared = 0
    for entry in rounds:
        place = entry.context_length - len(PROMPT)
        for at, each in enumerate(entry.candidates):
            if each.verdict == "accepted" and place + at < len(scores.odds):
                odds = min(1.0, each.draft_prob / each.target_prob)
                assert scores.odds[place + at] == pytest.approx(odds, abs=1e-4)
                compared += 1
    assert compared > 5
    with pytest.raises(PairError, match="exit after 2"):
        score_text(pair, PROMPT, TEXT, [config(drafter="early-exit:2")])


def test_scored_suffix_lookup_has_the_rounds_of_a_run() -> None:
    target = tiny_model("llama", sigma=0.05, seed=3)  # whose text soon repeats
    pair, prompt = pair_of(target, noisy_copy(target, 0.05), step="lean"), (5, 6, 7, 8, 5, 6, 7, 9)
    drafted = 0
    for gamma in GAMMAS:
        settings = config(temperature=0.0, gamma=gamma, drafter="suffix", max_new_tokens=90)
        rounds = play(pair, settings, prompt)
        whole = [entry for entry in rounds if entry.whole]
        (found,) = copied_rounds(
            pair, prompt, tokens(rounds), (gamma,), ends=False, drafter="suffix"
        )
        assert found.starts == tuple(entry.context_length - len(prompt) for entry in whole)
        assert found.drafted == tuple(entry.num_drafted for entry in whole)
        assert found.emitted == tuple(len(entry.emitted) for entry in whole)
        drafted += sum(found.drafted)
    assert drafted > 100
