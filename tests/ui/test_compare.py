"""The Compare page without a browser: lanes, links and refused input."""

from __future__ import annotations

from dataclasses import replace

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.plan import Lane, Plan, SuiteItem, parse_lane
from specviz.record.pairs import PairSpec
from specviz.record.prompts import CHAT_PROMPTS, PRESETS, SHIPPED_SUITES, typed_suite
from specviz.record.trace import RunConfig
from specviz.ui.compare import expected_time
from specviz.ui.compare.lanes import Cards, lane_text
from specviz.ui.compare.settings import Shared, plan_of, take_settings, unsupported_by_controls
from specviz.ui.session.background_jobs import the_job_queue
from tests.tune.fakes import FakeMaker
from tests.ui.compare_page import compare_page, lanes_of, linked, unescaped
from tests.ui.paging import sent, sound
from tests.ui.theory_pages import LIMIT_MS, median_ms, words

CHAT_KINDS = sorted({str(each.kind) for each in SHIPPED_SUITES[CHAT_PROMPTS]()})
DEFAULT = Lane(spec=PairSpec(), config=RunConfig())


def test_opens_with_gamma_2_and_8_and_starts_no_run() -> None:
    app = compare_page()
    assert [(lane.config.gamma, lane.spec.embedded) for lane in lanes_of(app)] == [
        (2, True),
        (8, True),
    ]
    assert linked(app) == ["gamma=2", "gamma=8"]
    assert the_job_queue().jobs == ()
    assert "Recorded example" in words(app)
    assert len(sent(app)["race"]["lanes"]) == 2  # the race of the recorded comparison


def test_by_kind_opens_with_a_recorded_comparison() -> None:
    app = compare_page(compare_tab="By kind")
    assert "15 prompts of 5 kinds" in words(app)
    assert "By kind of text" in words(app)
    assert the_job_queue().jobs == ()


def test_link_sets_lanes_and_shared_settings() -> None:
    texts = ["gamma=3,temperature=0.3,name=cool", "drafter=prompt-lookup", "gamma=4,top_k=40"]
    app = compare_page(*texts, compare_length="32", compare_repeats="2")
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
def test_lane_text_round_trips(lane: Lane) -> None:
    assert parse_lane(lane_text(lane), DEFAULT) == lane


def test_lane_text_round_trips_a_shared_vocabulary() -> None:
    spec = PairSpec(target="t", draft="d", shared_vocabulary=True)
    lane = Lane(spec=spec, config=RunConfig(gamma=2))
    assert parse_lane(lane_text(lane), DEFAULT) == lane


def test_lane_text_escapes_folders_with_commas() -> None:
    spec = PairSpec(target="/models/a,gamma=9", draft="/models/50%2C,b=c")
    lane = Lane(spec=spec, config=RunConfig(gamma=2), name="a, b = 100%")
    assert parse_lane(lane_text(lane), DEFAULT) == lane


def test_leaves_out_invalid_lanes_of_the_link_with_a_warning() -> None:
    app = compare_page("gamma=6", "![x](//evil.example/x.png)=1", "colour=red", "gamma=0")
    assert len(app.warning) == 3
    assert all("left out" in each.value for each in app.warning)
    assert "![" not in app.warning[0].value  # escaped
    assert [lane.config.gamma for lane in lanes_of(app)] == [6, 2]


@pytest.mark.parametrize(
    "bad",
    ["gamma=two", "nonsense", "temperature=-1", "temperature=nan", "", "gamma=1,gamma=2",
     "target=only", "epsilon=0.5", "pair=a,target=b", "seed=-1", "name=\u202e", "=" * 10_000],
)  # fmt: skip
def test_refuses_an_invalid_lane_with_a_short_error(bad: str) -> None:
    cards = Cards()
    cards.take(["gamma=6", bad], PairSpec())
    assert len(cards.refused) == 1
    assert len(cards.refused[0]) < 300
    assert [lane.config.gamma for lane in cards.lanes] == [6, 2]


def test_leaves_out_the_fifth_lane_of_the_link() -> None:
    cards = Cards()
    cards.take([f"gamma={gamma}" for gamma in range(1, 7)], PairSpec())
    assert [lane.config.gamma for lane in cards.lanes] == [1, 2, 3, 4]
    assert cards.refused == ["A comparison has at most 4 lanes."]


