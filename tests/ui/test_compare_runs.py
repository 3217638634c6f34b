"""The Compare page without a browser: comparisons made, left, resumed and kept."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from specviz.comparison import Comparison
from specviz.comparison.plan import plan_from_json
from specviz.comparison.unfinished_plans import remember, remembered
from specviz.engine import load_pair
from specviz.measure.step_costs import costs_key
from specviz.record.drafters import methods_for
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.store import Library, save_value
from specviz.ui.compare.results import first_sentence
from specviz.ui.session.background_jobs import the_job_queue
from specviz.ui.session.worker import the_worker
from specviz.worker.parent.handles import Run
from tests.traces import make_costs
from tests.ui.compare_page import compare_page, lanes_of, linked, unescaped
from tests.ui.paging import sent, sound
from tests.ui.theory_pages import charts, words


@pytest.fixture(scope="module")
def costs_known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data folder with step costs for 1 and 2 threads, so that none are measured."""
    folder = tmp_path_factory.mktemp("compare")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(folder))
        pair = load_pair(PairSpec(name="tinystories", threads=1))
        for threads in (1, 2):
            pair.environment = replace(pair.environment, threads=threads)
            for drafter in methods_for("model"):
                key = costs_key(pair, RunConfig(drafter=drafter))
                assert save_value("step-costs", key, make_costs())
    return folder


def started(*lanes: str, **link: str) -> AppTest:
    app = compare_page(*lanes, **link)
    return sound(app.button(key="compare_start_prompt").click().run())


@pytest.fixture
def prepared(costs_known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(costs_known))


def test_compares_then_reuses_kept_runs_then_compares_by_kind(prepared: None) -> None:
    link: dict[str, str] = {"compare_length": "24", "compare_repeats": "2"}
    app = started("gamma=2", "gamma=8", **link)
    work = until_over(app, "prompt")
    assert (work.state, work.progress, work.found) == ("done", (4, 4), 0)
    comparison = work.comparison
    assert comparison.verdict.text.split(". ")[0].strip(".") in unescaped(words(app))
    assert [lane.count for lane in comparison.lanes] == [2, 2]
    race = sent(app)["race"]
    assert [lane["label"] for lane in race["lanes"]] == ["γ 2", "γ 8"]
    assert {lane["stage"]["run"]["detail"] for lane in race["lanes"]} == {"one of 2 runs"}
    drawn = charts(app)
    points = {each["name"]: each for each in drawn["compare_gamma_prompt"]["data"]}
    for lane in comparison.lanes:
        assert lane.speedup_ratio is not None
        assert list(points[lane.label]["y"]) == [pytest.approx(lane.speedup_ratio.value)]
    data = json.loads(app.session_state["compare findings"]["prompt"].json())
    assert data["verdict"]["text"] == comparison.verdict.text
    assert [lane["label"] for lane in data["lanes"]] == ["γ 2", "γ 8"]
    sound(app.slider(key="compare_length").set_value(32).run())
    assert "The settings have changed" in words(app)
    kept = compare_page("gamma=2", "gamma=8", **link)  # another session
    sound(kept.button(key="compare_start_prompt").click().run())
    again = until_over(kept, "prompt")
    assert (again.state, again.found) == ("done", 4)
    assert again.comparison.verdict == comparison.verdict
    assert "4 of the runs were already in the library" in words(kept)
    by_kind = compare_by_kind({"compare_length": "16", "compare_tab": "By kind"})
    found_again(by_kind, comparison)


@pytest.mark.thorough
@pytest.mark.usefixtures("prepared")
def test_continues_after_leaving_the_page_and_is_visible_in_every_tab() -> None:
    app = started("gamma=3", "gamma=7", compare_length="64", compare_repeats="6")
    work: Any = the_job_queue().newest("prompt")
    left = sound(app.switch_page("pages/runs.py").run())
    assert any("γ 3 against γ 7" in each.value for each in left.caption)
    other = compare_page()  # another tab, or the same one after a reload
    assert other.button(key="work_stop")
    assert any(
        "The comparison continues when you leave or close this page" in each.value
        for each in other.caption
    )
    assert work.wait(120)  # no page polls meanwhile
    assert work.state == "done"
    for page in (sound(other.run()), sound(app.switch_page("pages/compare.py").run())):
        assert work.comparison.verdict.text.split(". ")[0].strip(".") in unescaped(words(page))
    assert remembered() == ()


