"""Other ways to speculate on the page Tune: asked for, ranked, told apart, opened elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specviz.tune.method_runs import RACED
from specviz.ui.compare.lanes import TAKEN
from specviz.ui.session.background_jobs import the_job_queue
from tests.ui.paging import page_of, sound
from tests.ui.theory_pages import charts
from tests.ui.tune_jobs import ScoringMaker, put_maker, told

WAYS = ["drafter=suffix", "rule=block", "rule=coupled", "num_drafts=2", "draft_until=cost"]


pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> ScoringMaker:
    made = ScoringMaker()
    put_maker(monkeypatch, made)
    return made


def asked(ways: list[str], tab: str = "Which draft?", **link: str) -> tuple[AppTest, Any]:
    """The page after its question was answered, and the work."""
    app = page_of("tune", tune_tab=tab, **link)
    sound(app.multiselect(key="tune_ways").set_value(ways).run())
    sound(app.button(key="tune_ask").click().run())
    work: Any = the_job_queue().newest("tune")
    assert work.wait(60)
    return sound(app.run()), work


def test_ways_are_candidates_and_the_table_says_how_each_was_found(maker: ScoringMaker) -> None:
    app, work = asked(WAYS)
    configs = [each.config for each in maker.studies]
    assert [each.drafter for each in configs[:3]] == ["model", "prompt-lookup", "suffix"]
    assert [each.rule for each in configs[3:5]] == ["block", "coupled"]
    assert (configs[5].num_drafts, configs[6].draft_until) == (2, "cost")
    assert [each.config.draft_until for each in maker.run_studies] == ["count", "cost"]
    assert all(each.gammas == RACED for each in maker.run_studies)
    assert all(each.config.temperature == 0.7 for each in maker.run_studies)
    rows: Any = app.table[0].value.set_index("candidate")
    why = {str(name): str(text).replace("\\", "") for name, text in rows["why"].items()}
    assert why["until cost"].startswith("measured in 2 short runs, tokens a round too. ")
    assert why["2 drafts"].startswith("measured in 2 short runs; tokens a round as expected")
    assert why["block"].startswith("a bound: as token by token along 1 text")
    assert rows["speedup"]["block"].startswith("at least ")
    assert why["coupled"].startswith("expected along 1 text, at the step costs of token by token.")
    for name in ("suffix lookup", "prompt lookup"):
        assert why[name].startswith("expected along 1 text. ")
    assert rows.index[0] == "2 drafts"  # equally fast as the next, and asked for before it
    assert work.answer.ranked[0][1].speedup == pytest.approx((4.99 * 4.89) ** 0.5)
    assert "Use this draft, 2 drafts, with γ 1: " in told(app)
    assert "2 short runs, each timed against the target alone" in told(app)
    names = [each["name"] for each in charts(app)["tune_candidates"]["data"]]
    assert set(names) == set(rows.index)


def test_a_way_of_the_link_that_is_none_is_dropped_with_a_word(maker: ScoringMaker) -> None:
    bad = {
        "rule=blocks": "rule is 'blocks'.",
        "rule=typical,epsilon=0.1": "which rule=typical changes.",
        "drafter=os:system": "a drafter of your own.",
        "draft_until=oracle": "The oracle is a bound",
        "branching=2x0": "A tree has a branching of 0.",
        "num_drafts=2,rule=block": "rule=block judges one chain.",
        "gamma=3": "its own gamma.",
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
    assert [each.config.rule for each in work.question.lanes] == ["lossless", "lossless", "block"]


def test_ways_stand_in_the_link(maker: ScoringMaker) -> None:
    link: Any = ["branching=2x2x1", "rule=match", "rule=magic"]
    app = page_of("tune", tune_ways=link)
    assert app.multiselect(key="tune_ways").value == link
    assert "rule=magic is left out." in told(app).replace("\\", "")


def test_another_machines_costs_are_of_no_run(maker: ScoringMaker) -> None:
    """So a tree has a bound of its tokens, and no speed."""
    app, work = asked(["branching=2x1", "rule=block"], tune_given="true")
    assert maker.run_studies == []
    assert [each.label for each in work.answer.without_speed] == ["tree 2x1"]
    assert "Not ranked: tree 2x1." in told(app)


def test_pasted_text_has_nothing_to_copy_and_no_runs(maker: ScoringMaker) -> None:
    app = page_of("tune", tune_source="Pasted text")
    sound(app.text_area(key="tune_text").set_value("One day a cat sat down.").run())
    sound(app.multiselect(key="tune_ways").set_value(["drafter=suffix", "num_drafts=2"]).run())
    sound(app.button(key="tune_ask").click().run())
    work: Any = the_job_queue().newest("tune")
    assert work.wait(60)
    assert [each.config.num_drafts for each in work.question.lanes] == [1, 2]
    assert maker.run_studies == []


def test_a_row_is_taken_to_watch(maker: ScoringMaker) -> None:
    app, _ = asked(WAYS)
    sound(app.selectbox(key="tune_row").set_value("coupled").run())
    sound(app.button(key="tune_watch_row").click().run())
    assert app.selectbox(key="rule").value == "coupled"
    assert app.slider(key="temperature").value == 0.7


def test_the_first_rows_are_taken_to_compare(
    maker: ScoringMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[tuple[str, Any]] = []
    monkeypatch.setattr(
        "streamlit.switch_page", lambda page, query_params: gone.append((page, query_params))
    )
    app, work = asked(WAYS)
    sound(app.button(key="tune_compare").click().run())
    ((page, link),) = gone
    assert page == "pages/compare.py"
    assert link == {"lane": app.session_state[TAKEN]}
    assert len(link["lane"]) == 4
    first, cell = work.answer.ranked[0]
    assert link["lane"][0] == f"gamma={cell.gamma},num_drafts={first.config.num_drafts}"


def test_engines_are_told_what_they_can_run(maker: ScoringMaker) -> None:
    app, work = asked(WAYS, tab="Your engine")
    assert work.answer.best[0].label == "2 drafts"
    assert work.answer.best_plain[0].label in ("draft model · lossless", "prompt lookup")
    assert "2 drafts is ranked first, which these engines do not run" in told(app)
    assert app.code


def test_every_candidate_has_its_map(maker: ScoringMaker) -> None:
    """Of runs at one temperature, or of tokens alone where there are no runs."""
    app, _ = asked([*WAYS, "branching=2x1"], tab="Every γ")
    for name, words in {
        "2 drafts": "Speedup in short runs",
        "until cost": "Speedup in short runs",
        "tree 2x1": "Speedup in short runs",
        "suffix lookup": "Expected speedup.",
        "block": "What the speedup is at least",
    }.items():
        sound(app.segmented_control(key="tune_candidate").set_value(name).run())
        assert "tune_map" in charts(app)
        assert words in told(app)
    app, _ = asked(["branching=2x1"], tab="Every γ", tune_given="true")
    sound(app.segmented_control(key="tune_candidate").set_value("tree 2x1").run())
    assert "tune_map" in charts(app)