def test_clips_link_values_to_the_sliders() -> None:
    app = compare_page("gamma=64,temperature=50,top_p=0.01", "gamma=1,top_k=10000000")
    first, second = lanes_of(app)
    assert (first.config.gamma, first.config.temperature) == (64, 2.0)
    assert (first.config.top_p, second.config.top_k) == (0.05, 10_000_000)
    assert [unescaped(each.value) for each in app.info] == [
        "Lane 1: temperature 50 is out of range and was set to 2.",
        "Lane 1: top-p 0.01 is out of range and was set to 0.05.",
    ]
    assert lanes_of(compare_page("temperature=0.333,top_p=0.999"))[0].config.top_p == 0.999


def test_adds_changes_and_removes_lanes() -> None:
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


def test_restores_settings_after_visiting_another_page() -> None:
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
    assert app.selectbox(key="compare_preset").value == "custom prompt"
    assert linked(app) == ["gamma=12", "gamma=4,top_k=7,name=mine"]


def test_takes_lanes_from_another_page() -> None:
    app = compare_page("gamma=3", "gamma=4")
    app.session_state["compare_lanes"] = ["gamma=9,temperature=1.0"]
    sound(app.run())
    assert [lane.config.gamma for lane in lanes_of(app)] == [9, 2]
    assert "compare_lanes" not in app.session_state


def test_refuses_identical_lanes_and_an_empty_prompt() -> None:
    app = compare_page("gamma=3", "gamma=3")
    sound(app.button(key="compare_start_prompt").click().run())
    (error,) = app.error
    assert "Two lanes are identical" in error.value
    app.text_area(key="compare_prompt").set_value("  ")
    sound(app.button(key="compare_start_prompt").click().run())
    assert "The prompt is empty" in app.error[0].value
    assert the_job_queue().jobs == ()


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


def test_refuses_invalid_suites() -> None:
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
    assert "There are no prompts" in app.error[-1].value
    assert the_job_queue().jobs == ()


def test_plans_the_chat_prompts_by_task() -> None:
    app = compare_page()
    sound(app.segmented_control(key="compare_suite_source").set_value("Chat prompts by task").run())
    count = len(SHIPPED_SUITES["Chat prompts by task"]())
    assert f"2 lanes × {count} prompts × 5 repeats" in words(app)
    kinds = app.pills(key=f"compare_suite_kinds {CHAT_KINDS}")
    assert sorted(kinds.value or []) == CHAT_KINDS
    sound(kinds.set_value(["list", "rewrite"]).run())
    assert "2 lanes × 12 prompts × 5 repeats" in words(app)


def test_a_plan_with_some_kinds_of_a_suite_chooses_them_again() -> None:
    shared = Shared(prompt="", kind=None, seed=0, length=64, repeats=1, ignore_eos=False)
    lanes = [Lane(spec=PairSpec(), config=RunConfig(gamma=each)) for each in (2, 4)]
    items = tuple(
        each for each in SHIPPED_SUITES[CHAT_PROMPTS]() if each.kind in {"list", "rewrite"}
    )
    plan = plan_of(lanes, items, shared, 2)

    def choose() -> None:
        import streamlit as st

        from specviz.ui.compare.settings import choose_suite, take_settings

        if "taken" not in st.session_state:
            st.session_state["taken"] = True
            take_settings(st.session_state["plan"])
        st.session_state["suite"] = choose_suite(chat=False)

    app = AppTest.from_function(choose)
    app.session_state["plan"] = plan
    sound(app.run())
    assert app.session_state["suite"].items == items
    assert app.session_state["suite"].repeats == 2


def test_the_first_suite_follows_the_chat_template_until_a_suite_is_chosen() -> None:
    def choose() -> None:
        import streamlit as st

        from specviz.ui.compare.settings import choose_suite

        choose_suite(chat=st.session_state["chat"])

    app = AppTest.from_function(choose)
    for chat, source in ((False, PRESETS), (True, CHAT_PROMPTS), (False, PRESETS)):
        app.session_state["chat"] = chat
        assert sound(app.run()).segmented_control(key="compare_suite_source").value == source
    sound(app.segmented_control(key="compare_suite_source").set_value(CHAT_PROMPTS).run())
    assert sound(app.run()).segmented_control(key="compare_suite_source").value == CHAT_PROMPTS


