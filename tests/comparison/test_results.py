"""Comparisons of synthetic runs: figures, verdicts, kinds and JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from specviz.comparison import (
    Comparison,
    LaneRun,
    basis,
    compare,
    comparison_to_json,
    is_whole,
)
from specviz.comparison.plan import Lane, Plan, PlannedRun, SuiteItem
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.theory.student import t_quantile
from tests.comparison.synthetic import costs, make_plan, run_of, runs_of, with_target

WOBBLE = (1.0, 1.01, 0.99)


def wobbling(job: PlannedRun, **by_lane: Any) -> dict[str, Any]:
    """Return round times of a lane that vary a little with repeat and lane."""
    seconds = by_lane["seconds"][job.lane]
    return {"seconds": seconds * (WOBBLE[(job.repeat + job.lane) % 3])}


def compared(*seconds: float, **settings: Any) -> Comparison:
    plan = make_plan(*range(2, 2 + len(seconds)), **settings)
    return compare(plan, runs_of(plan, lambda job: wobbling(job, seconds=seconds)))


def test_every_figure_has_its_median_and_spread() -> None:
    found = compared(0.02, 0.03)
    lane = found.lanes[0]
    assert (lane.label, lane.count) == ("γ 2", 3)
    assert lane.tokens_per_second is not None
    # Six tokens in three rounds: 2 accepted and a bonus, 1 and 0 accepted and a recovered one.
    assert lane.tokens_per_second.median == pytest.approx(6 / 0.06)
    assert lane.tokens_per_second.high == pytest.approx(6 / 0.06 / 0.99)
    assert lane.speedup is not None
    assert lane.speedup.median == pytest.approx(1.0)
    assert lane.memory_bytes is not None
    assert lane.memory_bytes.median == 100
    assert lane.representative is not None
    assert lane.representative.job.repeat == 0
    assert lane.alpha is not None
    assert lane.alpha.value == pytest.approx(3 / 5)
    assert found.target is not None
    assert (found.target.label, found.target.count) == ("toy-target", 6)
    assert found.target.tokens_per_second is not None
    assert found.target.tokens_per_second.median == pytest.approx(100)
    assert found.complete


def test_the_faster_lane_is_named_with_its_interval() -> None:
    verdict = compared(0.03, 0.02).verdict
    assert (verdict.winner, verdict.ranking, verdict.same_question) == (1, (1, 0), True)
    assert verdict.text.startswith("γ 3 is faster than γ 2 by a factor of 1.50 (")
    assert "over 3 repeats" in verdict.text
    assert compared(0.024, 0.02).verdict.text.startswith("γ 3 is faster than γ 2 by 20.0 % (")
    assert verdict.ratios[1, 0].value == pytest.approx(1.5)
    sentence = (
        "γ 2: slower than the target alone: 0.67 times its speed (0.65 to 0.68, over 3 repeats)."
    )
    assert sentence in verdict.text


def test_equal_lanes_show_no_difference() -> None:
    verdict = compared(0.02, 0.02).verdict
    assert verdict.winner is None
    assert verdict.text.startswith("γ 2: as fast as γ 3 (0.96 to 1.04 times, over 3 repeats).")
    assert "γ 3: as fast as the target alone (" in verdict.text
    assert "would narrow the interval" not in verdict.text
    few = compared(0.02, 0.02, repeats=2).verdict
    assert ". More repeats would narrow the interval. " in few.text
    assert "over 2 repeats" in few.text


def test_one_repeat_has_the_interval_of_its_timing() -> None:
    plan = make_plan(2, 3, repeats=1)
    found = compare(
        plan, runs_of(plan, lambda job: {"seconds": (0.03, 0.02)[job.lane], "wobble": 0.01})
    )
    own = found.lanes[0].speedup_ratio
    assert own is not None
    assert own.low is not None
    assert own.high is not None
    assert (own.over, own.count) == ("timing", 1)
    lead = found.verdict.ratios[1, 0]
    assert lead.low is not None
    assert lead.over == "timing"
    error = math.log(own.high / own.low) / 2
    assert math.log(lead.value / lead.low) == pytest.approx(math.hypot(error, error))
    assert found.verdict.winner == 1
    assert found.verdict.text.startswith("γ 3 is faster than γ 2 by ")
    assert "one text each, 1 timed slice)" in found.verdict.text
    bare = compared(0.03, 0.02, repeats=1, baseline=False)
    assert bare.verdict.winner is None
    assert bare.verdict.text.startswith(
        "One run of each lane gives no interval, so there is no verdict."
    )


def test_intervals_of_three_lanes_are_adjusted() -> None:
    """The joint confidence of all three is 95 %."""
    two, three = compared(0.03, 0.02), compared(0.03, 0.02, 0.04)
    one, other = two.ratios[1, 0], three.ratios[1, 0]
    assert one.low is not None
    assert other.low is not None
    assert other.low < one.low
    quantiles = t_quantile(1 - 0.025 / 3, 2) / t_quantile(0.975, 2)
    assert math.log(other.value / other.low) == pytest.approx(
        quantiles * math.log(one.value / one.low)
    )
    assert "adjusted for 3 simultaneous comparisons" in three.verdict.text
    assert "widened" not in two.verdict.text


def test_one_pair_of_runs_with_the_same_seed_gives_no_verdict() -> None:
    plan = make_plan(2, 8, repeats=2)
    runs = runs_of(plan, lambda job: wobbling(job, seconds=(0.02, 0.03)))
    text = compare(plan, runs[1:]).verdict.text
    assert text.startswith(
        "One pair of runs with the same seed gives no interval, so there is no verdict."
    )


def test_the_best_of_three_lanes_is_compared_with_the_second() -> None:
    verdict = compared(0.03, 0.02, 0.04).verdict
    assert (verdict.winner, verdict.ranking) == (1, (1, 0, 2))
    assert verdict.text.startswith("γ 3 is fastest, ahead of γ 2 by a factor of 1.50 (")
    assert "In order of mean rate: γ 3, γ 2, γ 4." in verdict.text
    assert len(verdict.ratios) == 6


@pytest.mark.parametrize("count", [0, 1, 3])
def test_an_incomplete_comparison_has_no_verdict(count: int) -> None:
    plan = make_plan(2, 8)
    runs = [run_of(plan, job) for job in plan.runs()[:count]]
    found = compare(plan, runs)
    assert (found.count, found.complete) == (count, False)
    assert found.verdict.winner is None
    assert "no verdict" in found.verdict.text
    assert json.dumps(comparison_to_json(found), allow_nan=False)


def test_of_two_runs_for_one_job_the_last_counts() -> None:
    plan = make_plan(2, 8)
    runs = [run_of(plan, job) for job in plan.runs()]
    found = compare(plan, [run_of(plan, plan.runs()[0], seconds=9.0), *runs])
    assert found.count == 6
    assert found.lanes[0].tokens_per_second is not None
    assert found.lanes[0].tokens_per_second.low == pytest.approx(100)


def test_drift_between_runs_does_not_matter() -> None:
    """Each run is compared with its own target alone; here all get slower over time."""
    plan = make_plan(2, 8)
    found = compare(
        plan,
        runs_of(
            plan,
            lambda job: {
                "seconds": (0.02, 0.0202)[job.lane] * (1 + job.repeat + job.lane),
                "step": 0.01 * (1 + job.repeat + job.lane),
            },
        ),
    )
    lead = found.ratios[0, 1]
    assert (lead.low, lead.value, lead.high) == pytest.approx((1.01, 1.01, 1.01))
    assert found.verdict.winner == 0


def test_a_missing_target_alone_is_reported() -> None:
    found = compared(0.02, 0.03, baseline=False)
    assert found.target is None
    assert "The target alone was not measured." in found.verdict.text


def test_different_targets_are_noted() -> None:
    plan = make_plan(2, 8)
    runs = runs_of(plan, lambda job: wobbling(job, seconds=(0.02, 0.03)))
    other = [
        replace(run, trace=with_target(run.trace, "big")) if run.job.lane else run for run in runs
    ]
    verdict = compare(plan, other).verdict
    assert not verdict.same_question
    assert "different targets" in verdict.text


def test_different_sampling_and_lossy_rules_are_noted() -> None:
    lossless = Lane(spec=PairSpec(), config=RunConfig(gamma=2))
    for changes in ({"temperature": 0.0}, {"rule": "over-accept", "epsilon": 0.1}):
        other = Lane(spec=PairSpec(), config=replace(lossless.config, **changes))
        plan = Plan(lanes=(lossless, other), items=(SuiteItem(prompt="Once"),), repeats=2)
        verdict = compare(plan, [run_of(plan, job) for job in plan.runs()]).verdict
        assert verdict.same_question
        assert "texts have different distributions" in verdict.text


# Why


def reasoned(first: dict[str, Any], second: dict[str, Any], *gammas: int) -> str:
    """Return the verdict of two lanes with the given fields."""
    plan = make_plan(*gammas)
    found = compare(
        plan,
        runs_of(plan, lambda job: wobbling(job, seconds=(0.02, 0.03)) | (first, second)[job.lane]),
    )
    return found.verdict.text.split("target alone")[0]


def test_a_cheaper_draft_that_is_accepted_less() -> None:
    text = reasoned(
        {"step_costs": costs(c=0.2, v=1.0), "rounds": ["aar", "aar", "ard"]},
        {"step_costs": costs(c=0.42, v=1.0), "rounds": ["aar", "aar", "aar"]},
        3,
        3,
    )
    assert (
        "its draft is 2.10 times cheaper, though its draft is accepted less, 0.625 against 0.667."
        in text
    )


def test_fewer_tokens_drafted_and_verified() -> None:
    text = reasoned(
        {"step_costs": costs(c=0.2, v=1.1), "rounds": ["aa", "ar"]},
        {"step_costs": costs(c=0.2, v=1.6), "rounds": ["aaaarddd", "ardddddd"]},
        2,
        8,
    )
    assert "drafting costs 0.40 target steps per round against 1.60" in text
    assert "verification costs 1.10 target steps against 1.60" in text
    assert "though it emits fewer tokens per round, 2.50 against 3.50" in text


def test_prompt_lookup_drafts_for_free() -> None:
    plan = make_plan(4, 4)
    lookup = replace(plan.lanes[0], config=replace(plan.lanes[0].config, drafter="prompt-lookup"))
    plan = replace(plan, lanes=(lookup, plan.lanes[1]))
    fields = (
        {"step_costs": costs(c=0.3, v=1.1), "rounds": ["ardd", "aard"]},
        {"step_costs": costs(c=0.3, v=1.1), "rounds": ["aaar", "aard"]},
    )
    text = compare(
        plan,
        runs_of(plan, lambda job: wobbling(job, seconds=(0.01, 0.03)) | fields[job.lane]),
    ).verdict.text
    assert text.startswith("prompt lookup is faster than draft model by a factor of 2.14 (")
    assert ": drafting is free, against 1.20 target steps per round, though its lookup" in text


def test_figures_that_do_not_explain_the_difference_are_reported() -> None:
    same = {"step_costs": costs(c=0.2, v=1.1)}
    assert "acceptance and step costs do not explain the difference." in reasoned(same, same, 2, 2)


# Kinds


def test_each_kind_has_its_own_intervals() -> None:
    items = [
        SuiteItem(prompt=f"{kind} {i}", kind=kind) for kind in ("code", "story") for i in (1, 2)
    ]
    plan = make_plan(2, 3, items=items)

    def fields(job: PlannedRun) -> dict[str, Any]:
        slower = 2.0 if plan.items[job.item].kind == "code" and job.lane else 1.0
        return {"seconds": 0.02 * slower * WOBBLE[(job.repeat + job.item + job.lane) % 3]}

    found = compare(plan, runs_of(plan, fields))
    assert [(each.kind, each.num_prompts) for each in found.kinds] == [("code", 2), ("story", 2)]
    code, story = (each.over_first[1] for each in found.kinds)
    assert code is not None
    assert story is not None
    assert (code.over, code.count) == ("prompts", 2)
    assert code.value == pytest.approx(0.5, rel=0.02)
    assert story.value == pytest.approx(1.0, rel=0.02)
    assert found.verdict.ratios[0, 1].over == "prompts"
    assert found.verdict.ratios[0, 1].count == 4


def test_one_kind_needs_no_table() -> None:
    assert compared(0.02, 0.03).kinds == ()


def test_the_json_has_lanes_and_verdict() -> None:
    found = compared(0.03, 0.02)
    record = json.loads(json.dumps(comparison_to_json(found), allow_nan=False))
    assert [lane["label"] for lane in record["lanes"]] == ["γ 2", "γ 3"]
    first = record["lanes"][0]
    assert first["settings"]["gamma"] == 2
    assert first["medians"]["speedup"] == pytest.approx(2 / 3)
    assert first["intervals"]["speedup"]["over"] == "seeds"
    assert record["verdict"]["winner"] == "γ 3"
    assert record["verdict"]["ranking"] == ["γ 3", "γ 2"]
    assert record["verdict"]["text"] == found.verdict.text
    assert record["complete"] is True


def test_runs_without_rounds_are_counted_but_have_no_figures() -> None:
    plan = make_plan(2, 8)
    runs: list[LaneRun] = [run_of(plan, job, rounds=()) for job in plan.runs()]
    found = compare(plan, runs)
    assert found.lanes[0].count == 3
    assert found.lanes[0].tokens_per_second is None
    assert "no verdict" in found.verdict.text


def test_a_run_that_was_stopped_or_lacks_the_baseline_is_incomplete() -> None:
    plan = make_plan(2, 8)
    trace = run_of(plan, plan.runs()[0]).trace
    assert is_whole(plan, trace)
    assert not is_whole(plan, replace(trace, finish="stopped"))
    assert not is_whole(plan, replace(trace, baseline=None))
    assert is_whole(replace(plan, baseline=False), replace(trace, baseline=None))


# Several devices


def on(run: LaneRun, place: str, name: str = "GPU A", threads: int = 1) -> LaneRun:
    environment = replace(
        run.trace.environment, place=place, device_name=name, cpu="CPU", threads=threads
    )
    return replace(run, trace=replace(run.trace, environment=environment))


def spread_out(plan: Plan, slow: float, **fields: Any) -> list[LaneRun]:
    """Return runs with every other prompt on another kind of device.

    Its target alone is ``slow`` times slower but its rounds are not, so its speedups are larger.
    """
    made = list[LaneRun]()
    for job in plan.runs():
        other = job.item % 2 == 1
        seconds = (0.02, 0.025)[job.lane] * WOBBLE[job.item % 3] * (1 + job.lane * job.item / 500)
        run = run_of(plan, job, seconds=seconds, step=0.01 * (slow if other else 1), **fields)
        made.append(on(run, "11" if other else "00", "GPU B" if other else "GPU A"))
    return made


def test_ratios_but_not_times_are_pooled_across_kinds_of_machine() -> None:
    items = [SuiteItem(prompt=f"{number}") for number in range(8)]
    plan = make_plan(2, 3, items=items, repeats=1)
    found = compare(plan, spread_out(plan, slow=3.0))
    lane = found.lanes[0]
    assert (lane.tokens_per_second, lane.target_tokens_per_second, lane.c) == (None, None, None)
    assert found.target is not None
    assert found.target.tokens_per_second is None
    assert lane.alpha is not None
    assert lane.alpha.value == pytest.approx(3 / 5)
    lead = found.ratios[0, 1]
    assert (lead.over, lead.count) == ("prompts", 8)
    assert lead.value == pytest.approx(1.25, rel=0.02)
    assert lead.low is not None
    assert lead.high is not None
    assert lead.high / lead.low < 1.05  # the threefold difference between kinds is not in it
    assert lane.speedup_ratio is not None
    assert lane.speedup_ratio.value == pytest.approx(math.sqrt(3.0), rel=0.02)
    assert lane.speedup_ratio.low is not None
    assert lane.speedup_ratio.low > 1.6
    assert "2 kinds of machine" in found.verdict.text
    assert "same settings" not in found.verdict.text
    threads = [on(run, "00", threads=each) for each, run in enumerate(runs_of(plan, lambda _: {}))]
    assert "same settings" in compare(plan, threads).verdict.text


def test_the_result_names_the_devices_by_kind() -> None:
    plan = make_plan(2, 3, repeats=3)
    runs = [on(run, "0011"[run.job.repeat]) for run in runs_of(plan, lambda _: {})]
    found = compare(plan, runs)
    (kind,) = comparison_to_json(found)["machines"]
    assert kind == {"device": "GPU A", "cpu": "CPU", "devices": 2, "runs": 6}
    assert basis(found).endswith("made on 2 devices: 2 × GPU A beside CPU.")
    assert found.lanes[0].tokens_per_second is not None  # one kind of machine
    alone = compare(plan, runs_of(plan, lambda _: {}))
    assert basis(alone).endswith("made one at a time.")


def test_concurrent_runs_have_no_times_to_compare() -> None:
    plan = make_plan(2, 3, repeats=3, baseline=False)
    found = compare(plan, [on(run, "00") for run in runs_of(plan, lambda _: {})])
    assert found.verdict.text.startswith("Only acceptance is compared")
    assert (found.verdict.winner, found.ratios) == (None, {})
    assert found.lanes[0].tokens_per_second is None
    assert found.lanes[0].alpha is not None
    assert found.lanes[0].tau is not None
