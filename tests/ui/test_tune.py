"""The Tune page without a browser: questions and answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specviz.errors import SpecvizError
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SHIPPED_SUITES
from specviz.tune.engine_finding import settings_for
from specviz.tune.question import Question
from specviz.ui.session.background_jobs import the_job_queue
from specviz.ui.widgets import pair_panel
from tests.ui.paging import page_of, sound
from tests.ui.theory_pages import charts
from tests.ui.tune_jobs import ScoringMaker, page_text, put_maker
from tests.ui.tune_page import odds_text, tune_page

TABS = ("Every γ", "Which draft?", "Along the text", "A run", "Your engine", "Ledger")

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[ScoringMaker], ScoringMaker]:
    def put(maker: ScoringMaker) -> ScoringMaker:
        put_maker(monkeypatch, maker)
        return maker

    return put


def ask(app: AppTest) -> Any:
    """Press the button and wait until the job ends."""
    sound(app.button(key="tune_ask").click().run())
    work: Any = the_job_queue().newest("tune")
    assert work is not None, page_text(app)
    assert work.wait(60)
    sound(app.run())
    return work


def asked(app: AppTest) -> Question:
    return ask(app).question


def at(app: AppTest, tab: str) -> AppTest:
    app.session_state["tune_tab"] = tab
    return sound(app.run())


# -- the question


@pytest.mark.usefixtures("use")
def test_every_tab_explains_itself_before_the_first_question() -> None:
    for tab in TABS:
        app = tune_page(tune_tab=tab)
        assert any(phrase in page_text(app) for phrase in ("Press *Compute*", "No kept run"))
        assert not charts(app)


def test_controls_set_the_question(use: Callable[..., ScoringMaker]) -> None:
    maker = use(ScoringMaker())
    app = tune_page(tune_length="64", tune_top_k="20", tune_top_p="0.9", tune_seed="7")
    question = asked(app)
    config = question.config
    assert (config.max_new_tokens, config.top_k, config.top_p, config.seed) == (64, 20, 0.9, 7)
    assert config.temperature == 0.7
    assert not config.ignore_eos
    assert question.temperatures == (0.0, 0.4, 0.7, 1.0)
    assert question.gammas == tuple(range(1, 17))
    assert question.labels == ("draft model", "prompt lookup")
    assert [each.config.drafter for each in maker.studies] == ["model", "prompt-lookup"]
    assert len(question.items) == 1
    assert question.items[0].prompt == app.text_area(key="tune_prompt").value
    assert question.text is None


def test_chosen_temperature_is_added_to_the_map(use: Callable[..., ScoringMaker]) -> None:
    use(ScoringMaker())
    app = tune_page(tune_temperature="1.3")
    assert asked(app).temperatures == (0.0, 0.4, 0.7, 1.0, 1.3)
    assert "1.3" in charts(app)["tune_map"]["layout"]["xaxis"]["ticktext"]
    assert "at temperature 1.3" in page_text(app)


def refused(app: AppTest, words: str) -> None:
    sound(app.button(key="tune_ask").click().run())
    assert words in page_text(app)
    assert the_job_queue().newest("tune") is None


def test_refuses_an_empty_prompt(use: Callable[..., ScoringMaker]) -> None:
    use(ScoringMaker())
    app = tune_page()
    sound(app.text_area(key="tune_prompt").set_value("  ").run())
    refused(app, "The prompt is empty.")


def test_scores_pasted_text_unchanged(use: Callable[..., ScoringMaker]) -> None:
    maker = use(ScoringMaker())
    app = tune_page(tune_source="Pasted text")
    refused(app, "There is no text.")
    sound(app.text_area(key="tune_text").set_value("One day a cat sat down.").run())
    question = asked(app)
    assert question.text == "One day a cat sat down."
    assert [each.text for each in maker.studies] == [question.text]
    assert question.labels == ("draft model",) or len(question.lanes) == 1  # nothing to copy from
    assert "The target did not write this text" in page_text(app)
    keys = {each.key for each in app.button}
    assert not keys & {"tune_watch", "tune_measure"}
    beside = [each.value for each in at(app, "Along the text").caption if "min(1," in each.value]
    assert beside[0].endswith("apply to this text, not to a run.")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"prompt": "a"}\n{"kind": "b"}', "prompt"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"no json", "line 1"),
    ],
)
def test_refuses_an_invalid_suite_file(
    use: Callable[..., ScoringMaker], content: bytes, words: str
) -> None:
    use(ScoringMaker())
    app = tune_page(tune_source="A file of mine")
    refused(app, "No texts are chosen.")
    app.file_uploader(key="tune_suite").set_value(("m_*x*.jsonl", content, "text/plain"))
    sound(app.run())
    refused(app, words)


def test_scores_a_file_of_prompts_by_kind(use: Callable[..., ScoringMaker]) -> None:
    use(ScoringMaker())
    app = tune_page(tune_source="A file of mine", tune_lookup="false")
    lines = '{"prompt": "One day", "kind": "<b>x</b>"}\n{"prompt": "Tom", "kind": "list"}\n'
    app.file_uploader(key="tune_suite").set_value(("m.jsonl", lines.encode(), "text/plain"))
    sound(app.run())
    assert [each.kind for each in asked(app).items] == ["<b>x</b>", "list"]
    at(app, "Along the text")
    assert "<b>" not in str(app.table[-1].value)
    assert [each.split(" ")[0] for each in app.selectbox(key="tune_text_shown").options] == [
        "<b>x</b>", "list"
    ]  # fmt: skip


@pytest.mark.parametrize("source", SHIPPED_SUITES)
def test_scores_shipped_prompts(use: Callable[..., ScoringMaker], source: str) -> None:
    use(ScoringMaker())
    assert asked(tune_page(tune_source=source)).items == SHIPPED_SUITES[source]()


def test_further_drafts_become_candidates_for_the_same_target(
    use: Callable[..., ScoringMaker],
) -> None:
    use(ScoringMaker())
    app = tune_page()
    sound(app.text_area(key="tune_further").set_value(" some/draft \n\nsome/draft\nmy").run())
    lanes = asked(app).lanes
    assert [each.spec.draft for each in lanes[1:3]] == ["some/draft", "my"]
    assert lanes[1].spec.target == lanes[2].spec.target == lanes[0].spec.target_place
    assert [each.config.drafter for each in lanes] == ["model", "model", "model", "prompt-lookup"]


def test_uses_costs_of_another_machine(use: Callable[..., ScoringMaker]) -> None:
    use(ScoringMaker(has_costs=False))
    app = tune_page(tune_given="true", tune_c="0.01", tune_v="1.0", tune_lookup="false")
    work = ask(app)
    assert work.given is not None
    ratio = work.answer.best[1].speedup / work.answer.best[1].tau
    assert ratio == pytest.approx(1 / (1 + 0.01 * work.answer.best[1].gamma), rel=0.01)
    sound(app.number_input(key="tune_c").set_value(0.02).run())
    assert "The settings have changed" in page_text(app)


# -- the answer


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
    sound(app.button(key="tune_watch").click().run())
    assert app.slider(key="gamma").value == 9
    assert app.slider(key="temperature").value == 0.4
    assert app.slider(key="length").value == 64
    assert app.number_input(key="top_k").value == 11
    assert app.selectbox(key="drafter").value == "prompt-lookup"
    assert app.text_area(key="prompt").value == "One *day*"


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
    assert [each.config.drafter for each in asked(app).lanes] == ["prompt-lookup"]


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


def test_warns_about_an_impossible_text(use: Callable[..., ScoringMaker]) -> None:
    use(ScoringMaker(impossible=2))
    app = tune_page(tune_source="Pasted text")
    sound(app.text_area(key="tune_text").set_value("One day").run())
    ask(app)
    assert "The target cannot write this text" in page_text(app)
    assert not charts(app)
    assert "token 3 has probability 0" in page_text(at(app, "Along the text"))
    assert "no speedup" in page_text(at(app, "Which draft?")) or "No candidate" in page_text(app)
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
    assert "0 of 8" in str([each.proto.text for each in app.get("progress")])
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
