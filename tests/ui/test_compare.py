"""The Compare page without a browser: its lanes, its link, what it refuses, a real comparison."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from specviz.comparison import Comparison
from specviz.comparison.plan import Lane, parse_lane, plan_from_json
from specviz.comparison.unfinished import note, noted
from specviz.engine import load_pair
from specviz.measure.step_costs import costs_key
from specviz.record.drafters import DrafterName
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.store import Library, save_value
from specviz.ui.compare.lanes import Cards, lane_text
from specviz.ui.compare.words import first_sentence
from specviz.ui.session.work import the_work
from specviz.ui.session.worker import the_worker
from tests.traces import make_costs
from tests.ui.paging import opened, sent, sound
from tests.ui.theory_pages import LIMIT_MS, charts, median_ms, words

DEFAULT = Lane(spec=PairSpec(), config=RunConfig())


@pytest.fixture(scope="module")
def costs_known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder that has step costs, whatever the number of threads: none are measured."""
    folder = tmp_path_factory.mktemp("compare")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(folder))
        pair = load_pair(PairSpec(name="tinystories", threads=1))
        for threads in (1, 2):
            pair.environment = replace(pair.environment, threads=threads)
            for drafter in get_args(DrafterName):
                key = costs_key(pair, RunConfig(drafter=drafter))
                assert save_value("step-costs", key, make_costs())
    return folder


@pytest.fixture
def prepared(costs_known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(costs_known))


def compare_page(*lanes: str, **link: str) -> AppTest:
    app = opened()
    app.switch_page("pages/compare.py")
    if lanes:
        app.query_params["lane"] = list(lanes)
    for key, value in link.items():
        app.query_params[key] = value
    return sound(app.run())


def lanes_of(app: AppTest) -> list[Lane]:
    return [card.lane for card in app.session_state["compare cards"].cards]


def linked(app: AppTest) -> list[str]:
    return list(app.query_params["lane"])


def test_it_opens_with_gamma_2_against_gamma_8_and_runs_nothing() -> None:
    app = compare_page()
    assert [(lane.config.gamma, lane.spec.embedded) for lane in lanes_of(app)] == [
        (2, True),
        (8, True),
    ]
    assert linked(app) == ["gamma=2", "gamma=8"]
    assert the_work().works == ()
    assert not app.get("bidi_component")


def test_the_link_sets_the_lanes_and_what_they_share() -> None:
    asked = ["gamma=3,temperature=0.3,name=cool", "drafter=prompt-lookup", "gamma=4,top_k=40"]
    app = compare_page(*asked, compare_length="32", compare_repeats="2")
    found = lanes_of(app)
    assert [lane.config.gamma for lane in found] == [3, 5, 4]
    assert (found[0].config.temperature, found[0].name) == (0.3, "cool")
    assert (found[1].config.drafter, found[2].config.top_k) == ("prompt-lookup", 40)
    assert app.slider(key="compare_length").value == 32
    assert app.slider(key="compare_repeats").value == 2
    again = compare_page(*linked(app))
    assert lanes_of(again) == found


@pytest.mark.parametrize(
    "lane",
    [
        Lane(spec=PairSpec(), config=RunConfig()),
        Lane(spec=PairSpec(name="tinystories"), config=RunConfig(gamma=7, top_p=0.9), name="a b"),
        Lane(spec=PairSpec(target="t", draft="d"), config=RunConfig(temperature=0.0)),
        Lane(spec=PairSpec(target="t"), config=RunConfig(drafter="prompt-lookup")),
        Lane(
            spec=PairSpec(),
            config=RunConfig(rule="over-accept", epsilon=0.1, residual="target"),
        ),
    ],
)
def test_a_lane_survives_its_text(lane: Lane) -> None:
    assert parse_lane(lane_text(lane), DEFAULT) == lane


def test_a_folder_with_commas_comes_back_from_the_link() -> None:
    spec = PairSpec(target="/models/a,gamma=9", draft="/models/50%2C,b=c")
    lane = Lane(spec=spec, config=RunConfig(gamma=2), name="a, b = 100%")
    assert parse_lane(lane_text(lane), DEFAULT) == lane


def test_bad_lanes_of_the_link_are_said_and_left_out() -> None:
    app = compare_page("gamma=6", "![x](//evil.example/x.png)=1", "colour=red", "gamma=0")
    assert len(app.warning) == 3
    assert all("left out" in each.value for each in app.warning)
    assert "![" not in app.warning[0].value  # what a link says is no markup
    assert [lane.config.gamma for lane in lanes_of(app)] == [6, 2]


