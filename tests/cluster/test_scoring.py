"""Scoring texts on a cluster of two nodes: same values and order as locally, even after kills."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from specviz.cluster.cluster_maker import ClusterMaker
from specviz.comparison.plan import Lane
from specviz.engine import load_pair
from specviz.errors import PromptError
from specviz.measure.run_makers import InProcessMaker, SharedStudy, Study
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SuiteItem
from specviz.record.scores import ScoredText
from specviz.record.trace import RunConfig
from specviz.tune.question import Question
from specviz.tune.text_study import TextStudy
from specviz.tune.tune_job import TuneJob
from tests.cluster.two_nodes import TwoNodes, needs_ray
from tests.engine.models import noisy_copy, small_tokenizer, tiny_model, write_model
from tests.step_costs import place_step_costs

pytestmark = needs_ray
CONFIG = RunConfig(max_new_tokens=12, ignore_eos=True, seed=3)
ITEMS = tuple(SuiteItem(prompt=f"Once upon a time there were {n} dogs") for n in range(8))


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PairSpec, ...]]:
    """A target with two drafts, with stored step costs."""
    target, tokenizer = tiny_model(num_hidden_layers=1), small_tokenizer()
    folder = tmp_path_factory.mktemp("pairs")
    models = {"target": target, "poor": noisy_copy(target, 0.2), "good": noisy_copy(target, 0.02)}
    for name, model in models.items():
        write_model(folder / name, model, tokenizer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(tmp_path_factory.mktemp("home")))
        made = tuple(
            PairSpec(draft=str(folder / each), target=str(folder / "target"), threads=1)
            for each in ("poor", "good")
        )
        for each in made:
            place_step_costs(load_pair(each), "model")
        yield made


@pytest.fixture(scope="module")
def maker(specs: tuple[PairSpec, ...]) -> Iterator[ClusterMaker]:
    nodes = TwoNodes()
    with ClusterMaker(nodes.address, timed=False, threads=1) as made:
        yield made
    nodes.close()


def question_of(specs: tuple[PairSpec, ...], **settings: Any) -> Question:
    return Question(
        lanes=tuple(Lane(spec=each, config=CONFIG) for each in specs),
        **{"items": ITEMS, "temperatures": (0.0, 0.7), "gammas": (1, 2, 4), **settings},
    )


def study_of(question: Question) -> TextStudy:
    return TextStudy(
        items=question.items, samplings=question.samplings, config=CONFIG, gammas=question.gammas
    )


def finished(job: TuneJob) -> TuneJob:
    job.carry_out()
    assert job.error is None, job.error
    return job


def test_the_answer_equals_that_of_sequential_scoring(
    maker: ClusterMaker, specs: tuple[PairSpec, ...]
) -> None:
    question = question_of(specs)
    shared = finished(TuneJob(question, maker)).answer
    in_turn = finished(TuneJob(question, InProcessMaker(lambda _: None))).answer
    assert len(maker.devices) == 2
    assert len(shared.candidates) == 2
    assert shared.complete
    for mine, theirs in zip(shared.candidates, in_turn.candidates, strict=True):
        assert mine.texts == theirs.texts
        assert mine.costs.keys() == theirs.costs.keys() == {0.0, 0.7}
        assert mine.surface == theirs.surface


def test_the_first_share_runs_alone_and_the_others_in_parallel(
    maker: ClusterMaker, specs: tuple[PairSpec, ...]
) -> None:
    first, *others = (_cast(each) for each in maker.find(specs[0], _Moments()))
    assert [each.number for each in (first, *others)] == list(range(9))
    assert all(each.began >= first.ended for each in others)
    assert len({each.pid for each in others}) == 2


def test_errors_of_texts_are_the_same_as_locally(
    maker: ClusterMaker, specs: tuple[PairSpec, ...]
) -> None:
    question = question_of(specs[:1], items=(SuiteItem(prompt=""),), text="x" * 10_000)
    job = TuneJob(question, maker)
    job.carry_out()
    assert isinstance(job.error, PromptError)
    assert "the pair's context holds" in str(job.error)


def test_texts_of_a_killed_device_are_scored_again_once(
    maker: ClusterMaker, specs: tuple[PairSpec, ...]
) -> None:
    study, found = study_of(question_of(specs)), list[ScoredText]()
    killed = 0
    for value in maker.find(specs[0], study):
        if isinstance(value, ScoredText):
            found.append(value)
        if len(found) == 3 and not killed:
            killed = maker.devices[0].pid
            os.kill(killed, signal.SIGKILL)
    alone = InProcessMaker(lambda _: None).find(specs[0], study)
    assert found == [each for each in alone if isinstance(each, ScoredText)]
    assert len(found) == 16
    assert killed not in {each.pid for each in maker.devices}


def test_shares_find_the_same_as_the_whole_study(specs: tuple[PairSpec, ...]) -> None:
    study = study_of(question_of(specs))
    assert isinstance(study, SharedStudy)
    pair = load_pair(specs[0])
    alone = [each for share in study.shares() for each in share.find(pair)]
    key = repr
    assert sorted(alone, key=key) == sorted(study.find(pair), key=key)


@dataclass(frozen=True)
class _Moment:
    number: int
    pid: int
    began: float
    ended: float


@dataclass(frozen=True)
class _Moments:
    """Yields the process and the times of each share; later shares finish sooner."""

    numbers: tuple[int, ...] = tuple(range(9))
    label: str = "recording moments"

    def find(self, pair: object) -> Iterator[object]:
        del pair
        for number in self.numbers:
            began = time.monotonic()
            time.sleep(0.03 * (10 - number))
            yield _Moment(number, os.getpid(), began, time.monotonic())

    def shares(self) -> tuple[Study, ...]:
        return tuple(replace(self, numbers=(each,)) for each in self.numbers)


def _cast(found: object) -> _Moment:
    assert isinstance(found, _Moment)
    return found