@pytest.mark.thorough
@pytest.mark.usefixtures("prepared")
def test_resumes_a_comparison_interrupted_by_the_end_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = the_worker()
    submit, submitted = worker.submit, itertools.count(1)

    def submit_then_close(*given: Any, **options: Any) -> Run:
        run = submit(*given, **options)
        if next(submitted) == 5:
            worker.close()  # as when the server ends, in the middle of a run
        return run

    monkeypatch.setattr(worker, "submit", submit_then_close)
    app = started("gamma=1", "gamma=6", compare_length="48", compare_repeats="3")
    first: Any = the_job_queue().newest("prompt")
    assert first.wait(60)
    assert (first.state, first.was_stopped) == ("stopped", False)
    st.cache_resource.clear()
    app = compare_page()
    key = first.plan.key
    assert any("was running when the dashboard ended" in each.value for each in app.markdown)
    sound(app.button(key=f"go_on_{key}").click().run())
    again = until_over(app, "prompt")
    assert (again.state, again.found >= 1, again.progress) == ("done", True, (6, 6))
    assert remembered() == ()
    remember("prompt", first.plan)
    app = compare_page()
    sound(app.button(key=f"let_go_{key}").click().run())
    assert remembered() == ()


def compare_by_kind(link: dict[str, str]) -> Comparison:
    app = compare_page("gamma=2", "drafter=prompt-lookup", **link)
    sound(app.segmented_control(key="compare_suite_source").set_value("A file of mine").run())
    lines = '{"prompt": "One day a cat", "kind": "<b>x</b>"}\n{"prompt": "Tom had a ball"}\n'
    app.file_uploader(key="compare_suite_file").set_value(("m.jsonl", lines.encode(), "text/plain"))
    sound(app.run())
    sound(app.number_input(key="compare_suite_repeats").set_value(1).run())
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
    """Check the library's comparisons, newest first, in a session that made none of them."""
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
    check_missing_run(linked, rows[1].key, made[1])
    sound(app.selectbox(key="compare_kept").set_value(rows[0].key).run())
    assert "The prompts came from a file" in app.button(key="compare_kept_use").help
    sound(app.button(key="compare_kept_use").click().run())
    assert app.session_state["compare_tab"] == "By kind"
    assert app.segmented_control(key="compare_suite_source").value == "A file of mine"
    assert [lane.config.drafter for lane in lanes_of(app)] == ["model", "prompt-lookup"]


def check_missing_run(app: AppTest, key: str, comparison: Comparison) -> None:
    """Check a comparison with a deleted run, then copy its settings to the controls."""
    plan = comparison.plan
    assert not app.info
    assert "T 0.7 · seeds 0–1 · at most 24 tokens · 2 repeats" in unescaped(words(app))
    assert not [each.key for each in app.slider if "gamma" in str(each.key)]
    Library().delete([Library().comparison_jobs(key)[0, 0, 0]])
    sound(app.run())
    assert app.info[0].value.startswith("1 of 4 runs is missing or deleted.")
    assert "One pair of runs with the same seed" in unescaped(words(app))
    app.slider(key="compare_repeats").set_value(7)
    sound(app.text_area(key="compare_prompt").set_value("Other words").run())
    sound(app.button(key="compare_kept_use").click().run())
    assert app.session_state["compare_tab"] == "One prompt"
    assert linked(app) == ["gamma=2", "gamma=8"]
    assert app.text_area(key="compare_prompt").value == plan.items[0].prompt
    assert app.slider(key="compare_repeats").value == 2
    assert app.slider(key="compare_length").value == 24
    assert "4 runs of at most 24 tokens: 2 lanes × 2 repeats" in words(app)


def until_over(app: AppTest, name: str, seconds: float = 120) -> Any:
    """Rerun the page once while the job runs, as its timer would, and once after its end."""
    work: Any = the_job_queue().newest(name)
    sound(app.run())
    assert work.wait(seconds), work.doing
    sound(app.run())
    assert work.error is None
    return work
