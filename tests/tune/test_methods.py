"""Methods as candidates: expectation or bound, the basis of the speed, and the advice."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

import pytest

from specviz.comparison.plan import Lane
from specviz.errors import ConfigError
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SuiteItem
from specviz.record.run_config import RunConfig
from specviz.theory.along import rounds_along, walks_along
from specviz.theory.student import t_quantile
from specviz.tune.advice import advice, basis_text, reason, speedup_text, unranked_text
from specviz.tune.answer import Answer, Candidate, gain_from_acceptance, gain_from_speed
from specviz.tune.methods import ShortRun, check_method, form_of, gammas_of, is_plain, method_text
from specviz.tune.question import Question
from specviz.tune.to_json import answer_to_json
from tests.tune.fakes import best_of, candidate_of
from tests.tune.scored import scores_of, text_of

ITEMS = (SuiteItem(prompt="Once"), SuiteItem(prompt="One day"))
RUNS = tuple(
    ShortRun(gamma=gamma, temperature=0.7, rounds=10, tokens=tokens, speedup=speedup)
    for gamma, tokens, speedup in ((2, 20, 1.5), (2, 22, 1.7), (4, 30, 1.2))
)


def method(**changes: Any) -> RunConfig:
    return RunConfig(**changes)


@pytest.mark.parametrize(
    ("changes", "form", "words"),
    [
        ({}, "exact", ""),
        ({"rule": "coupled"}, "exact", "coupled by shared noise"),
        ({"rule": "match"}, "exact", "sample and match"),
        ({"num_drafts": 3}, "exact", "3 drafts"),
        ({"draft_until": "confidence:0.4"}, "exact", "confidence:0.4"),
        ({"drafter": "early-exit:2"}, "exact", "early exit after 2 layers"),
        ({"drafter": "suffix", "rule": "block"}, "exact", "suffix lookup, block verification"),
        ({"rule": "block"}, "at least", "block verification"),
        ({"num_drafts": 3, "replacement": False}, "at least", "3 drafts without replacement"),
        ({"branching": (2, 1)}, "at least", "tree 2x1"),
        ({"dynamic_tree": (4, 8)}, "none", "dynamic tree 4x8"),
        ({"draft_until": "cost"}, "none", "cost"),
    ],
)
def test_form_and_name_of_a_method(changes: dict[str, Any], form: str, words: str) -> None:
    config = method(**changes)
    check_method(config)
    assert form_of(config) == form
    assert method_text(config) == words
    assert is_plain(config) is (not changes)
    assert gammas_of(config, (1, 2, 4)) == ((2,) if config.branching else (1, 2, 4))


@pytest.mark.parametrize(
    ("changes", "culprit"),
    [
        ({"rule": "over-accept", "epsilon": 0.1}, "rule=over-accept changes"),
        ({"rule": "typical", "epsilon": 0.1}, "rule=typical changes"),
        ({"drafter": "some.module:Drafter"}, "custom drafters"),
        ({"draft_until": "oracle"}, "no speed"),
    ],
)
def test_rejects_unsupported_methods(changes: dict[str, Any], culprit: str) -> None:
    with pytest.raises(ConfigError, match=culprit):
        check_method(method(**changes))


def test_servers_support_only_one_chain_of_a_draft() -> None:
    spec = PairSpec(target="http://127.0.0.1:8000", draft="somewhere")
    lane = Lane(spec=spec, config=method())
    Question(lanes=(lane,), items=ITEMS)
    for changes in ({"rule": "block"}, {"num_drafts": 2}, {"drafter": "suffix"}):
        other = replace(lane, config=method(**changes))
        with pytest.raises(ConfigError, match="For a target on a server"):
            Question(lanes=(lane, other), items=ITEMS)


# Cells

ODDS = tuple(0.9 - 0.02 * (place % 7) for place in range(40))


def candidate(label: str = "x", **changes: Any) -> Candidate:
    runs = changes.pop("runs", ())
    gammas = changes.pop("gammas", (1, 2, 4))
    first = tuple(each + (1.0 - each) / 2 for each in ODDS)
    sure = tuple(0.2 if place % 5 == 0 else 0.8 for place in range(40))
    scores = scores_of(ODDS, first_odds=first if changes.get("num_drafts", 1) > 1 else ())
    texts = tuple(
        text_of(ODDS, temperature=0.7, scores=replace(scores, sureness=sure)) for _ in range(5)
    )
    made = candidate_of(label, gammas=gammas, **changes)
    return replace(made, texts=texts, runs=runs)


def test_block_has_the_bound_of_a_chain() -> None:
    plain, block = candidate(), candidate(rule="block")
    for one, other in zip(plain.surface.cells, block.surface.cells, strict=True):
        assert other == replace(one, basis="at least")
    found = best_of(block)
    assert speedup_text(found[1]).startswith("at least ")
    assert reason(*found).startswith(
        "at least "
    )  # no α: single candidates have no acceptance probability
    assert "lower bound: token-by-token acceptance along 5 texts" in basis_text(*found)
    assert gain_from_speed(block, 0.7) is None


def test_measures_rounds_that_step_costs_do_not_cover() -> None:
    several = candidate(num_drafts=2, runs=RUNS)
    cells = {each.gamma: each for each in several.surface.cells}
    assert (cells[1].speedup, cells[1].basis) == (None, "expected")  # it was not run
    logs = [math.log(1.5), math.log(1.7)]
    middle, wide = math.exp(fmean(logs)), t_quantile(0.975, 1) * stdev(logs) / math.sqrt(2)
    assert cells[2].speedup == pytest.approx(middle)
    assert cells[2].low == pytest.approx(middle * math.exp(-wide))
    assert cells[2].high == pytest.approx(middle * math.exp(wide))
    assert (cells[2].basis, cells[2].num_runs) == ("measured", 2)
    assert (cells[4].speedup, cells[4].low, cells[4].num_runs) == (1.2, None, 1)
    # Its tokens per round are known along the texts: the first candidate is accepted more often.
    (walk,) = walks_along(several.chances(several.texts[0]), (2,))
    assert cells[2].tau == pytest.approx(walk.tokens / walk.rounds)
    alone = rounds_along(ODDS, 2)
    assert cells[2].tau > alone.tokens / alone.rounds
    assert (
        basis_text(several, cells[2])
        == "measured in 2 short runs; tokens per round expected along 5 texts"
    )
    assert several.alpha(0.7) is None
    assert several.costs_of(cells[2]) is None


def test_tree_and_cost_drafting_use_the_tokens_of_their_runs() -> None:
    tree = candidate(branching=(2, 2), gammas=(2,), runs=RUNS[:2])
    cost = candidate(draft_until="cost", runs=RUNS)
    for found in (tree, cost):
        cell = found.surface.cell(2, 0.7)
        assert cell is not None
        assert cell.tau == pytest.approx(2.1)
        assert basis_text(found, cell) == "measured in 2 short runs, including tokens per round"
    assert [each.gamma for each in cost.surface.cells] == [
        2,
        4,
    ]  # it has no expectation along a text
    (bound,) = replace(tree, runs=()).surface.cells
    (chain,) = candidate(gammas=(2,)).surface.cells
    assert (bound.tau, bound.speedup, bound.basis) == (chain.tau, None, "at least")


def test_unsure_draft_ends_rounds() -> None:
    unsure, usual = candidate(draft_until="confidence:0.5"), candidate()
    for one, other in zip(unsure.surface.cells, usual.surface.cells, strict=True):
        assert one.speedup is None  # the number of candidates is not known along a text
        assert one.tau == pytest.approx(other.tau) if one.gamma == 1 else one.tau < other.tau
    everything = candidate(draft_until="confidence:0.1")
    taus = [each.tau for each in everything.surface.cells]
    assert taus == pytest.approx([each.tau for each in usual.surface.cells])


def test_early_exit_needs_measured_steps() -> None:
    exit_, usual = candidate(drafter="early-exit:1"), candidate()
    assert exit_.surface.cells == usual.surface.cells
    assert gain_from_speed(exit_, 0.7) == gain_from_speed(usual, 0.7)
    assert gain_from_acceptance(exit_, 0.7) == gain_from_acceptance(usual, 0.7)
    bare = {at: replace(each, draft=(), draft_next=()) for at, each in usual.costs.items()}
    assert replace(exit_, costs=bare).surface.best_at(0.7) is None


# Advice


def answer(*candidates: Candidate, complete: bool = True) -> Answer:
    lanes = tuple(each.lane for each in candidates)
    question = Question(lanes=lanes, items=ITEMS, temperatures=(0.7,))
    return Answer(question=question, candidates=candidates, complete=complete)


def test_ranks_methods_together_and_names_the_best() -> None:
    fast = tuple(replace(each, speedup=4 * each.speedup) for each in RUNS)
    found = answer(
        candidate("draft"),
        candidate("block", rule="block"),
        candidate("drafts", num_drafts=2, runs=fast),
        candidate("pays", draft_until="cost"),
    )
    assert [each.label for each, _ in found.ranked] == ["drafts", "draft", "block"]
    speeds = [cell.speedup or 0.0 for _, cell in found.ranked]
    assert all(one >= other for one, other in pairwise(speeds))
    assert found.best_plain is not None
    assert found.best_plain[0].label == "draft"
    assert unranked_text(found).startswith("Not ranked: pays.")
    assert unranked_text(replace(found, complete=False)) == ""
    output = answer_to_json(found)
    assert output["not_ranked"] == ["pays"]
    assert [each["basis"] for each in output["ranking"]] == ["measured", "expected", "at least"]
    assert output["ranking"][0]["settings"]["num_drafts"] == 2
    assert [each["runs"] for each in output["candidates"]] == [0, 0, 3, 0]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (candidate(rule="block"), "Use this draft, block verification, with γ 4: at least 2.35 "),
        (candidate(rule="coupled"), "Use this draft, coupled by shared noise, with γ 4: "),
        (candidate(drafter="early-exit:1"), "Use early exit after 1 layer with γ 4: "),
        (candidate(num_drafts=2, runs=RUNS[:1]), "Use this draft, 2 drafts, with γ 2: 1.50 times "
         "the target's speed in 1 short run on texts like these"),
        (candidate(branching=(2, 2), gammas=(2,), runs=RUNS[:1]),
         "Use this draft, tree 2x2: 1.50 times the target's speed"),
    ],
)  # fmt: skip
def test_advice_names_the_method(found: Candidate, words: str) -> None:
    assert advice(answer(found)).startswith(words)


def test_bound_below_the_target_decides_nothing() -> None:
    slow = candidate(rule="block")
    dear = {
        at: replace(each, target=((1.0,) * 2, *each.target[1:])) for at, each in slow.costs.items()
    }
    output = advice(answer(replace(slow, costs=dear)))
    assert output.startswith("It is not known whether speculation pays at temperature 0.7: ")
    assert "at least 0." in output
