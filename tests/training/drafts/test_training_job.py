"""The training job: finished, paused, finished early, set aside for other work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from specviz.errors import ConfigError
from specviz.measure.background_job import Job
from specviz.measure.run_makers import SavingStudy, StoppedError, Study
from specviz.measure.stoppable import StoppableWork
from specviz.record.pairs import PairSpec
from specviz.record.step_costs import StepCosts
from specviz.training.drafts import training_job
from specviz.training.drafts.export import read_trained
from specviz.training.drafts.kept_trainings import (
    folder_named,
    kept_training,
    kept_trainings,
)
from specviz.training.drafts.plan import TextPlan, TrainingPlan
from specviz.training.drafts.progress import Trained
from specviz.training.drafts.training_job import (
    ALONE,
    DraftWork,
    OtherWork,
    TrainingJob,
    round_costs,
)
from specviz.training.drafts.worth import MOST_CANDIDATES
from tests.machines import LAPTOP
from tests.traces import make_costs
from tests.training.drafts.tiny_training import PLAN, tiny_target

TINY = replace(PLAN, steps=12, length=20, texts=TextPlan(count=16, longest=20, together=16))


class TinyMaker(StoppableWork):
    """Carries studies out on the tiny target, in this thread."""

    doing = ""

    def find(self, spec: PairSpec, study: Study) -> Iterator[object]:
        for value in study.find(tiny_target()):
            self._check_stop()
            yield value

    def check(self, *_args: object, **_options: object) -> Any:
        raise NotImplementedError

    def make(self, order: object) -> Any:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def known_costs(monkeypatch: pytest.MonkeyPatch) -> StepCosts:
    costs = make_costs()
    monkeypatch.setattr(training_job, "stored_costs", lambda *_: costs)
    monkeypatch.setattr("specviz.engine.body_room", lambda _: LAPTOP)
    return costs


def job_in(folder: Path, plan: TrainingPlan = TINY, **options: Any) -> TrainingJob:
    work = DraftWork(plan=plan, spec=PairSpec(threads=1), folder=str(folder))
    return TrainingJob(work, TinyMaker(), **options)


def at_step(job: TrainingJob, number: int, act: Any) -> None:
    """Act when the job reports the step for the first time."""
    acted: list[int] = []

    def look(value: object) -> None:
        if isinstance(value, Trained) and value.step == number and not acted:
            acted.append(number)
            act()

    job.on_value = look


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "draft" / "model.safetensors")


def test_a_paused_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole = job_in(tmp_path / "whole")
    whole.carry_out()
    assert (whole.state, whole.error) == ("done", None)
    first = job_in(tmp_path / "paused")
    at_step(first, 5, first.stop)
    first.carry_out()
    assert (first.state, first.result, first.curves.step) == ("stopped", None, 5)
    second = job_in(tmp_path / "paused")
    assert second.curves.step == 5  # the log of the first part
    steps: list[int] = []
    second.on_value = lambda value: steps.append(value.step) if isinstance(value, Trained) else None
    second.carry_out()
    assert steps == list(range(6, 13))
    assert second.result is not None
    ours, theirs = weights(tmp_path / "paused"), weights(tmp_path / "whole")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert [each.step for each in second.curves.losses] == list(range(1, 13))


def test_a_drafts_files_name_no_place_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info, place = tiny_target().info, "/home/someone/models/tiny.gguf"
    there = replace(info, target=replace(info.target, name=place))
    monkeypatch.setattr(tiny_target(), "info", there)
    job_in(tmp_path).carry_out()
    card = (tmp_path / "draft" / "README.md").read_text()
    assert "--target tiny.gguf --out FOLDER" in card
    config = (tmp_path / "draft" / "config.json").read_text()
    assert json.loads(config)["target_model"] == "tiny.gguf"
    for text in (card, config):
        assert "someone" not in text
        assert str(tmp_path) not in text
    assert read_trained(tmp_path).target("") == place  # known as long as the training is there


def test_finishing_early_keeps_the_draft(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    at_step(job, 4, job.finish)
    job.carry_out()
    assert (job.state, job.error, job.curves.step) == ("done", None, 4)
    assert job.result is not None
    assert (tmp_path / "draft" / "config.json").is_file()
    kept = kept_training(tmp_path)
    assert kept is not None
    assert (kept.plan, kept.step, kept.has_draft) == (TINY, 4, True)  # it can still go on


def test_the_job_reports_estimate_costs_texts_and_worth(
    tmp_path: Path, known_costs: StepCosts
) -> None:
    job = job_in(tmp_path)
    job.carry_out()
    assert job.estimate is not None
    assert job.figures is not None
    assert job.costs is not None
    assert job.costs.measured
    assert job.costs == round_costs(known_costs, job.estimate.c)
    assert job.best_worth is not None
    assert job.progress == (12, 12)
    assert job.gain_of_more is None  # one evaluation is not a curve


def test_without_step_costs_verification_is_assumed() -> None:
    costs = round_costs(None, 0.1)
    assert (costs.measured, costs.verify) == (False, (1.0,) * MOST_CANDIDATES)


def test_a_training_gives_way_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_job, "_QUIET", 0.0)
    waiting = [False]
    others = OtherWork(jobs=lambda _: False, waiting=lambda: waiting[0], busy=lambda: False)
    job = job_in(tmp_path, others=others, gives_way=True)
    at_step(job, 3, lambda: waiting.__setitem__(0, True))
    job.carry_out()
    assert (job.state, job.going, job.pauses, job.curves.step) == ("waiting", True, 1, 3)
    waiting[0] = False
    job.carry_out()
    assert (job.state, job.curves.step) == ("done", 12)


def test_a_training_that_gives_no_way_lets_others_wait(tmp_path: Path) -> None:
    others = replace(ALONE, waiting=lambda: True, jobs=lambda _: True)
    job = job_in(tmp_path, others=others)
    job.carry_out()
    assert (job.state, job.pauses) == ("done", 0)


def test_it_waits_until_other_runs_are_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_job, "_QUIET", 0.03)
    monkeypatch.setattr(training_job, "_LOOK", 0.01)
    looks = iter([True] * 5 + [False] * 1000)
    job = job_in(tmp_path, others=replace(ALONE, busy=lambda: next(looks)), gives_way=True)
    job.pauses = 1
    at_step(job, 1, job.stop)
    job.carry_out()
    assert job.curves.step == 1
    assert next(looks) is False  # the busy ones were all seen


def test_a_stop_while_set_aside_ends_the_job(tmp_path: Path) -> None:
    job = job_in(tmp_path, others=replace(ALONE, jobs=lambda _: True), gives_way=True)
    job.carry_out()
    assert (job.state, job.pauses) == ("waiting", 1)
    job.stop()
    assert (job.state, job.going) == ("stopped", False)
    with pytest.raises(StoppedError):
        job._check_stop()


def test_an_error_of_the_training_is_the_jobs(tmp_path: Path) -> None:
    job_in(tmp_path).carry_out()
    other = job_in(tmp_path, replace(TINY, rate=0.5))
    other.carry_out()
    assert other.error is not None
    assert (other.state, "another rate" in other.error.culprit) == ("failed", True)


def test_the_study_saves_when_it_is_closed() -> None:
    work = DraftWork(plan=TINY, spec=PairSpec(), folder="x")
    assert isinstance(work, SavingStudy)
    assert isinstance(Job(name="x", label="x").gives_way, bool)


@pytest.mark.parametrize("name", ["", " ", ".", "..", "a/b", "a\\b", "c:x", "a\nb", "x" * 200])
def test_a_bad_folder_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not a name"):
        folder_named(name)


def test_trainings_are_listed_and_others_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    assert kept_trainings() == ()
    for name, text in (("empty", "{}"), ("damaged", "{"), ("list", "[1]")):
        folder_named(name).mkdir(parents=True)
        (folder_named(name) / "plan.json").write_text(text, encoding="utf-8")
    job = job_in(folder_named("mine"))
    at_step(job, 2, job.stop)
    job.carry_out()
    (found,) = kept_trainings()
    assert (found.folder.name, found.step, found.has_draft) == ("mine", 2, False)
    assert found.plan == TINY
