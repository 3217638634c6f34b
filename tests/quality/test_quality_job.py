"""The job of an experiment on a tiny pair: its report, stored runs and replies, and sentences."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from specviz.comparison.plan import plan_to_json
from specviz.errors import StoreError
from specviz.figures.paired import Ratio
from specviz.measure.run_makers import InProcessMaker
from specviz.quality.experiment import CONTROL, LOSSLESS, Experiment, experiment_of
from specviz.quality.quality_job import QualityJob, Scoring
from specviz.quality.report import QualityReport, report_to_json
from specviz.quality.sentences import sentences
from specviz.quality.win_rates import FEW_PROMPTS
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SuiteItem
from specviz.record.run_config import RunConfig
from specviz.record.token_text import text_without_end
from specviz.store import Library
from specviz.store.dataclass_json import from_json
from specviz.store.files import to_json
from tests.quality.test_judge import CHAT, judge_server, longer_wins
from tests.servers.replaying import Handler, Page

ITEMS = tuple(SuiteItem(prompt=each) for each in ("the cat", "a dog and", "once there"))
CONFIG = RunConfig(temperature=1.0, max_new_tokens=8, gamma=2, ignore_eos=True)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(tmp_path_factory.mktemp("library") / "runs.db")


@pytest.fixture(scope="module")
def experiment(folder: Path) -> Experiment:
    spec = PairSpec(target=str(folder / "target"), draft=str(folder / "draft"), threads=1)
    return Experiment(spec=spec, config=CONFIG, items=ITEMS, epsilons=(0.2,), texts=3)


def job_of(experiment: Experiment, library: Library, **scoring: Any) -> QualityJob:
    maker = InProcessMaker(lambda _: None, costs=False)
    return QualityJob(experiment, Scoring(**scoring), maker, library, must_keep=True)


def carried_out(job: QualityJob) -> QualityReport:
    job.carry_out()
    assert job.error is None
    assert job.report is not None
    return job.report


@pytest.fixture(scope="module")
def likelihood(experiment: Experiment, library: Library) -> QualityReport:
    return carried_out(job_of(experiment, library))


def test_every_rule_has_its_figures(likelihood: QualityReport) -> None:
    names = [each.label for each in likelihood.rules]
    assert names == [
        "lossless", "lossless, other seeds", "OPT, ε 0.2", "UNO, ε 0.2", "typical, ε 0.2",
    ]  # fmt: skip
    for each in likelihood.rules:
        assert each.texts == 9
        assert each.score is not None
        assert each.bias is not None
        assert (each.bias.value == 0.0) is (each.rule == "lossless")
        assert (each.won is None) is (each.label == "lossless")
    assert [each.won and each.won.pairs for each in likelihood.rules[CONTROL:]] == [27] * 4
    (against,) = likelihood.opt_against_uno
    opt, uno = (each.bias for each in likelihood.rules[2:4])
    assert opt
    assert uno
    assert against.bias
    assert against.bias.value == pytest.approx(opt.value - uno.value)
    assert against.bias.count == 3


def test_the_win_rate_follows_the_scores(experiment: Experiment, library: Library) -> None:
    job = job_of(experiment, library, measure="distance")
    report = carried_out(job)
    assert job.found == len(experiment.plan.runs())  # no run is made twice
    # Lossless texts have no distance, so only OPT and UNO are compared.
    assert {each.won for each in report.rules} == {None}
    assert (report.control, len(report.contests)) == (None, 1)
    said = sentences(report)
    assert [each.partition(":")[0] for each in said[:3]] == [
        each.label for each in report.rules[CONTROL + 1 :]
    ]
    assert all("mean bias" in each for each in said[:4])


def test_a_judge_decides_by_pairs_and_its_replies_are_stored(
    experiment: Experiment, library: Library, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    with judge_server(longer_wins) as server:
        scoring = {"measure": "judge", "name": server.address, "judged_pairs": 2}
        report = carried_out(job_of(experiment, library, **scoring))
        asked = len(server.bodies)
        again = carried_out(job_of(experiment, library, **scoring))
        assert len(server.bodies) == asked
    assert again == report
    assert report.judge is not None
    assert report.judge.longer == 1.0
    assert report.judge.unclear == 0
    assert report.judge.replies == asked
    assert report.judge.failed == 0
    assert sum(each.won.pairs for each in report.contests if each.won) == 5 * 3 * 2
    assert any("longer answer" in each for each in sentences(report))


def test_only_measured_scores_of_quality_are_called_better(likelihood: QualityReport) -> None:
    said = " ".join(sentences(likelihood))
    assert "likelihood" in said
    assert "not a better text" in said
    others = " ".join(sentences(replace(likelihood, measure="reward")))
    assert "likelihood" not in others


def test_a_sentence_needs_an_interval(likelihood: QualityReport) -> None:
    def without(found: Any) -> Any:
        return None if found is None else replace(found, low=None, high=None)

    cut = replace(
        likelihood,
        measure="reward",
        rules=tuple(replace(each, won=without(each.won)) for each in likelihood.rules),
        contests=tuple(replace(each, won=without(each.won)) for each in likelihood.contests),
    )
    assert sentences(replace(cut, prompts=FEW_PROMPTS)) == ()
    assert sentences(replace(cut, prompts=FEW_PROMPTS - 1)) != ()


def test_json_has_all_values(experiment: Experiment, library: Library) -> None:
    job = job_of(experiment, library)
    report = carried_out(job)
    made = json.loads(
        to_json(report_to_json(report, experiment, job.measured, job.run_ids, job.scores))
    )
    assert (made["kind"], made["schema"]) == ("win rates", 2)
    assert made["prompts"] == [each.prompt for each in ITEMS]
    assert made["pair"]["target"] == experiment.spec.target
    assert len(made["texts"]) == len({each["run"] for each in made["texts"]}) == 5 * 3 * 3
    for each in made["texts"]:
        assert text_without_end(library.open(each["run"])) == each["text"]
        assert each["score"] < 0
    assert len(made["rules"]) == 5
    first = made["contests"][0]
    assert (first["first"], first["second"]) == (CONTROL, LOSSLESS)
    assert set(first["win_rate"]) == {"value", "low", "high", "prompts", "pairs", "ties"}


def test_a_stored_report_opens_again(likelihood: QualityReport) -> None:
    assert from_json(to_json(asdict(likelihood)), QualityReport) == likelihood


def test_a_stored_experiment_is_found_again(experiment: Experiment, library: Library) -> None:
    carried_out(job_of(experiment, library))
    (row,) = library.comparisons()
    again = experiment_of(row.plan_json)
    assert again == experiment
    assert again is not None
    assert again.plan.key == experiment.plan.key
    compared = replace(experiment.plan, own_seeds=False)
    assert experiment_of(plan_to_json(compared)) is None


def test_a_speed_that_is_not_shown_to_differ_is_called_so(likelihood: QualityReport) -> None:
    for low, differs in ((0.5, False), (1.02, True)):
        found = Ratio(value=1.03, low=low, high=1.5, over="prompts", count=3)
        rules = [replace(each, over_lossless=found) for each in likelihood.rules]
        said = sentences(replace(likelihood, rules=tuple(rules)))[0]
        assert ("no difference in speed" in said) is not differs
        assert ("times as fast as lossless" in said) is differs


def test_a_stopped_job_keeps_its_texts(experiment: Experiment, tmp_path: Path) -> None:
    library = Library(tmp_path / "runs.db")
    job = job_of(experiment, library)
    job.prepare()
    assert len(list(itertools.islice(job.make_missing(), 4))) == 4
    again = job_of(experiment, library)
    again.prepare()
    assert again.progress[0] == 4
    again.stop()
    again.carry_out()
    assert again.state == "stopped"
    assert again.report is None


def test_texts_that_cannot_be_stored_end_the_job(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library(tmp_path / "runs.db")

    def full(*_: Sequence[object], **__: object) -> None:
        raise StoreError("The disk is full.", remedy="Delete runs.")

    monkeypatch.setattr("specviz.comparison.kept_runs.KeptRuns.keep_together", full)
    job = job_of(experiment, library)
    job.carry_out()
    assert job.state == "failed"
    assert "disk is full" in str(job.error)


@pytest.mark.parametrize(
    ("measure", "name"), [("judge", "http://127.0.0.1:9"), ("reward", "/nothing"),
                          ("likelihood", "/nothing")],
)  # fmt: skip
def test_a_scorer_is_checked_before_texts_are_written(
    experiment: Experiment, tmp_path: Path, measure: str, name: str
) -> None:
    job = job_of(experiment, Library(tmp_path / "runs.db"), measure=measure, name=name)
    job.carry_out()
    assert job.state == "failed"
    assert job.progress[0] == 0


def test_stopping_breaks_off_a_question(experiment: Experiment, library: Library) -> None:
    with judge_server(longer_wins) as server:
        job = job_of(experiment, library, measure="judge", name=server.address)
        asked = Event()

        def wait(handler: Handler) -> None:
            asked.set()
            handler.served.over.wait(30)

        server.pages[CHAT] = Page(behave=wait)
        thread = Thread(target=job.carry_out)
        thread.start()
        assert asked.wait(60)
        job.stop()
        thread.join(20)
        assert not thread.is_alive()
    assert job.state == "stopped"
    assert job.error is None
