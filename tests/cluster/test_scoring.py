"""Texts scored on a cluster of two nodes: the same as here, in the same order, whoever dies."""

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
    """A target with two drafts, whose step costs are known."""
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
        items=question.items, laws=question.laws, config=CONFIG, gammas=question.gammas
    )


def carried_out(work: TuneJob) -> TuneJob:
    work.carry_out()
    assert work.error is None, work.error
    return work


def test_the_answer_is_that_of_one_text_after_the_other(
    maker: ClusterMaker, specs: tuple[PairSpec, ...]
) -> None:
    question = question_of(specs)
    shared = carried_out(TuneJob(question, maker)).answer
    in_turn = carried_out(TuneJob(question, InProcessMaker(lambda _: None))).answer
    assert len(maker.devices) == 2
    assert len(shared.candidates) == 2
    assert shared.complete
    for mine, theirs in zip(shared.candidates, in_turn.candidates, strict=True):
        assert mine.texts == theirs.texts
        assert mine.costs.keys() == theirs.costs.keys() == {0.0, 0.7}
        assert mine.surface == theirs.surface


def test_the_first_share_is_made_alone_and_the_others_by_all(
    maker: ClusterMaker, specs: tuple[PairSpec, ...]
) -> None:
    first, *others = (_cast(each) for each in maker.find(specs[0], _Moments()))
    assert [each.number for each in (first, *others)] == list(range(9))
    assert all(each.began >= first.ended for each in others)
    assert len({each.pid for each in others}) == 2


def test_what_a_text_cannot_be_is_said_as_it_is_here(
    maker: ClusterMaker, specs: tuple[PairSpec, ...]
) -> None:
    question = question_of(specs[:1], items=(SuiteItem(prompt=""),), text="x" * 10_000)
    work = TuneJob(question, maker)
    work.carry_out()
    assert isinstance(work.error, PromptError)
    assert "the pair's context holds" in str(work.error)


def test_texts_of_a_killed_device_are_scored_by_another_and_none_twice(
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


def test_only_what_can_be_shared_is(specs: tuple[PairSpec, ...]) -> None:
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
    """Tells who finds a share, and from when to when; the later the share, the sooner."""

    numbers: tuple[int, ...] = tuple(range(9))
    label: str = "telling moments"

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
