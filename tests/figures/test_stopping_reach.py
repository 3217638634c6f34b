"""What stopping criteria reach compared with the oracle, on handmade rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specviz.errors import ConfigError
from specviz.figures.stopping_reach import (
    after_count,
    below_confidence,
    drafting_costs_of,
    own_reach,
    stopping_reach,
)
from specviz.record.trace import DraftingCosts, Round, RunConfig
from tests.traces import make_costs, make_round, make_trace

COSTS = DraftingCosts(draft_first=0.2, draft_next=0.1, verify=(1.0, 1.1, 1.2, 1.3))
CONFIG = RunConfig(gamma=3)


def sure(verdicts: str, draft_probs: list[float]) -> Round:
    entry = make_round(verdicts)
    drafted = zip(entry.candidates, draft_probs, strict=True)
    return replace(
        entry, candidates=tuple(replace(each, draft_prob=prob) for each, prob in drafted)
    )


ROUNDS = (
    sure("rdd", [0.3, 0.9, 0.9]),
    sure("aar", [0.9, 0.9, 0.3]),
    sure("aaa", [0.9, 0.3, 0.9]),
)


def test_the_oracle_drafts_only_accepted_candidates() -> None:
    (oracle,) = stopping_reach([make_trace(ROUNDS, config=CONFIG)], {}, COSTS)
    assert (oracle.name, oracle.drafted, oracle.tokens, oracle.share) == ("oracle", 5, 8, 1.0)
    assert oracle.cost == pytest.approx(1.0 + (0.3 + 1.2) + (0.4 + 1.3), abs=1e-12)
    assert oracle.rate == pytest.approx(8 / 4.2, abs=1e-12)


def test_criteria_on_the_same_rounds() -> None:
    stops = {"3": after_count(3), "1": after_count(1), "0": after_count(0),
             "0.5": below_confidence(0.5)}  # fmt: skip
    trace = make_trace(ROUNDS, config=CONFIG)
    _, all_three, one, none, unlikely = stopping_reach([trace], stops, COSTS)
    assert (all_three.drafted, all_three.tokens) == (9, 8)
    assert all_three.cost == pytest.approx(3 * (0.4 + 1.3), abs=1e-12)
    assert all_three.share == pytest.approx(4.2 / 5.1, abs=1e-12)
    assert (one.drafted, one.tokens) == (3, 1 + 2 + 2)
    assert one.cost == pytest.approx(3 * (0.2 + 1.1), abs=1e-12)
    assert (none.drafted, none.tokens, none.cost) == (0, 3, 3.0)
    # Stops after the unlikely candidate, which is still verified: one, three and two candidates.
    assert (unlikely.drafted, unlikely.tokens) == (1 + 3 + 2, 1 + 3 + 3)
    assert unlikely.cost == pytest.approx((0.2 + 1.1) + (0.4 + 1.3) + (0.3 + 1.2), abs=1e-12)


def test_leaves_out_cut_rounds() -> None:
    cut = make_trace([*ROUNDS, make_round("aa", cut="length")], config=CONFIG)
    assert stopping_reach([cut], {}, COSTS) == stopping_reach(
        [make_trace(ROUNDS, config=CONFIG)], {}, COSTS
    )
    nothing = make_trace([make_round("a", cut="length")], config=CONFIG)
    assert stopping_reach([nothing], {}, COSTS) == ()


def test_several_runs_are_pooled() -> None:
    stops = {"0.5": below_confidence(0.5)}
    whole = make_trace(ROUNDS, config=CONFIG)
    parts = [make_trace(ROUNDS[:1], config=CONFIG), make_trace(ROUNDS[1:], config=CONFIG)]
    assert stopping_reach(parts, stops, COSTS) == stopping_reach([whole], stops, COSTS)


def test_runs_with_a_criterion_use_their_own_rounds() -> None:
    oracle = stopping_reach([make_trace(ROUNDS, config=CONFIG)], {}, COSTS)[0]
    config = replace(CONFIG, draft_until="cost")
    own = make_trace(["ar", "", make_round("a", cut="length")], config=config, drafting_costs=COSTS)
    found = own_reach("cost", [own], oracle)
    assert found is not None
    assert (found.drafted, found.tokens) == (2, 2 + 1)
    assert found.cost == pytest.approx((0.3 + 1.2) + 1.0, abs=1e-12)
    assert found.share == pytest.approx((3 / 2.5) / (8 / 4.2), abs=1e-12)
    assert own_reach("cost", [make_trace([], config=config)], oracle, COSTS) is None


def test_costs_come_from_the_run() -> None:
    trace = make_trace(ROUNDS, config=CONFIG, step_costs=make_costs())
    found = drafting_costs_of(trace)
    assert (found.draft_first, found.draft_next) == pytest.approx((0.1, 0.1), abs=1e-12)
    assert found.verify == pytest.approx((1.0, 1.1, 1.2, 1.3), abs=1e-12)
    assert stopping_reach([trace], {}) == stopping_reach([trace], {}, found)
    assert drafting_costs_of(replace(trace, drafting_costs=COSTS)) == COSTS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rule": "block"}, "always draft a chain of γ"),
        ({"num_drafts": 2}, "always draft a chain of γ"),
        ({"draft_until": "confidence:0.4"}, "always draft a chain of γ"),
        ({"temperature": 0.0}, "draft's probabilities"),
        ({}, "step costs"),
    ],
)
def test_rejects_runs_without_the_needed_values(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stopping_reach([make_trace(ROUNDS, config=replace(CONFIG, **changes))], {})


def test_rejects_more_candidates_than_costs() -> None:
    short = replace(COSTS, verify=COSTS.verify[:2])
    with pytest.raises(ConfigError, match="verifying 3 tokens"):
        stopping_reach([make_trace(ROUNDS, config=CONFIG)], {}, short)
