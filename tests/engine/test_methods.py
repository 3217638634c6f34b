"""Every method on a tiny pair: its text, and the replay of its verdicts.

``test_judges.py`` compares the distributions with enumerations.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.engine import decode_plainly, speculate
from specviz.errors import ConfigError
from specviz.figures.metrics import metrics
from specviz.record.run_config import RunConfig, refuse_own_drafter
from specviz.record.trace import Round
from specviz.store import Library
from specviz.store.saving import save_run
from specviz.store.traces import trace_from_json, trace_to_json
from specviz.tune.audit import Audit
from tests.engine.playing import EXACT_METHODS, PROMPT, llama_pair
from tests.traces import make_costs, make_trace

EXACT = EXACT_METHODS | {
    "sure": {"draft_until": "confidence:0.5", "gamma": 6},
    "oracle": {"draft_until": "oracle", "gamma": 6},
}
TREES = ("tree", "tree by matching", "dynamic tree", "dynamic tree by matching")
SEVERAL = {"drafts", "drafts that differ", *TREES}
USUAL = RunConfig(gamma=4, temperature=1.0, max_new_tokens=40, ignore_eos=True)


def rounds_of(step: str, config: RunConfig) -> list[Round]:
    return list(speculate(llama_pair(step), PROMPT, config))


def words(rounds: list[Round]) -> list[int]:
    return [token for entry in rounds for token in entry.emitted]


@pytest.mark.parametrize("step", ["library", "lean"])
@pytest.mark.parametrize("method", EXACT)
def test_every_method_matches_the_target_at_temperature_0(method: str, step: str) -> None:
    config = replace(USUAL, temperature=0.0, **EXACT[method])
    assert words(rounds_of(step, config)) == list(decode_plainly(llama_pair(step), PROMPT, config))


@pytest.mark.parametrize("method", ["drafts", "drafts that differ", "tree", "dynamic tree"])
def test_siblings_are_accepted_by_their_recorded_odds(method: str) -> None:
    rounds = rounds_of("lean", replace(USUAL, **EXACT[method]))
    fates = {each.verdict for entry in rounds for each in entry.candidates}
    assert {"accepted", "rejected", "discarded"} <= fates
    for entry in rounds:
        for number, each in enumerate(entry.candidates):
            assert each.parent is not None
            assert each.parent < number
            if each.tested:
                accepted = each.uniform * each.draft_prob < each.target_prob
                assert accepted == (each.verdict == "accepted")
                assert each.insight is not None
                assert each.insight.target_prob == pytest.approx(each.target_prob, abs=1e-6)
            if each.verdict == "accepted" and each.parent >= 0:
                assert entry.candidates[each.parent].verdict == "accepted"
        path = [each.token_id for each in entry.candidates if each.verdict == "accepted"]
        assert list(entry.emitted[: len(path)]) == path


def test_no_two_children_of_a_node_are_the_same_token() -> None:
    for method in ("drafts that differ", *TREES):
        for entry in rounds_of("lean", replace(USUAL, **EXACT[method])):
            found = [(each.parent, each.token_id) for each in entry.candidates]
            roots = [each for each in found if method in TREES or each[0] == -1]
            assert len(set(roots)) == len(roots)


def test_a_block_is_accepted_up_to_its_last_successful_coin() -> None:
    rounds = rounds_of("lean", replace(USUAL, gamma=6, rule="block"))
    assert any(each.verdict == "cut" for entry in rounds for each in entry.candidates)
    for entry in rounds:
        coins = [each.coin or 0.0 for each in entry.candidates]
        well = [i + 1 for i, each in enumerate(entry.candidates) if each.uniform < coins[i]]
        if entry.cut is None:
            assert entry.num_accepted == max(well, default=0)
        joint = [each.joint or 0.0 for each in entry.candidates]
        ratios = [min(1.0, each.odds) for each in entry.candidates]
        products = list(itertools.accumulate(ratios, lambda a, b: a * b))
        assert sum(joint) >= sum(products) - 1e-9


def test_coupled_texts_depend_on_the_seed_and_the_target_alone() -> None:
    texts = {
        tuple(
            words(rounds_of("lean", replace(USUAL, rule="coupled", gamma=gamma, drafter=drafter)))
        )
        for gamma in (1, 3, 8)
        for drafter in ("model", "prompt-lookup", "early-exit:1")
    }
    assert len(texts) == 1
    other = replace(USUAL, rule="coupled", seed=1)
    assert tuple(words(rounds_of("lean", other))) not in texts


@pytest.mark.parametrize("method", ["tree by matching", "dynamic tree by matching"])
def test_a_child_is_accepted_if_the_target_draws_it(method: str) -> None:
    rounds = rounds_of("lean", replace(USUAL, **EXACT[method]))
    fates = {each.verdict for entry in rounds for each in entry.candidates}
    assert fates == {"accepted", "rejected", "discarded"}
    for entry in rounds:
        for parent, siblings in itertools.groupby(entry.candidates, lambda each: each.parent):
            found = list(siblings)
            reached = parent == -1 or entry.candidates[parent or 0].verdict == "accepted"
            drawn = {each.rival.token_id for each in found if each.rival is not None}
            assert len({each.uniform for each in found}) == 1, "one draw decides on all siblings"
            if not reached:
                assert not drawn
                assert {each.verdict for each in found} == {"discarded"}
            elif entry.cut is None:
                (token,) = drawn
                ids = [each.token_id for each in found]
                place = ids.index(token) if token in ids else len(ids)
                verdicts = ["rejected"] * place + ["accepted"]
                verdicts += ["discarded"] * len(found)
                assert [each.verdict for each in found] == verdicts[: len(found)]
                assert [each.tested for each in found] == [i <= place for i in range(len(found))]
                if place == len(ids) and entry.extra is not None:
                    assert entry.extra.token_id == token
                    assert entry.extra.kind == "recovered"


@pytest.mark.parametrize("rule", ["coupled", "match"])
def test_a_candidate_is_accepted_if_the_target_draws_it(rule: str) -> None:
    for entry in rounds_of("lean", replace(USUAL, rule=rule)):
        for each in entry.candidates:
            if each.tested:
                assert each.rival is not None
                same = each.rival.token_id == each.token_id
                assert same == (each.verdict == "accepted")
            if each.verdict == "rejected" and entry.extra is not None and each.rival is not None:
                assert entry.extra.token_id == each.rival.token_id
            if rule == "coupled" and each.rival is not None and each.rival.noise is not None:
                first = each.rival.noise / each.rival.target_prob
                own = (each.noise or 0.0) / max(each.target_prob, 1e-300)
                assert first <= own * (1 + 1e-9)
                assert (each.rival.margin or 0.0) >= 0.0


def test_an_uncertain_candidate_is_tested() -> None:
    rounds = rounds_of("lean", replace(USUAL, **EXACT["sure"]))
    for entry in rounds:
        sure = [each.draft_prob >= 0.5 for each in entry.candidates]
        assert all(sure[:-1])
        if entry.num_drafted < 6 and entry.cut is None:
            assert not sure[-1]


def test_the_oracle_drafts_nothing_after_a_rejected_candidate() -> None:
    for entry in rounds_of("lean", replace(USUAL, **EXACT["oracle"])):
        assert all(each.tested for each in entry.candidates)


@pytest.mark.parametrize("method", EXACT)
def test_traces_of_every_method_round_trip(method: str) -> None:
    config = replace(USUAL, max_new_tokens=12, **EXACT[method])
    trace = make_trace(rounds_of("lean", config), config=config)
    text = trace_to_json(trace)
    assert f'"schema":{15 if config.dynamic_tree else 9}' in text
    assert trace_from_json(text) == trace


@pytest.mark.parametrize(
    ("settings", "culprit"),
    [
        ({"num_drafts": 2, "branching": (2, 1)}, "exclude each other"),
        ({"num_drafts": 2, "rule": "block"}, "one chain"),
        ({"num_drafts": 2, "rule": "match"}, "one chain"),
        ({"branching": (2, 1), "rule": "coupled"}, "one chain"),
        ({"dynamic_tree": (4, 8), "rule": "typical", "epsilon": 0.1}, "one chain"),
        ({"dynamic_tree": (4, 8), "branching": (2, 1)}, "branching and dynamic_tree exclude"),
        ({"dynamic_tree": (4, 8), "num_drafts": 2}, "num_drafts and dynamic_tree exclude"),
        ({"dynamic_tree": (4, 8), "drafter": "suffix"}, "Several drafts and trees need"),
        ({"dynamic_tree": (4, 8), "drafter": "dflash"}, "Several drafts and trees need"),
        ({"dynamic_tree": (4, 8), "draft_until": "cost"}, "draft_until=count"),
        ({"dynamic_tree": (1, 8)}, "width of 1"),
        ({"dynamic_tree": (65, 80)}, "width of 65"),
        ({"dynamic_tree": (4, 1025)}, "1,025 candidates"),
        ({"dynamic_tree": (4, 1)}, "has 1 candidates"),
        ({"dynamic_tree": (4, 8, 2)}, "not a width and a number"),
        ({"dynamic_tree": (4, True)}, "not a width and a number"),
        ({"num_drafts": 2, "drafter": "prompt-lookup"}, "drafter=model"),
        ({"branching": (2, 0)}, "branching of 0"),
        ({"branching": (64, 64)}, "nodes"),
        ({"num_drafts": 17}, "num_drafts is 17"),
        ({"draft_until": "confidence"}, "draft_until is"),
        ({"draft_until": "confidence:2"}, "confidence"),
        ({"draft_until": "later"}, "draft_until is"),
        ({"draft_until": "oracle", "drafter": "prompt-lookup"}, "does not work with"),
        ({"draft_until": "oracle", "rule": "block"}, "verdict on each"),
        ({"rule": "typical"}, "needs epsilon"),
        ({"rule": "guess"}, "rule is"),
    ],
)
def test_rejects_contradictory_settings(settings: dict[str, object], culprit: str) -> None:
    with pytest.raises(ConfigError, match=culprit):
        RunConfig(**settings)  # pyright: ignore[reportArgumentType]


def test_the_library_stores_every_method(tmp_path: Path) -> None:
    library = Library(tmp_path / "library")
    for settings in EXACT.values():
        config = replace(USUAL, max_new_tokens=8, **settings)
        trace = make_trace(rounds_of("lean", config), config=config)
        run = save_run(library, trace)
        assert library.open(run) == trace


def test_a_page_rejects_imported_drafters() -> None:
    refuse_own_drafter(replace(USUAL, drafter="suffix"))
    with pytest.raises(ConfigError, match="custom drafters"):
        refuse_own_drafter(replace(USUAL, drafter="mine:Drafter"))


def test_reports_a_drafting_cost_only_if_measured() -> None:
    """Otherwise drafting would look free."""
    for method, settings in {"usual": {}, **EXACT}.items():
        config = replace(USUAL, max_new_tokens=16, **settings)
        rounds, costs = rounds_of("lean", config), make_costs()
        found = metrics(make_trace(rounds, config=config, step_costs=costs))
        measured = method not in SEVERAL
        assert (found.c is not None) == measured
        assert (found.speedup_accounted is not None) == measured
        assert not measured or (found.c or 0.0) > 0.0
        assert (found.speedup_ideal is not None) == (method in {"usual", "early exit"})
        assert (found.tokens_per_second is None) == (method == "oracle")
        without = replace(costs, draft=(), draft_next=())
        found = metrics(make_trace(rounds, config=config, step_costs=without))
        assert found.c is None


def test_bugs_need_a_chain_judged_token_by_token() -> None:
    for method in ("block", "coupled", *TREES):
        with pytest.raises(ConfigError, match="token by token"):
            Audit(config=replace(USUAL, **EXACT[method]), broken="reused-uniform")


def test_reports_alpha_only_where_it_is_defined() -> None:
    for method, settings in EXACT.items():
        config = replace(USUAL, max_new_tokens=16, **settings)
        found = metrics(make_trace(rounds_of("lean", config), config=config))
        meaningful = method not in {"block", *SEVERAL}
        assert (found.alpha_observed is not None) == meaningful
        assert found.tau is not None
        assert found.draft_acceptance_rate is not None
