"""The sections about methods on the real pair: recorded figures and kept runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specviz.comparison import LaneRun
from specviz.comparison.plan import Lane, Plan, PlannedRun, SuiteItem, parse_lane, plan_to_json
from specviz.figures.method_checks import DraftsPoint, joint_deviations
from specviz.measure.run_makers import InProcessMaker, RunOrder
from specviz.record.pairs import PairSpec
from specviz.record.run_config import RunConfig
from specviz.store import Library, NewRun
from specviz.store.saving import summary_of
from specviz.ui.theory.kept_methods import recorded_methods
from specviz.ui.theory.rejections.measured import speed_sentence
from tests.ui.paging import page_of, sound
from tests.ui.theory_pages import charts, unexplained, words

SPEC = PairSpec(name="tinystories", threads=1)
SHORT = RunConfig(gamma=3, temperature=1.0, max_new_tokens=16, ignore_eos=True, record=False)
PAGES = {
    "drafts": ("rejections", {"rejections_tab": "On the real pair"}),
    "blocks": ("bias", {"bias_section": "Whole blocks"}),
    "stops": ("speed", {"speed_tab": "When to stop"}),
}
SECTIONS = {
    "drafts": "rejections_measured", "blocks": "bias_measured", "stops": "speed_stopping",
}  # fmt: skip
LANES = {
    "drafts": [replace(SHORT, num_drafts=number) for number in (1, 3)],
    "blocks": [replace(SHORT, rule="block"), SHORT],
    "stops": [SHORT, replace(SHORT, draft_until="confidence:0.4")],
}


def page(section: str) -> AppTest:
    name, link = PAGES[section]
    return page_of(name, **link)


def marks(figure: Any) -> dict[str, Any]:
    return {each["name"]: each for each in figure["data"]}


def test_recorded_drafts_lie_within_the_joint_band() -> None:
    points = recorded_methods().drafts.found
    of_five = [each for each in points if not each.branching and each.gamma == 5]
    assert [each.num_drafts for each in of_five] == [1, 2, 4, 8]
    wide = joint_deviations(len(points))
    for each in points:
        assert min(each.accepted.variance, each.rejected.variance) > 50
        for count in (each.accepted, each.rejected):
            assert count.z is not None
            assert abs(count.z) < wide
    taus = [each.tau_expected for each in of_five]
    assert taus == sorted(taus)
    assert all(each.speedup is not None for each in points)


def timed(*speedups: float, gamma: int = 3, num_drafts: int = 1) -> DraftsPoint:
    point = recorded_methods().drafts.found[0]
    return replace(
        point, gamma=gamma, num_drafts=num_drafts, num_candidates=gamma * num_drafts,
        speedups=speedups,
    )  # fmt: skip


ALONE = timed(2.0, 1.9, 2.1)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (timed(2.4, 2.3, 2.5, num_drafts=2), "same γ: faster with γ 3 × M 2."),
        (timed(0.8, 0.7, 0.9, num_drafts=4), "same γ: slower with γ 3 × M 4."),
        (timed(2.9, 1.2, 2.2, num_drafts=2), "same γ: undecided with γ 3 × M 2."),
        (timed(0.8, 0.7, 0.9, num_drafts=4), "Slower than the target alone: γ 3 × M 4."),
        (timed(1.5, 1.4, 1.6, gamma=2, num_drafts=2), "2.00 times as fast as the target alone."),
    ],
)  # fmt: skip
def test_speed_sentence_compares_several_drafts_with_one(other: DraftsPoint, expected: str) -> None:
    assert expected in speed_sentence([ALONE, other])
    assert "not timed" in speed_sentence([timed()])


def test_no_recorded_round_is_worse_with_block_verification() -> None:
    check = recorded_methods().blocks.found
    assert len(check.rounds) > 500
    assert all(each.by_block >= each.by_token - 1e-9 for each in check.rounds)
    assert check.by_block > 1.05 * check.by_token
    assert check.z is not None
    assert abs(check.z) < 4


def test_no_recorded_criterion_reaches_the_oracle() -> None:
    found = recorded_methods().stops.found
    assert found.oracle.share == 1.0
    assert all(each.share < 1.0 for each in (*found.counts, *found.unsure, *found.own))
    assert {each.name for each in found.own} == {"confidence:0.4", "cost"}


@pytest.mark.parametrize("section", PAGES)
def test_shows_recorded_runs_without_kept_ones(
    section: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    app = page(section)
    assert "Shipped with specviz, recorded on" in words(app)
    assert "AMD" in words(app)
    assert not unexplained(app)
    assert f"{SECTIONS[section]}_runs" not in {each.key for each in app.selectbox}
    (command,) = [each.value for each in app.code]
    for lane in command.split("--lane ")[1:]:
        parse_lane(lane.split('"')[1], Lane(spec=PairSpec(), config=RunConfig()))


def test_charts_draw_the_recorded_figures() -> None:
    points = recorded_methods().drafts.found
    drawn = charts(page("drafts"))
    shown = marks(drawn["rejections_tau"])
    assert shown["measured"]["y"] == [each.tau for each in points]
    band = shown["expected, joint 99 %"]
    assert band["y"] == [each.tau_expected for each in points]
    half = (
        joint_deviations(len(points))
        * math.sqrt(points[0].accepted.variance)
        / points[0].num_rounds
    )
    assert band["error_y"]["array"][0] == pytest.approx(half)
    reach = marks(charts(page("stops"))["speed_reach"])
    assert len(reach["fixed counts"]["y"]) == 12


def test_button_hands_the_lanes_to_compare() -> None:
    app = page("drafts")
    sound(app.button(key="rejections_measured_make").click().run())
    assert [each["num_drafts"] for each in _settings(app)] == [1, 2, 4, 8]


def _settings(app: AppTest) -> list[dict[str, Any]]:
    lanes = app.query_params["lane"]
    found = [parse_lane(each, Lane(spec=PairSpec(), config=RunConfig())) for each in lanes]
    return [{"num_drafts": each.config.num_drafts} for each in found]


def keep(library: Library, configs: Sequence[RunConfig]) -> Plan:
    """Make a comparison of these lanes and add it to the library."""
    plan = Plan(
        lanes=tuple(Lane(spec=SPEC, config=each) for each in configs),
        items=(SuiteItem(prompt="Once upon a time", kind="story"),),
        repeats=2,
        baseline=False,
    )
    library.begin_comparison(plan.key, plan_to_json(plan), "some *lanes*")
    maker = InProcessMaker(lambda *_: None, costs=False)
    for job in plan.runs():
        order = RunOrder(label="", spec=SPEC, prompt="Once upon a time", config=job.config(plan))
        _keep_run(library, plan, LaneRun(job=job, trace=maker.make(order).trace, memory_bytes=None))
    return plan


def _keep_run(library: Library, plan: Plan, run: LaneRun) -> None:
    job: PlannedRun = run.job
    library.add_together(
        [
            NewRun(
                trace=run.trace,
                summary=summary_of(run.trace, run.figures),
                run_id=f"{plan.key[:8]}-{job.lane}-{job.repeat}",
                comparison=plan.key,
                job=job.key,
            )
        ]
    )


@pytest.mark.parametrize("section", PAGES)
def test_shows_kept_runs_with_a_link_to_each(section: str, data_folder: Any) -> None:
    plan = keep(Library(), LANES[section])
    app = page(section)
    box = app.selectbox(key=f"{SECTIONS[section]}_runs")
    assert box.value == plan.key
    assert "Kept on" in words(app)
    links = [each.proto.query_string for each in app.get("page_link")]
    runs = {f"run={plan.key[:8]}-{lane}-{repeat}" for lane in (0, 1) for repeat in (0, 1)}
    assert runs <= set(links)
    assert any(f"kept={plan.key}" in each for each in links)
    sound(box.set_value("recorded").run())
    assert "Shipped with specviz, recorded on" in words(app)
