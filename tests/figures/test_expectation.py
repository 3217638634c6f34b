"""The expected speedup along a run's text, against values computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.figures.expectation import expected_rounds, expected_speedup
from specviz.record.trace import StepCosts
from specviz.theory.along import rounds_along
from tests.traces import full_trace

COSTS = StepCosts(
    contexts=(1,),
    draft=((0.1,), (0.3,)),
    target=tuple((1.0 + 0.05 * row,) for row in range(17)),
    draft_next=(0.2,),
)


def test_seconds_include_drafting_and_verification() -> None:
    odds = (1.0, 1.0, 1.0, 0.0, 1.0, 0.5)  # rounds of three tokens: a bonus, then a rejection
    (found,) = expected_rounds(odds, (2,), ends=False, num_prompt=4)
    walk = rounds_along(odds, 2)
    assert (found.rounds, found.tokens, found.bonuses) == (walk.rounds, walk.tokens, walk.bonuses)
    assert (walk.rounds, walk.tokens, walk.bonuses) == (2.0, 4.0, 1.0)
    assert found.context == 7.0
    first = 0.1 + 0.5 * 0.2  # half of the rounds are fed two tokens
    assert found.seconds(COSTS) == pytest.approx(2 * (first + 0.2 + 1.1))
    assert found.seconds_alone(COSTS) == pytest.approx(4.0)
    assert sum(found.begins) == pytest.approx(3.0)  # including the cut round


def test_the_speedup_of_a_run_uses_its_own_odds() -> None:
    trace = full_trace()
    scored = replace(trace, odds=tuple(0.8 for _ in trace.token_ids), step_costs=COSTS)
    gamma, prompt = trace.config.gamma, len(trace.prompt.token_ids)
    ends = trace.finish == "eos"
    (found,) = expected_rounds(scored.odds, (gamma,), ends=ends, num_prompt=prompt)
    speedup = found.seconds_alone(COSTS) / found.seconds(COSTS)
    assert expected_speedup(scored) == pytest.approx(speedup)


@pytest.mark.parametrize("lacks", ["odds", "costs", "draft steps", "rows", "a whole round"])
def test_no_speedup_if_an_input_is_missing(lacks: str) -> None:
    trace = replace(full_trace(), step_costs=COSTS)
    trace = replace(trace, odds=tuple(0.8 for _ in trace.token_ids))
    less = {
        "odds": replace(trace, odds=()),
        "costs": replace(trace, step_costs=None),
        "draft steps": replace(trace, step_costs=replace(COSTS, draft=())),
        "rows": replace(trace, step_costs=replace(COSTS, target=COSTS.target[:2])),
        "a whole round": replace(trace, odds=(0.5,), finish="length"),
    }[lacks]
    assert expected_speedup(less) is None