def test_plans_an_uploaded_suite() -> None:
    app = compare_page()
    sound(app.segmented_control(key="compare_suite_source").set_value("A file of mine").run())
    lines = b'{"prompt": "One day", "kind": "<script>alert(1)</script>"}\n{"prompt": "Tom"}\n'
    app.file_uploader(key="compare_suite_file").set_value(("mine.jsonl", lines, "text/plain"))
    sound(app.run())
    assert not app.error
    assert "20 runs of at most 64 tokens: 2 lanes × 2 prompts × 5 repeats" in words(app)


def test_plans_typed_prompts_and_takes_them_back(monkeypatch: pytest.MonkeyPatch) -> None:
    app = compare_page()
    sound(app.segmented_control(key="compare_suite_source").set_value("Several prompts").run())
    sound(app.text_area(key="compare_suite_file_typed").set_value("One day\n---\nTom").run())
    assert "20 runs of at most 64 tokens: 2 lanes × 2 prompts × 5 repeats" in words(app)
    lanes = (DEFAULT, replace(DEFAULT, config=RunConfig(gamma=2)))
    plan = Plan(lanes=lanes, items=typed_suite("Anna\n---\nBen\n---\nEve"), repeats=2)
    assert not unsupported_by_controls(plan)
    monkeypatch.setattr(st, "session_state", {})
    take_settings(plan)
    text = st.session_state["compare_suite_file_typed"]
    assert st.session_state["compare_suite_source"] == "Several prompts"
    assert typed_suite(text) == plan.items


def test_rerun_after_a_change_is_fast() -> None:
    app = compare_page()
    number = app.session_state["compare cards"].cards[0].number

    def change(page: AppTest, turn: int) -> None:
        page.slider(key=f"compare_{number}_gamma").set_value(3 + turn)

    spent = median_ms(app, change)
    print(f"a rerun takes {spent:.0f} ms (limit {LIMIT_MS})")
    assert spent < LIMIT_MS


def test_all_lanes_share_the_chat_template_if_every_target_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has_chat = {PairSpec(): True, PairSpec(target="t", draft="d"): False}
    monkeypatch.setattr("specviz.ui.widgets.pair_panel.has_chat", lambda _, spec: has_chat[spec])
    plans = list[Plan]()
    monkeypatch.setattr(
        "specviz.ui.compare.current.start", lambda _name, plan, **_: plans.append(plan)
    )
    app = compare_page("gamma=2", "gamma=8")
    assert app.toggle(key="compare_chat").value is True
    assert app.toggle(key="compare_ignore_eos").value is False
    sound(app.button(key="compare_start_prompt").click().run())
    sound(app.toggle(key="compare_chat").set_value(False).run())
    sound(app.button(key="compare_start_prompt").click().run())
    assert [[each.config.chat for each in plan.lanes] for plan in plans] == [
        [True] * 2,
        [False] * 2,
    ]
    assert plans[0].key != plans[1].key
    mixed = compare_page("gamma=2", "target=t,draft=d")
    assert "compare_chat" not in [each.key for each in mixed.toggle]
    assert any("chat template" in each.value for each in mixed.caption)


def test_expects_the_time_of_the_last_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected_time, "_at_most", lambda _lane: None)  # other tests keep runs
    app = compare_page("gamma=2", "gamma=8")
    assert "Expected time" not in words(app)
    lanes = tuple(
        replace(each, config=replace(each.config, max_new_tokens=64)) for each in lanes_of(app)
    )
    plan = Plan(lanes=lanes, items=(SuiteItem(prompt="One"),))
    job = ComparisonJob(plan, FakeMaker(lambda _: 1.5), None)
    monkeypatch.setattr(ComparisonJob, "seconds_each", 2.0)
    monkeypatch.setattr("specviz.worker.parent.job_queue.JobQueue.jobs", (job,))
    assert "Expected time: about 20 s" in words(sound(app.run()))
