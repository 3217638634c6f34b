"""The section "Quality" of the bias page: a recorded report, then a real experiment."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specviz.quality.quality_job import QUALITY, QualityJob
from specviz.record.token_text import text_without_end
from specviz.ui.session.background_jobs import the_job_queue
from tests.ui.paging import page_of, sound
from tests.ui.theory_pages import charts, words

pytestmark = pytest.mark.usefixtures("own_home")

SMALL = {
    "quality_prompts": "2", "quality_texts": "2", "quality_length": "16", "bias_pause": "true",
    "quality_epsilons": "0.2", "quality_rules": "over-accept",
}  # fmt: skip


def section(**link: str) -> AppTest:
    return page_of("bias", bias_section="Quality", **link)


def points(app: AppTest, chart: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in charts(app)[chart]["data"]}


def test_a_recorded_report_is_shown_first() -> None:
    app = section(bias_pause="true")
    drawn = points(app, "quality_recorded")
    assert set(drawn) == {"OPT", "UNO", "typical", "lossless"}
    assert [len(drawn[name]["x"]) for name in ("OPT", "UNO", "typical")] == [4, 4, 4]
    assert "Control, lossless against lossless" in words(app)
    assert "not a better text" in words(app)
    assert "42 prompts" in words(app)


def test_a_click_measures_and_a_second_one_reuses_the_texts() -> None:
    app = section(**SMALL)
    for found in (0, 2 * 2 * 4):
        sound(app.button(key="quality_start").click().run())
        job = the_job_queue().newest(QUALITY)
        assert isinstance(job, QualityJob)
        assert job.wait(300)
        assert job.error is None
        assert job.found == found
        sound(app.run())
        drawn = points(app, "quality_measured")
        assert [len(drawn[name]["x"]) for name in ("OPT", "UNO")] == [1, 1]
        assert "Control, lossless against lossless" in words(app)
        shown = [each.value.strip() for each in app.text]
        own = {(run.job.lane, run.job.item): [] for run in job.measured}
        for run in job.measured:
            own[run.job.lane, run.job.item].append(text_without_end(run.trace).strip())
        assert shown[0] == job.experiment.items[0].prompt
        assert shown[1:] == [*own[0, 0], *own[2, 0]]  # lossless beside the first lossy rule
        linked = [each.proto.query_string for each in app.get("page_link")]
        keys = [(lane, 0, repeat) for lane in (0, 2) for repeat in (0, 1)]
        assert linked[-4:] == [f"run={job.run_ids[key]}" for key in keys]
    sound(app.selectbox(key="quality_earlier").select_index(0).run())
    sound(app.button(key="quality_open").click().run())
    opened = the_job_queue().newest(QUALITY)
    assert isinstance(opened, QualityJob)
    assert opened is not job
    assert opened.wait(300)
    assert (opened.experiment, opened.found) == (job.experiment, 2 * 2 * 4)
    linked = page_of("bias", work=job.id, bias_pause="true")
    assert "quality_measured" in charts(linked)
    kept = page_of("compare", compare_tab="Kept")  # its lanes are no lanes of Compare
    assert "No comparison yet" in " ".join(each.value for each in kept.info)


@pytest.mark.parametrize(
    ("scorer", "says"),
    [
        ("reward model", "“Reward model”"),
        ("judge behind an address", "“Address”"),
    ],
)
def test_a_scorer_without_a_name_is_refused(scorer: str, says: str) -> None:
    app = section(**SMALL)
    sound(app.selectbox(key="quality_scorer").select(scorer).run())
    app.button(key="quality_start").click().run()
    assert says in app.error[0].value


def test_requests_to_another_machine_must_be_confirmed() -> None:
    app = section(**SMALL)
    sound(app.selectbox(key="quality_scorer").select("judge behind an address").run())
    sound(app.text_input(key="quality_judge").set_value("http://192.0.2.1:1").run())
    assert "Up to 64 requests" in words(app)
    app.button(key="quality_start").click().run()
    assert "not confirmed" in app.error[0].value


def test_an_experiment_takes_prompts_of_ones_own() -> None:
    app = section(**SMALL | {"quality_prompts": "12"})
    sound(app.segmented_control(key="quality_suite").set_value("Several prompts").run())
    typed = app.text_area(key="quality_suite_file_typed")
    sound(typed.set_value("One day\n---\nThe cat\n---\nA boy").run())
    assert app.slider(key="quality_prompts").max == 3
    sound(app.slider(key="quality_prompts").set_value(2).run())
    assert "2 prompts" in words(app)


def test_one_prompt_is_refused() -> None:
    app = section(**SMALL)
    sound(app.segmented_control(key="quality_suite").set_value("Several prompts").run())
    app.text_area(key="quality_suite_file_typed").set_value("One day").run()
    assert "two prompts" in app.error[0].value