@pytest.mark.parametrize(
    "bad",
    ["gamma=two", "nonsense", "temperature=-1", "temperature=nan", "", "gamma=1,gamma=2",
     "target=only", "epsilon=0.5", "pair=a,target=b", "seed=-1", "name=\u202e", "=" * 10_000],
)  # fmt: skip
def test_what_is_no_lane_is_refused_in_a_line(bad: str) -> None:
    cards = Cards()
    cards.take(["gamma=6", bad], PairSpec())
    assert len(cards.refused) == 1
    assert len(cards.refused[0]) < 300
    assert [lane.config.gamma for lane in cards.lanes] == [6, 2]


def test_a_fifth_lane_of_the_link_is_left_out() -> None:
    cards = Cards()
    cards.take([f"gamma={gamma}" for gamma in range(1, 7)], PairSpec())
    assert [lane.config.gamma for lane in cards.lanes] == [1, 2, 3, 4]
    assert cards.refused == ["At most 4 lanes: the others are left out."]


def test_values_that_the_sliders_do_not_reach_are_brought_to_their_ends() -> None:
    app = compare_page("gamma=64,temperature=50,top_p=0.01", "gamma=1,top_k=10000000")
    first, second = lanes_of(app)
    assert (first.config.gamma, first.config.temperature) == (64, 2.0)
    assert (first.config.top_p, second.config.top_k) == (0.05, 10_000_000)
    assert [unescaped(each.value) for each in app.info] == [
        "Lane 1: temperature 50 is beyond this page, so it is 2 here.",
        "Lane 1: top-p 0.01 is beyond this page, so it is 0.05 here.",
    ]
    assert lanes_of(compare_page("temperature=0.333,top_p=0.999"))[0].config.top_p == 0.999


def test_lanes_are_added_changed_and_removed() -> None:
    app = compare_page()
    sound(app.button(key="compare_add").click().run())
    sound(app.button(key="compare_add").click().run())
    assert len({lane_text(lane) for lane in lanes_of(app)}) == 4
    assert app.button(key="compare_add").disabled
    first = app.session_state["compare cards"].cards[0].number
    sound(app.slider(key=f"compare_{first}_gamma").set_value(11).run())
    assert linked(app)[0] == "gamma=11"
    assert "γ 11" in words(app)
    sound(app.button(key=f"compare_remove_{first}").click().run())
    assert linked(app)[0] == "gamma=8"
    assert len(linked(app)) == 3


def test_another_page_and_back_leaves_all_as_it_was() -> None:
    app = compare_page("gamma=3", "gamma=4,top_k=7,name=mine")
    first = app.session_state["compare cards"].cards[0].number
    app.slider(key=f"compare_{first}_gamma").set_value(12)
    sound(app.slider(key="compare_length").set_value(40).run())
    sound(app.text_area(key="compare_prompt").set_value("My own words").run())
    before = lanes_of(app)
    sound(app.switch_page("pages/speed.py").run())
    sound(app.switch_page("pages/compare.py").run())
    assert lanes_of(app) == before
    assert app.slider(key=f"compare_{first}_gamma").value == 12
    assert app.slider(key="compare_length").value == 40
    assert app.text_area(key="compare_prompt").value == "My own words"
    assert app.selectbox(key="compare_preset").value == "my own words"
    assert linked(app) == ["gamma=12", "gamma=4,top_k=7,name=mine"]


def test_lanes_of_another_page_are_taken_over() -> None:
    app = compare_page("gamma=3", "gamma=4")
    app.session_state["compare_lanes"] = ["gamma=9,temperature=1.0"]
    sound(app.run())
    assert [lane.config.gamma for lane in lanes_of(app)] == [9, 2]
    assert "compare_lanes" not in app.session_state


def test_two_lanes_alike_and_an_empty_prompt_are_refused_in_a_line() -> None:
    app = compare_page("gamma=3", "gamma=3")
    sound(app.button(key="compare_start_prompt").click().run())
    assert [each.value for each in app.error] == [
        "Two lanes are the same. Change one of them, or remove it."
    ]
    app.text_area(key="compare_prompt").set_value("  ")
    sound(app.button(key="compare_start_prompt").click().run())
    assert app.error[0].value == "The prompt is empty. Write a few words, or choose a preset."
    assert the_work().works == ()


HOSTILE = {
    "no JSON": b"prompt: hello\n",
    "an array": b'["prompt"]\n',
    "no prompt": b'{"kind": "story"}\n',
    "an unknown field": b'{"prompt": "a", "script": "x"}\n',
    "deeply nested": b"[" * 100_000,
    "not text": b"\xff\xfe\x00{",
    "a number": b'{"prompt": 3}\n',
    "empty": b"\n\n",
    "half a surrogate": b'{"prompt": "\\ud800"}\n',
}


