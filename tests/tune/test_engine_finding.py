"""Findings for other engines: γ and tokens per round by the rule of each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.comparison.plan import Lane
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.theory.along import rounds_along
from specviz.tune.answer import Candidate
from specviz.tune.engine_finding import finding_of, settings_for
from specviz.tune.findings import EngineSettings
from tests.tune.fakes import best_of, candidate_of
from tests.tune.scored import scores_of, text_of

ODDS, MATCHES = [0.9] * 60, [True, False, False] * 20  # often accepted, but seldom a match


def candidate(**config: object) -> Candidate:
    text = text_of(ODDS, scores=scores_of(ODDS, matches=tuple(MATCHES)))
    lane = Lane(spec=PairSpec(draft="a/draft", target="a/target"), config=RunConfig())
    found = candidate_of("x", gammas=(1, 2, 4, 8), **config)
    return replace(found, lane=replace(found.lane, spec=lane.spec), texts=(text,))


def tau(chances: list[float], gamma: int) -> float:
    walk = rounds_along(chances, gamma)
    return walk.tokens / walk.rounds


@pytest.fixture
def found() -> dict[str, EngineSettings]:
    return {each.engine: each for each in settings_for(*best_of(candidate()))}


def test_each_engine_gets_the_best_gamma_for_its_rule(
    found: dict[str, EngineSettings],
) -> None:
    default, drawn, imposed, _ = found["vLLM"].snippets
    assert '"num_speculative_tokens": 1}' in default.text
    assert '"num_speculative_tokens": 8, "draft_sample_method": "probabilistic"' in drawn.text
    assert '"num_speculative_tokens": 1, ' in imposed.text
    assert "--speculative-num-steps 1 " in found["SGLang"].snippets[0].text
    assert "--spec-draft-n-max 1 " in next(
        each.text for each in found["llama.cpp"].snippets if each.label == "serve"
    )
    assert "num_assistant_tokens=8" in found["transformers"].snippets[0].text


def test_recomputes_tokens_per_round_for_that_rule(found: dict[str, EngineSettings]) -> None:
    by_match, by_odds = tau(list(map(float, MATCHES)), 1), tau(ODDS, 8)
    assert by_match < 2 < by_odds
    default, drawn, *_ = found["vLLM"].snippets
    assert (default.rule, default.tau) == ("match", pytest.approx(by_match))
    assert (drawn.rule, drawn.tau) == ("lossless", pytest.approx(by_odds))
    assert found["SGLang"].snippets[0].tau == pytest.approx(by_match)
    assert found["transformers"].snippets[0].tau == pytest.approx(by_odds)


def test_imposed_rates_follow_its_rule(found: dict[str, EngineSettings]) -> None:
    rate = round(tau(list(map(float, MATCHES)), 1) - 1, 4)
    assert f'"synthetic_acceptance_rates": [{rate:g}]' in found["vLLM"].snippets[2].text


def test_lookup_has_no_rates_and_no_draft() -> None:
    copies = candidate(drafter="prompt-lookup")
    _, cell = best_of(candidate())
    finding = finding_of(copies, cell)
    assert (finding.draft, dict(finding.cumulative)) == (None, {})
