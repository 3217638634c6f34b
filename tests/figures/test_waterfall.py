"""Where the speed went, on a trace whose levels are computed by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.figures.metrics import metrics
from specviz.figures.waterfall import Waterfall, waterfall, why_no_waterfall
from specviz.record.trace import Round, RunConfig, StepCosts, Trace
from tests.paper_trace import LOOKUP, close
from tests.trace_strategies import COSTS as SECONDS_A_STEP
from tests.trace_strategies import traces
from tests.traces import Passes, make_costs, make_round, make_trace

NAMES = (
    "textbook", "acceptance by position", "clustering along the text", "measured verification",
    "drafting's first step", "rest of the engine", "observed",
)  # fmt: skip


def round_of(verdicts: str, odds: Sequence[float], **fields: Any) -> Round:
    made = make_round(verdicts, **fields)
    chances = zip(made.candidates, odds, strict=True)
    changed = tuple(replace(each, draft_prob=1.0, target_prob=odd) for each, odd in chances)
    return replace(made, candidates=changed)


# Tokens 3, 1 and 2. The cut round counts for α only and does not change it.
ROUNDS = (
    round_of("aa", (0.8, 0.5)),
    round_of("rd", (0.4, 0.6), draft_catch_up=2),
    round_of("ar", (0.6, 0.1)),
    round_of("a", (1.0,), cut="eos", draft_catch_up=2),
)
# In ms: a target step 10, verifying three tokens 12.5; a first draft step 2, fed two tokens 3.5,
# a later one 1.
FLAT = StepCosts(
    contexts=(4,),
    draft=((0.002,), (0.0035,)),
    target=((0.010,), (9.0,), (0.0125,)),
    draft_next=(0.001,),
)
# The target alone takes 10.2 ms per token, 61.2 in total; a round 17 ms, 51 in total.
TIMES = Passes(target=[[0.0102] * 6] * 2, speculative=[[0.017] * 3] * 2)


def by_hand(rounds: Sequence[Round] = ROUNDS, **fields: Any) -> Trace:
    values = {"config": RunConfig(gamma=2), "step_costs": FLAT, "baseline": TIMES}
    return make_trace(rounds, **(values | fields))


def of(trace: Trace) -> Waterfall:
    found = waterfall(trace, metrics(trace))
    assert found is not None
    return found


def levels(trace: Trace) -> list[float]:
    return [each.speedup for each in of(trace).steps]


def test_the_order_of_the_steps() -> None:
    steps = of(by_hand()).steps
    assert tuple(each.name for each in steps) == NAMES
    assert [each.is_level for each in steps] == [True, *[False] * 5, True]


def test_levels() -> None:
    textbook, position, clustering, verification, first, rest, observed = levels(by_hand())
    cheap = 2 * 0.1 + 1  # two later draft steps and one target step
    assert textbook == close((1 + 0.5 + 0.25) / cheap)
    # Mean odds (.8 + .4 + .6) / 3 and (.5 + .6 + .1) / 3, including the discarded candidate.
    assert position == close((1 + 0.6 + 0.6 * 0.4) / cheap)
    assert clustering == close(2 / cheap)
    assert verification == close(2 / (2 * 0.1 + 1.25))
    # One first step in three is fed two tokens: 2 + 1.5 / 3, and a later one: 3.5 ms.
    assert first == close(2 / (0.35 + 1.25))
    assert rest == observed == close(61.2 / 51)


def test_changes_are_between_neighbours() -> None:
    steps = of(by_hand()).steps
    assert (steps[0].change, steps[0].change_ms) == (0.0, 0.0)
    assert (steps[-1].change, steps[-1].change_ms) == (0.0, 0.0)
    assert steps[2].change == close((2 - 1.84) / 1.2)
    assert steps[3].change == close(2 / 1.45 - 2 / 1.2)
    assert steps[0].ms_a_token == close(10.2 * 1.2 / 1.75)
    assert steps[3].change_ms == close(10.2 * (1.45 - 1.2) / 2)
    assert steps[5].change_ms == close(8.5 - 8.16)
    assert steps[6].ms_a_token == close(51 / 6)


def test_sentences_have_the_numbers_of_the_run() -> None:
    sentences = [each.words for each in of(by_hand()).steps]
    assert "α = 0.500" in sentences[0]
    assert "1.75 tokens and costs 2 draft steps at 0.100 target steps" in sentences[0]
    assert "0.600 at position 1 to 0.400 at position 2), a round gives 1.84 tokens" in sentences[1]
    # Each round's own odds give 2.2, 1.64 and 1.66 tokens, mean 1.833: −0.007 is clustering.
    assert "by −0.01, and sampling noise by +0.17: a round gave 2.00" in sentences[2]
    assert sentences[3].startswith("Verifying 3 tokens takes 1.25 target steps")
    assert "takes 0.250 target steps, a later draft step 0.100" in sentences[4]
    assert "33.3 % of the rounds" in sentences[4]
    assert sentences[5].endswith("0.34 ms per token.")
    assert "1.20 times as fast as the target alone, 8.50 ms per token" in sentences[6]
    assert all(each.endswith(".") and each.count(". ") == 0 for each in sentences)


def test_an_engine_faster_than_its_step_costs() -> None:
    fast = replace(TIMES, speculative=[[0.0153] * 3] * 2)
    step = of(by_hand(baseline=fast)).steps[5]
    assert step.change_ms == close(7.65 - 8.16)
    assert "0.51 ms per token less" in step.words


def test_one_candidate_per_round() -> None:
    rounds = [round_of("a", (0.75,), expected=0.5), round_of("r", (0.25,), expected=0.5)]
    passes = Passes(target=[[0.01] * 3], speculative=[[0.01] * 2])
    trace = by_hand(rounds, config=RunConfig(gamma=1), step_costs=make_costs(), baseline=passes)
    assert levels(trace) == [
        close(1.5 / 1.1), close(1.5 / 1.1), close(1.5 / 1.1), close(1.5 / 1.2), close(1.5 / 1.2),
        close(1.5), close(1.5),
    ]  # fmt: skip
    sentences = [each.words for each in of(trace).steps]
    assert "costs 1 draft step at" in sentences[0]
    assert "(0.500 at position 1), a round gives 1.50" in sentences[1]
    assert "by 0.00, and sampling noise by 0.00:" in sentences[2]


@pytest.mark.parametrize(("spelling", "alpha", "tokens"), [("aaa", 1.0, 4), ("rdd", 0.0, 1)])
def test_all_or_nothing_at_temperature_0(spelling: str, alpha: float, tokens: int) -> None:
    rounds = [round_of(spelling, (alpha,) * 3, expected=alpha) for _ in range(2)]
    passes = Passes(target=[[0.01] * 2 * tokens], speculative=[[0.02] * 2])
    config = RunConfig(gamma=3, temperature=0.0)
    trace = by_hand(rounds, config=config, step_costs=make_costs(), baseline=passes)
    assert levels(trace)[:3] == [close(tokens / 1.3)] * 3
    assert levels(trace)[3:5] == [close(tokens / 1.6)] * 2
    assert levels(trace)[5:] == [close(tokens / 2)] * 2
    assert "temperature 0 has no draws" in of(trace).steps[2].words


def test_verification_is_extrapolated_beyond_the_table() -> None:
    rounds = [round_of("a" * 64, (1.0,) * 64, expected=1.0)]
    passes = Passes(target=[[0.01] * 65], speculative=[[0.2]])
    trace = by_hand(rounds, config=RunConfig(gamma=64), step_costs=make_costs(), baseline=passes)
    assert levels(trace)[3] == close(65 / (6.4 + 7.4))


def test_discarded_odds_count_and_missing_positions_do_not() -> None:
    rounds = [round_of("aaa", (0.5, 0.5, 1.0)), round_of("rd", (0.5, 0.5))]
    passes = Passes(target=[[0.01] * 5], speculative=[[0.02] * 2])
    config = RunConfig(gamma=3)
    trace = by_hand(rounds, config=config, step_costs=make_costs(), baseline=passes)
    assert levels(trace)[1] == close((1 + 0.5 + 0.25 + 0.25) / 1.3)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"config": RunConfig(gamma=2, rule="over-accept")}, "one chain under the lossless rule"),
        ({"config": replace(LOOKUP, gamma=2)}, "prompt lookup, rounds vary in length"),
        ({"rounds": ROUNDS[3:]}, "no whole round"),
        ({"rounds": (make_round(""),)}, "No candidate was tested"),
        ({"baseline": None}, "not timed"),
        ({"step_costs": None}, "No step costs"),
        ({"step_costs": replace(FLAT, draft=())}, "no draft step"),
        ({"step_costs": replace(FLAT, target=FLAT.target[:2])}, "verification of 3 tokens"),
    ],
)
def test_gives_the_reason_for_a_missing_waterfall(fields: dict[str, Any], why: str) -> None:
    trace = by_hand(**fields)
    reason = why_no_waterfall(trace, metrics(trace))
    assert reason is not None
    assert why in reason
    assert waterfall(trace, metrics(trace)) is None


def test_rejects_a_negative_extrapolated_time() -> None:
    falling = replace(make_costs(), target=((1.0,) * 3,) * 9 + ((0.1,) * 3,) * 8)
    rounds = [round_of("a" * 64, (1.0,) * 64, expected=1.0)]
    passes = Passes(target=[[0.01] * 65], speculative=[[0.2]])
    config = RunConfig(gamma=64)
    trace = by_hand(rounds, config=config, step_costs=falling, baseline=passes)
    assert "negative verification time" in (why_no_waterfall(trace, metrics(trace)) or "")


def test_a_table_with_one_row_of_draft_steps() -> None:
    assert levels(by_hand(step_costs=replace(FLAT, draft=FLAT.draft[:1])))[4] == close(2 / 1.55)


def test_it_is_json() -> None:
    found = of(by_hand())
    read = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert [each["name"] for each in read["steps"]] == list(NAMES)
    assert read["steps"][3]["speedup"] == found.steps[3].speedup


# Any run


@st.composite
def runs(draw: st.DrawFn) -> Trace:
    """Draw runs that have a waterfall, with any odds, costs and times."""
    gamma = draw(st.integers(1, 64))
    accepted = draw(st.lists(st.integers(0, gamma), min_size=1, max_size=4))
    odds = st.lists(st.floats(0, 1), min_size=gamma, max_size=gamma)
    rounds = [
        round_of(
            "a" * count + "r" * (count < gamma) + "d" * (gamma - count - 1),
            draw(odds),
            expected=draw(st.floats(0, 1)),
            draft_catch_up=draw(st.integers(1, 2)),
        )
        for count in accepted
    ]
    row = st.lists(SECONDS_A_STEP, min_size=2, max_size=2).map(tuple)
    rising = sorted(draw(SECONDS_A_STEP) for _ in range(17))
    costs = StepCosts(
        contexts=(4, 40),
        draft=(draw(row), draw(row)),
        target=tuple((each, each) for each in rising),
        draft_next=draw(st.just(()) | row),
    )
    tokens = sum(len(entry.emitted) for entry in rounds)
    passes = Passes(
        target=[[draw(SECONDS_A_STEP)] * tokens], speculative=[[draw(SECONDS_A_STEP)] * len(rounds)]
    )
    config = RunConfig(gamma=gamma, temperature=draw(st.sampled_from([0.0, 0.7])))
    return make_trace(rounds, config=config, step_costs=costs, baseline=passes)


@settings(deadline=None, max_examples=100)
@given(trace=runs())
def test_changes_add_up_to_the_observed_speedup(trace: Trace) -> None:
    figures = metrics(trace, intervals=False)
    found = waterfall(trace, figures)
    assert found is not None
    steps, observed = found.steps, figures.speedup_observed
    assert observed is not None
    widest = max(each.speedup for each in steps)
    total = steps[0].speedup + sum(each.change for each in steps)
    assert total == pytest.approx(observed, abs=1e-9 * max(1.0, widest))
    slowest = max(each.ms_a_token for each in steps)
    seconds = figures.seconds or 0.0
    total_ms = steps[0].ms_a_token + sum(each.change_ms for each in steps)
    ours = 1000 * seconds / figures.num_tokens
    assert total_ms == pytest.approx(ours, abs=1e-9 * max(1.0, slowest))
    json.dumps(found.as_dict(), allow_nan=False)


@settings(deadline=None, max_examples=100)
@given(trace=traces())
def test_there_is_a_waterfall_or_a_reason(trace: Trace) -> None:
    figures = metrics(trace, intervals=False)
    assert (waterfall(trace, figures) is None) == (why_no_waterfall(trace, figures) is not None)