def test_hostile_suites_are_refused_in_words() -> None:
    app = compare_page()
    sound(app.segmented_control(key="compare_suite_source").set_value("A file of mine").run())
    for name, content in HOSTILE.items():
        app.file_uploader(key="compare_suite_file").set_value(
            ("![x](y).jsonl", content, "text/plain")
        )
        sound(app.run())
        assert len(app.error) == 1, name
        assert "![" not in app.error[0].value
    sound(app.button(key="compare_start_suite").click().run())
    assert app.error[-1].value == "There are no prompts. Choose a file, or the presets."
    assert the_work().works == ()


def test_a_suite_of_ones_own_is_planned() -> None:
    app = compare_page()
    sound(app.segmented_control(key="compare_suite_source").set_value("A file of mine").run())
    lines = b'{"prompt": "One day", "kind": "<script>alert(1)</script>"}\n{"prompt": "Tom"}\n'
    app.file_uploader(key="compare_suite_file").set_value(("mine.jsonl", lines, "text/plain"))
    sound(app.run())
    assert not app.error
    assert "4 runs of 64 tokens: 2 lanes × 2 prompts × 1 repeat" in words(app)


def test_a_slider_is_answered_in_time() -> None:
    app = compare_page()
    number = app.session_state["compare cards"].cards[0].number

    def change(page: AppTest, turn: int) -> None:
        page.slider(key=f"compare_{number}_gamma").set_value(3 + turn)

    spent = median_ms(app, change)
    print(f"a rerun takes {spent:.0f} ms (bound {LIMIT_MS})")
    assert spent < LIMIT_MS


def test_from_click_to_verdict_then_from_what_is_kept_then_by_kind(prepared: None) -> None:
    link: dict[str, str] = {"compare_length": "24", "compare_repeats": "2"}
    app = compare_page("gamma=2", "gamma=8", **link)
    sound(app.button(key="compare_start_prompt").click().run())
    work = until_over(app, "prompt")
    assert (work.state, work.progress, work.found) == ("done", (4, 4), 0)
    comparison = work.comparison
    assert comparison.verdict.text.split(". ")[0].strip(".") in unescaped(words(app))
    assert [lane.count for lane in comparison.lanes] == [2, 2]
    race = sent(app)["race"]
    assert [lane["label"] for lane in race["lanes"]] == ["γ 2", "γ 8"]
    drawn = charts(app)
    points = {each["name"]: each for each in drawn["compare_gamma_prompt"]["data"]}
    for lane in comparison.lanes:
        assert lane.speedup_ratio is not None
        assert list(points[lane.label]["y"]) == [pytest.approx(lane.speedup_ratio.value)]
    told = json.loads(app.session_state["compare findings"]["prompt"].json())
    assert told["verdict"]["text"] == comparison.verdict.text
    assert [lane["label"] for lane in told["lanes"]] == ["γ 2", "γ 8"]
    sound(app.slider(key="compare_length").set_value(32).run())
    assert "The settings have changed since" in words(app)
    kept = compare_page("gamma=2", "gamma=8", **link)  # another session
    sound(kept.button(key="compare_start_prompt").click().run())
    again = until_over(kept, "prompt")
    assert (again.state, again.found) == ("done", 4)
    assert again.comparison.verdict == comparison.verdict
    assert "4 runs were there from before" in words(kept)
    by_kind = compare_by_kind({"compare_length": "16", "compare_tab": "By kind"})
    found_again(by_kind, comparison)


@pytest.mark.usefixtures("prepared")
def test_it_goes_on_when_its_page_is_left_and_every_tab_sees_it() -> None:
    link: dict[str, str] = {"compare_length": "24", "compare_repeats": "2"}
    app = compare_page("gamma=3", "gamma=7", **link)
    sound(app.button(key="compare_start_prompt").click().run())
    work: Any = the_work().newest("prompt")
    left = sound(app.switch_page("pages/runs.py").run())
    assert any("γ 3 against γ 7" in each.value for each in left.caption)
    other = compare_page()  # another tab, or the same one after a reload
    assert other.button(key="work_stop")
    assert any("It goes on when this page is left" in each.value for each in other.caption)
    assert work.wait(120)  # no page looks meanwhile
    assert work.state == "done"
    for page in (sound(other.run()), sound(app.switch_page("pages/compare.py").run())):
        assert work.comparison.verdict.text.split(". ")[0].strip(".") in unescaped(words(page))
    assert noted() == ()


@pytest.mark.usefixtures("prepared")
def test_what_was_under_way_when_the_server_ended_can_be_gone_on_with() -> None:
    link: dict[str, str] = {"compare_length": "24", "compare_repeats": "2"}
    app = compare_page("gamma=1", "gamma=6", **link)
    sound(app.button(key="compare_start_prompt").click().run())
    first: Any = the_work().newest("prompt")
    deadline = time.monotonic() + 120
    while first.progress[0] < 1:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    the_worker().close()  # as when the server ends
    assert first.wait(60)
    assert (first.state, first.was_stopped) == ("stopped", False)
    st.cache_resource.clear()
    app = compare_page()
    key = first.plan.key
    assert any("was under way when the dashboard ended" in each.value for each in app.markdown)
    sound(app.button(key=f"go_on_{key}").click().run())
    again = until_over(app, "prompt")
    assert (again.state, again.found >= 1, again.progress) == ("done", True, (4, 4))
    assert noted() == ()
    note("prompt", first.plan)
    app = compare_page()
    sound(app.button(key=f"let_go_{key}").click().run())
    assert noted() == ()


