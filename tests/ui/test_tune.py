"""The Tune page without a browser: questions and answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specviz.errors import SpecvizError
from specviz.record.conversations import Message
from specviz.record.pairs import DEFAULT_PAIR, PairSpec, pairs_folder
from specviz.tune.engine_finding import settings_for
from specviz.tune.question import Question
from specviz.ui.session.background_jobs import the_job_queue
from specviz.ui.widgets import pair_panel
from specviz.ui.widgets.prompt_boxes import EARLIER
from tests.ui.paging import page_of, sound
from tests.ui.theory_pages import charts
from tests.ui.tune_jobs import ScoringMaker, page_text
from tests.ui.tune_page import odds_text, tune_page
from tests.ui.tune_questions import TABS, ask, asked, at, use

__all__ = ["use"]  # a fixture

pytestmark = pytest.mark.usefixtures("own_home")


def test_draws_the_answer_in_every_tab(use: Callable[..., ScoringMaker]) -> None:
    use(ScoringMaker())
    app = tune_page(tune_lookup="false")
    work = ask(app)
    best = work.answer.best[1]
    drawn = charts(app)
    numbers = drawn["tune_map"]["data"][1]
    assert len(numbers["text"]) == 16 * 4
    assert f"{best.speedup:.2f}" in numbers["text"]
    assert f"with γ {best.gamma}:" in page_text(app)
    assert set(drawn) == {"tune_map", "tune_gammas"}
    drafts = at(app, "Which draft?")
    assert "tune_candidates" in charts(drafts)
    assert drafts.table[0].value["best γ"].iloc[0] == str(best.gamma)
    text = at(app, "Along the text")
    assert "tune_token_kinds" in charts(text)
    assert odds_text(text)["texts"][:2] == [" w0", " w1"]
    assert odds_text(text)["odds"][:2] == [0.5, 0.9]
    engine = at(app, "Your engine")
    for wanted in settings_for(*work.answer.best):
        sound(engine.segmented_control(key="tune_engine").set_value(wanted.engine).run())
        assert f"from the source code of {wanted.engine}" in page_text(engine)
        assert [each.value for each in engine.code] == [each.text for each in wanted.snippets]


def test_marks_results_of_previous_settings(use: Callable[..., ScoringMaker]) -> None:
    use(ScoringMaker())
    app = tune_page()
    ask(app)
    assert "settings have changed" not in page_text(app)
    sound(app.slider(key="tune_length").set_value(64).run())
    assert "settings have changed" in page_text(app)
    assert charts(app)  # the previous results are still shown
    sound(app.slider(key="tune_length").set_value(128).run())
    assert "settings have changed" not in page_text(app)


def choose(app: AppTest, *cells: tuple[int, float]) -> AppTest:
    """Select cells, as the browser would."""
    points = [{"customdata": [gamma, temperature]} for gamma, temperature in cells]
    app.session_state["tune_map"] = {"selection": {"points": points}}
    return sound(app.run())


def test_selects_cells(use: Callable[..., ScoringMaker]) -> None:
    use(ScoringMaker())
    app = tune_page()
    best = ask(app).answer.best[1]
    assert f"**γ {best.gamma}, temperature {best.temperature:g}:**" in page_text(app)
    assert app.button(key="tune_measure").label == "Measure the best cell of each temperature"
    choose(app, (9, 0.4))
    assert "**γ 9, temperature 0.4:**" in page_text(app)
    assert app.button(key="tune_measure").label == "Measure it"
    choose(app, (9, 0.4), (3, 1.0))
    assert app.button(key="tune_measure").label == "Measure these 2"
    choose(app, (99, 0.4))  # a cell of an older map
    assert f"**γ {best.gamma}," in page_text(app)


def test_opens_the_chosen_cell_on_watch(use: Callable[..., ScoringMaker]) -> None:
    use(ScoringMaker())
    app = tune_page(tune_length="64", tune_top_k="11")
    sound(app.text_area(key="tune_prompt").set_value("One *day*").run())
    ask(app)
    sound(app.segmented_control(key="tune_candidate").set_value("prompt lookup").run())
    choose(app, (9, 0.4))
    app.session_state[EARLIER] = (Message(role="user", content="Hello."),)
    sound(app.button(key="tune_watch").click().run())
    assert EARLIER not in app.session_state  # the conversation on Watch does not go on
    assert app.slider(key="gamma").value == 9
    assert app.slider(key="temperature").value == 0.4
    assert app.slider(key="length").value == 64
    assert app.number_input(key="top_k").value == 11
    assert app.selectbox(key="drafter").value == "prompt-lookup"
    assert app.text_area(key="prompt").value == "One *day*"
    run = app.session_state["history"].current
    assert (run.config.gamma, run.config.drafter) == (9, "prompt-lookup")
    run.stop()
    wait_until(lambda: run.finished, seconds=60)


@pytest.mark.thorough
def test_a_further_draft_opens_on_watch(
    use: Callable[..., ScoringMaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.ui.tune.opening.press", lambda _: None)  # it is not in the cache
    use(ScoringMaker())
    app = tune_page(tune_tab="Which draft?")
    sound(app.text_area(key="tune_further").set_value("some/draft").run())
    ask(app)
    (label,) = (each for each in app.selectbox(key="tune_row").options if "some" in each)
    sound(app.selectbox(key="tune_row").set_value(label).run())
    sound(app.button(key="tune_watch_row").click().run())
    assert app.text_input(key="draft_id").value == "some/draft"
    target = pairs_folder() / DEFAULT_PAIR / "target"
    assert app.text_input(key="target_id").value == str(target)


def test_measures_the_chosen_cells(use: Callable[..., ScoringMaker]) -> None:
    maker = use(ScoringMaker())
    app = tune_page()
    ask(app)
    choose(app, (2, 0.4), (3, 1.0))
    sound(app.button(key="tune_measure").click().run())
    work: Any = the_job_queue().newest("tune-cells")
    assert work.wait(60)
    sound(app.run())
    assert {(each.config.gamma, each.config.temperature) for each in maker.orders} == {
        (2, 0.4), (3, 1.0)
    }  # fmt: skip
    rows = app.table[0].value
    assert list(rows["setting"]) == ["γ 2, T 0.4", "γ 3, T 1"]
    assert [each.split("×")[0] for each in rows["measured"]] == ["1.50", "1.50"]
    assert list(rows["runs"]) == ["3", "3"]  # seeds of the one prompt
    marked = [each for each in charts(app)["tune_map"]["data"] if each.get("name") == "measured"]
    assert [each["y"] for each in marked] == [[1, 2]]


def test_never_mixes_runs_with_and_without_the_chat_template(
    use: Callable[..., ScoringMaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.ui.widgets.pair_panel.has_chat", lambda *_: True)
    maker = use(ScoringMaker())
    app = tune_page()
    first = asked(app)
    assert {each.config.chat for each in maker.studies} == {True}  # by default
    choose(app, (2, 0.4))
    sound(app.button(key="tune_measure").click().run())
    work: Any = the_job_queue().newest("tune-cells")
    assert work.wait(60)
    sound(app.run())
    assert [each.config.chat for each in maker.orders] == [True] * 3
    assert "measured" in map_layers(app)
    sound(app.toggle(key="tune_chat").set_value(False).run())
    assert "The settings have changed" in page_text(app)
    plain = asked(app)
    assert [each.config for each in plain.lanes] == [
        replace(each.config, chat=False) for each in first.lanes
    ]
    assert [kinds_of(each) for each in (first, plain)] == [{"rewrite"}, {"story"}]
    assert "measured" not in map_layers(app)
    assert not app.table


def test_the_template_of_a_folder_is_known_before_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    assert tune_page(pair="Local", target_folder=str(tmp_path)).toggle(key="tune_chat").value
    plain = tune_page(pair="Local", target_folder=str(tmp_path.parent))
    assert "tune_chat" not in [each.key for each in plain.toggle]
    monkeypatch.setattr("specviz.ui.session.machine_models.reachable_by_others", lambda: True)
    shared = tune_page(pair="Local", target_folder=str(tmp_path))
    assert "tune_chat" not in [each.key for each in shared.toggle]


def kinds_of(question: Question) -> set[str | None]:
    return {each.kind for each in question.items}


def map_layers(app: AppTest) -> list[Any]:
    return [each.get("name") for each in charts(app)["tune_map"]["data"]]


def test_text_that_is_given_gets_no_chat_template(
    use: Callable[..., ScoringMaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.ui.widgets.pair_panel.has_chat", lambda *_: True)
    use(ScoringMaker())
    app = tune_page(tune_source="Pasted text")
    sound(app.text_area(key="tune_text").set_value("One day a cat sat down.").run())
    assert not asked(app).config.chat


def test_a_target_alone_drafts_by_prompt_lookup(
    use: Callable[..., ScoringMaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(ScoringMaker())
    own = pair_panel.pair_of_page
    monkeypatch.setattr(
        pair_panel, "pair_of_page", lambda: (*own()[:2], PairSpec(target="a/target"))
    )
    app = tune_page(tune_ways="num_drafts=2")
    assert "tune_lookup" not in [each.key for each in app.toggle]
    assert "2 is left out" in app.warning[0].value
    offered = app.multiselect(key="tune_ways").options
    assert "drafter=early-exit:1" in offered
    assert "num_drafts=4" not in offered
    assert [each.config.drafter for each in asked(app).lanes] == ["prompt-lookup", "suffix"]


def test_races_the_first_candidates(use: Callable[..., ScoringMaker]) -> None:
    def speed(order: Any) -> float:
        return 1.2 if order.config.drafter == "model" else 1.8

    use(ScoringMaker(speed=speed))
    app = tune_page(tune_tab="Which draft?")
    ask(app)
    sound(app.button(key="tune_confirm").click().run())
    work: Any = the_job_queue().newest("tune-race")
    assert work.wait(60)
    sound(app.run())
    assert work.error is None
    assert "Fastest when measured: prompt lookup with γ" in page_text(app)
    assert app.table[-1].value["candidate"].iloc[0] == "prompt lookup"
    assert "runs with this setting: " in page_text(app)
    sound(app.text_area(key="tune_prompt").set_value("Another prompt").run())
    ask(app)  # its answer has no measurement yet
    assert "Fastest when measured" not in page_text(app)
    assert "runs with this setting: " not in page_text(app)


def test_warns_about_an_impossible_text(use: Callable[..., ScoringMaker]) -> None:
    use(ScoringMaker(impossible=2))
    app = tune_page(tune_source="Pasted text")
    sound(app.text_area(key="tune_text").set_value("One day").run())
    ask(app)
    assert "The target cannot write this text" in page_text(app)
    assert not charts(app)
    assert "token 3 has probability 0" in page_text(at(app, "Along the text"))
    assert "no speedup" in page_text(at(app, "Which draft?")) or "No draft or method" in page_text(
        app
    )
    assert "No advice yet" in page_text(at(app, "Your engine"))


def test_no_speedup_without_step_costs(use: Callable[..., ScoringMaker]) -> None:
    use(ScoringMaker(has_costs=False))
    app = tune_page()
    ask(app)
    assert "step costs, which are still missing" in page_text(app)
    for tab in TABS:
        at(app, tab)


def test_tokens_with_markup_stay_text(use: Callable[..., ScoringMaker]) -> None:
    use(ScoringMaker(words="<b>*x*</b>"))
    app = tune_page(tune_tab="Along the text")
    ask(app)
    assert odds_text(app)["texts"][0] == "<b>*x*</b>0"


def test_replaces_a_chosen_candidate_that_is_gone(use: Callable[..., ScoringMaker]) -> None:
    use(ScoringMaker())
    app = tune_page()
    ask(app)
    sound(app.segmented_control(key="tune_candidate").set_value("prompt lookup").run())
    sound(app.toggle(key="tune_lookup").set_value(False).run())
    sound(app.text_area(key="tune_further").set_value("some/draft").run())
    ask(app)
    assert app.segmented_control(key="tune_candidate").value in (
        app.segmented_control(key="tune_candidate").options
    )
    assert charts(app)["tune_map"]


# -- jobs that fail or are stopped


def test_shows_an_error_and_recovers_with_the_next_question(
    use: Callable[..., ScoringMaker],
) -> None:
    use(ScoringMaker(error=SpecvizError("The worker *ended*.", remedy="Start again.")))
    app = tune_page()
    ask(app)
    assert "The worker *ended*. Start again." in page_text(app)
    assert "too short" not in page_text(app)
    assert "No text is long enough" not in page_text(app)
    use(ScoringMaker())
    ask(app)
    assert "ended" not in page_text(app)
    assert charts(app)


def test_job_can_be_stopped_on_its_page(use: Callable[..., ScoringMaker]) -> None:
    maker = use(ScoringMaker(held=True))
    app = tune_page()
    sound(app.button(key="tune_ask").click().run())
    work: Any = the_job_queue().newest("tune")
    wait_until(lambda: bool(maker.studies))
    sound(app.run())
    assert "0 of 24" in str([each.proto.text for each in app.get("progress")])
    assert "In progress." in page_text(app)
    sound(app.button(key="stop_tune").click().run())
    assert work.wait(10)
    sound(app.run())
    assert "Stopped. Partial results are shown." in page_text(app)
    assert "No text is long enough" not in page_text(app)


def wait_until(true: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_continues_after_leaving_the_page_and_the_link_opens_it(
    use: Callable[..., ScoringMaker],
) -> None:
    maker = use(ScoringMaker(held=True))
    app = tune_page()
    sound(app.button(key="tune_ask").click().run())
    left = sound(app.switch_page("pages/runs.py").run())
    assert any("Tune: draft model against prompt lookup" in each.value for each in left.caption)
    maker.go_on.set()
    work: Any = the_job_queue().newest("tune")
    assert work.wait(30)
    assert charts(page_of("tune", work=work.id))["tune_map"]
