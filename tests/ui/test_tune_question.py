"""The controls of the Tune page: the question that they ask."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from threading import Event

import pytest
from streamlit.testing.v1 import AppTest

from specviz.measure.run_makers import Study
from specviz.record.pairs import PairSpec
from specviz.record.prompts import CHAT_PROMPTS, SHIPPED_SUITES
from specviz.record.scores import SamplingParams, ScoredText
from specviz.tune.methods import ShortRun
from specviz.tune.text_study import Found, Texts, TextStudy
from specviz.ui.session.background_jobs import the_job_queue
from specviz.ui.tune.current import phase_of
from tests.ui.paging import sound, until
from tests.ui.theory_pages import charts
from tests.ui.tune_jobs import ODDS, ScoringMaker, page_text
from tests.ui.tune_page import tune_page
from tests.ui.tune_questions import TABS, ask, asked, at, use

__all__ = ["use"]  # a fixture

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.mark.usefixtures("use")
def test_a_recorded_answer_is_shown_before_the_first_question() -> None:
    for tab in TABS:
        text = page_text(tune_page(tune_tab=tab))
        assert "Recorded example" in text
        assert "press *Compute*" in text
    assert "tune_map" in charts(tune_page())


def test_the_first_answer_replaces_the_recorded_one(use: Callable[..., ScoringMaker]) -> None:
    use(ScoringMaker())
    app = tune_page()
    ask(app)
    assert "Recorded example" not in page_text(app)


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
    assert question.labels == ("draft model", "prompt lookup", "suffix lookup")
    drafters = [each.config.drafter for each in maker.studies]
    assert drafters == ["model", "prompt-lookup", "suffix"]
    assert len(question.items) == 1
    assert question.items[0].prompt == app.text_area(key="tune_prompt").value
    assert question.text is None


def test_temperatures_and_time_of_the_question_can_be_chosen(
    use: Callable[..., ScoringMaker],
) -> None:
    use(ScoringMaker())
    app = tune_page(tune_text_budget="90")
    app.multiselect(key="tune_temperatures").set_value([0.2, 0.9])
    question = asked(app)
    assert (question.temperatures, question.text_budget) == ((0.2, 0.7, 0.9), 90)


class RefiningMaker(ScoringMaker):
    """Texts differ, so that further ones are needed; these wait for ``go_on``."""

    def __init__(self) -> None:
        super().__init__()
        self.began = Event()
        self._easier = itertools.cycle((0.6, 1.0))

    def find(self, spec: PairSpec, study: Study) -> Iterator[Found | ShortRun]:
        if not isinstance(study, Texts):
            yield from super().find(spec, study)
            return
        self.began.set()
        self.go_on.wait(60)
        for sampling, item, _ in study.study.places():
            yield self._text(study.study, sampling, item.kind)

    def _text(self, study: TextStudy, sampling: SamplingParams, kind: str | None) -> ScoredText:
        factor = next(self._easier)
        self._odds = tuple(factor * each for each in ODDS)
        return super()._text(study, sampling, kind)


@pytest.mark.usefixtures("use")
def test_the_answer_is_shown_while_further_texts_are_scored(
    use: Callable[[ScoringMaker], ScoringMaker],
) -> None:
    maker = RefiningMaker()
    use(maker)
    app = tune_page(tune_lookup="false")
    sound(app.button(key="tune_ask").click().run())
    until(app, maker.began.is_set)
    sound(app.run())
    assert "tune_map" in charts(app)
    assert "In progress" not in page_text(app)
    assert "along 5 texts" in page_text(app)
    job = the_job_queue().newest("tune")
    assert job is not None
    assert phase_of(job) == "refining"
    maker.go_on.set()
    assert job.wait(60)
    assert phase_of(job) == ""
    sound(app.run())
    assert "along 5 texts" not in page_text(app)


def test_there_is_no_map_while_the_speedups_are_too_uncertain(
    use: Callable[..., ScoringMaker],
) -> None:
    """At temperature 0 there is one text, whose halves differ here."""
    use(ScoringMaker(odds=(*([1.0] * 24), *([0.02] * 24))))
    app = tune_page(tune_temperature="0")
    ask(app)
    assert "tune_map" not in charts(app)
    assert "too uncertain for a map" in page_text(app)


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
    assert "This text was not written by the target" in page_text(app)
    keys = {each.key for each in app.button}
    assert not keys & {"tune_watch", "tune_measure"}
    beside = [each.value for each in at(app, "Along the text").caption if "min(1," in each.value]
    assert beside[0].endswith("apply to this text, not to texts that the target writes.")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"prompt": "a"}\n{"kind": "b"}', "prompt"),
        pytest.param(b"\xff\xfe", "is not UTF-8 text", marks=pytest.mark.thorough),
        pytest.param(b"no json", "line 1", marks=pytest.mark.thorough),
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


@pytest.mark.parametrize(
    "source",
    [
        CHAT_PROMPTS,
        *(
            pytest.param(each, marks=pytest.mark.thorough)
            for each in SHIPPED_SUITES
            if each != CHAT_PROMPTS
        ),
    ],
)
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
    assert [each.config.drafter for each in lanes] == [
        *("model", "model", "model"), "prompt-lookup", "suffix",
    ]  # fmt: skip


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


def test_scores_typed_prompts(use: Callable[..., ScoringMaker]) -> None:
    use(ScoringMaker())
    app = tune_page(tune_source="Several prompts", tune_lookup="false")
    refused(app, "No texts are chosen.")
    sound(app.text_area(key="tune_suite_typed").set_value("One day\n---\nTom had").run())
    assert [each.prompt for each in asked(app).items] == ["One day", "Tom had"]