def compare_by_kind(link: dict[str, str]) -> Comparison:
    app = compare_page("gamma=2", "drafter=prompt-lookup", **link)
    sound(app.segmented_control(key="compare_suite_source").set_value("A file of mine").run())
    lines = '{"prompt": "One day a cat", "kind": "<b>x</b>"}\n{"prompt": "Tom had a ball"}\n'
    app.file_uploader(key="compare_suite_file").set_value(("m.jsonl", lines.encode(), "text/plain"))
    sound(app.run())
    sound(app.button(key="compare_start_suite").click().run())
    work = until_over(app, "suite")
    kinds = work.comparison.kinds
    assert [each.kind for each in kinds] == ["<b>x</b>", None]
    assert len(app.table) == 2  # the figures, and those by kind
    assert sent(app)["race"]["lanes"]
    drawn = charts(app)["compare_kind_speeds_suite"]["data"]
    for lane, points in enumerate(drawn):
        wanted = [each.lanes[lane].speedup_ratio.value for each in kinds]
        assert list(points["y"]) == pytest.approx(wanted)
    assert "<b>" not in json.dumps(drawn)
    assert not any(each.trace.config.record for each in work.measured)
    replay = app.session_state["compare findings"]["suite"].replay(1)
    assert "race on prompt 2 of 2" in replay
    return work.comparison


def found_again(*made: Comparison) -> None:
    """Those of the library, newest first, in a session that made none of them."""
    rows = Library().comparisons()
    assert [plan_from_json(row.plan_json).lanes for row in rows] == [c.plan.lanes for c in made]
    app = compare_page(compare_tab="Kept")
    for row, comparison in zip(rows, made, strict=True):
        sound(app.selectbox(key="compare_kept").set_value(row.key).run())
        assert app.query_params["kept"] == row.key
        found = app.session_state["compare kept"][1]
        assert found.comparison == comparison
        assert [lane["label"] for lane in sent(app)["race"]["lanes"]] == found.labels
        assert first_sentence(comparison.verdict.text) in unescaped(words(app))
    linked = compare_page(compare_tab="Kept", kept=rows[1].key)
    assert linked.session_state["compare kept"][1].comparison == made[1]
    gone_on_from(linked, rows[1].key, made[1])
    sound(app.selectbox(key="compare_kept").set_value(rows[0].key).run())
    assert "Its prompts came from a file" in app.button(key="compare_kept_use").help
    sound(app.button(key="compare_kept_use").click().run())
    assert app.session_state["compare_tab"] == "By kind"
    assert app.segmented_control(key="compare_suite_source").value == "A file of mine"
    assert [lane.config.drafter for lane in lanes_of(app)] == ["model", "prompt-lookup"]


def gone_on_from(app: AppTest, key: str, comparison: Comparison) -> None:
    """An open one without one of its runs; then its settings, in the controls."""
    plan = comparison.plan
    assert not app.info
    assert "T 0.7 · seeds 0–1 · 24 tokens · 2 repeats" in unescaped(words(app))
    assert not [each.key for each in app.slider if "gamma" in str(each.key)]
    Library().delete([Library().comparison_jobs(key)[0, 0, 0]])
    sound(app.run())
    assert app.info[0].value.startswith("1 of 4 runs is missing or deleted.")
    assert "Only one pair of runs with the same seed" in unescaped(words(app))
    app.slider(key="compare_repeats").set_value(7)
    sound(app.text_area(key="compare_prompt").set_value("Other words").run())
    sound(app.button(key="compare_kept_use").click().run())
    assert app.session_state["compare_tab"] == "One prompt"
    assert linked(app) == ["gamma=2", "gamma=8"]
    assert app.text_area(key="compare_prompt").value == plan.items[0].prompt
    assert app.slider(key="compare_repeats").value == 2
    assert app.slider(key="compare_length").value == 24
    assert "4 runs of 24 tokens: 2 lanes × 2 repeats" in words(app)


def until_over(app: AppTest, name: str, seconds: float = 120) -> Any:
    """What the ticks of the page would do."""
    deadline = time.monotonic() + seconds
    work: Any = the_work().newest(name)
    while work.going:
        assert time.monotonic() < deadline, work.doing
        time.sleep(0.3)
        sound(app.run())
    sound(app.run())
    assert work.error is None
    return work


def unescaped(text: str) -> str:
    return text.replace("\\", "")
