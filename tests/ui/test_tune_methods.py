"""Other methods on the Tune page: chosen, ranked and opened on other pages."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specviz.tune.method_runs import RACED
from specviz.ui.compare.lanes import LANES_HANDOVER
from specviz.ui.session.background_jobs import the_job_queue
from tests.ui.paging import page_of, sound
from tests.ui.theory_pages import charts
from tests.ui.tune_jobs import ScoringMaker, page_text, put_maker

METHODS = ["drafter=suffix", "rule=block", "rule=coupled", "num_drafts=2", "draft_until=cost"]


pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> ScoringMaker:
    made = ScoringMaker()
    put_maker(monkeypatch, made)
    return made


def asked(methods: list[str], tab: str = "Which draft?", **link: str) -> tuple[AppTest, Any]:
    """Return the page after its question was answered, and the job."""
    app = page_of("tune", tune_tab=tab, **link)
    sound(app.multiselect(key="tune_ways").set_value(methods).run())
    sound(app.button(key="tune_ask").click().run())
    work: Any = the_job_queue().newest("tune")
    assert work.wait(60)
    return sound(app.run()), work


def test_methods_become_candidates_and_the_table_shows_their_basis(maker: ScoringMaker) -> None:
    app, work = asked(METHODS)
    configs = [each.config for each in maker.studies]
    assert [each.drafter for each in configs[:3]] == ["model", "prompt-lookup", "suffix"]
    assert [each.rule for each in configs[3:5]] == ["block", "coupled"]
    assert (configs[5].num_drafts, configs[6].draft_until) == (2, "cost")
    assert [each.config.draft_until for each in maker.run_studies] == ["count", "cost"]
    assert all(each.gammas == RACED for each in maker.run_studies)
    assert all(each.config.temperature == 0.7 for each in maker.run_studies)
    rows: Any = app.table[0].value.set_index("candidate")
    why = {str(name): str(text).replace("\\", "") for name, text in rows["why"].items()}
    assert why["until cost"].startswith("measured in 2 short runs, including tokens per round. ")
    assert why["2 drafts"].startswith("measured in 2 short runs; tokens per round expected")
    assert why["block"].startswith("lower bound: token-by-token acceptance along 5 texts")
    assert rows["speedup"]["block"].startswith("at least ")
    assert why["coupled"].startswith("expected along 5 texts, with the step costs of token")
    for name in ("suffix lookup", "prompt lookup"):
        assert why[name].startswith("expected along 5 texts. ")
    assert rows.index[0] == "2 drafts"  # as fast as the next, but chosen before it
    assert work.answer.ranked[0][1].speedup == pytest.approx((4.99 * 4.89) ** 0.5)
    assert "Use this draft, 2 drafts, with γ 1: " in page_text(app)
    assert "2 short runs, each timed against the target alone" in page_text(app)
    names = [each["name"] for each in charts(app)["tune_candidates"]["data"]]
    assert set(names) == set(rows.index)


def test_leaves_out_invalid_methods_with_a_warning(maker: ScoringMaker) -> None:
    bad = {
        "rule=blocks": "rule is 'blocks'.",
        "rule=typical,epsilon=0.1": "but rule=typical changes the text's distribution.",
        "drafter=os:system": "custom drafters.",
        "draft_until=oracle": "The oracle is a bound",
        "branching=2x0": "A tree has a branching of 0.",
        "num_drafts=2,rule=block": "rule=block verifies only one chain.",
        "gamma=3": "a different gamma.",
        "nonsense": "is not key=value",
    }
    app = page_of("tune")
    for text, words in bad.items():
        sound(app.multiselect(key="tune_ways").set_value([text, "rule=block"]).run())
        (warning,) = (each.value for each in app.warning)
        assert "is left out." in warning
        assert words in warning.replace("\\", "")
    sound(app.button(key="tune_ask").click().run())
    work: Any = the_job_queue().newest("tune")
    assert work.wait(60)
    assert [each.config.rule for each in work.question.lanes] == ["lossless"] * 3 + ["block"]


def test_link_sets_the_methods(maker: ScoringMaker) -> None:
    link: Any = ["branching=2x2x1", "rule=match", "rule=magic"]
    app = page_of("tune", tune_ways=link)
    assert app.multiselect(key="tune_ways").value == link
    assert "rule=magic is left out." in page_text(app).replace("\\", "")


def test_no_short_runs_with_costs_of_another_machine(maker: ScoringMaker) -> None:
    """A tree then has a bound of its tokens, but no speed."""
    app, work = asked(["branching=2x1", "rule=block"], tune_given="true")
    assert maker.run_studies == []
    assert [each.label for each in work.answer.without_speed] == ["tree 2x1"]
    assert "Not ranked: tree 2x1." in page_text(app)


def test_pasted_text_excludes_lookup_and_short_runs(maker: ScoringMaker) -> None:
    app = page_of("tune", tune_source="Pasted text")
    sound(app.text_area(key="tune_text").set_value("One day a cat sat down.").run())
    sound(app.multiselect(key="tune_ways").set_value(["drafter=suffix", "num_drafts=2"]).run())
    sound(app.button(key="tune_ask").click().run())
    work: Any = the_job_queue().newest("tune")
    assert work.wait(60)
    assert [each.config.num_drafts for each in work.question.lanes] == [1, 2]
    assert maker.run_studies == []


def test_opens_a_row_on_watch(maker: ScoringMaker) -> None:
    app, _ = asked(METHODS)
    sound(app.selectbox(key="tune_row").set_value("coupled").run())
    sound(app.button(key="tune_watch_row").click().run())
    assert app.selectbox(key="rule").value == "coupled"
    assert app.slider(key="temperature").value == 0.7


def test_opens_the_first_rows_on_compare(
    maker: ScoringMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, Any]] = []
    monkeypatch.setattr(
        "streamlit.switch_page", lambda page, query_params: opened.append((page, query_params))
    )
    app, work = asked(METHODS)
    sound(app.button(key="tune_compare").click().run())
    ((page, link),) = opened
    assert page == "pages/compare.py"
    assert link == {"lane": app.session_state[LANES_HANDOVER]}
    assert len(link["lane"]) == 4
    first, cell = work.answer.ranked[0]
    assert link["lane"][0] == f"gamma={cell.gamma},num_drafts={first.config.num_drafts}"


def test_engine_settings_are_for_a_reproducible_candidate(maker: ScoringMaker) -> None:
    app, work = asked(METHODS, tab="Your engine")
    assert work.answer.best[0].label == "2 drafts"
    assert work.answer.best_plain[0].label in ("draft model · lossless", "prompt lookup")
    assert "2 drafts is ranked first, but these engines do not support it" in page_text(app)
    assert app.code


def test_every_candidate_has_its_map(maker: ScoringMaker) -> None:
    """The map shows short runs at one temperature, or only tokens without runs."""
    app, _ = asked([*METHODS, "branching=2x1"], tab="Every γ")
    for name, words in {
        "2 drafts": "The map shows the speedup in short runs",
        "until cost": "The map shows the speedup in short runs",
        "tree 2x1": "The map shows the speedup in short runs",
        "suffix lookup": "The map shows the expected speedup.",
        "block": "The map shows a lower bound of the speedup",
    }.items():
        sound(app.segmented_control(key="tune_candidate").set_value(name).run())
        assert "tune_map" in charts(app)
        assert words in page_text(app)
    app, _ = asked(["branching=2x1"], tab="Every γ", tune_given="true")
    sound(app.segmented_control(key="tune_candidate").set_value("tree 2x1").run())
    assert "tune_map" in charts(app)
