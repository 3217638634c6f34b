"""Studies in the worker process: values in order, stopped, failed, and lost with it."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from specviz.comparison.plan import Lane
from specviz.engine.decoding.scoring import score_text
from specviz.engine.model.pair import Pair
from specviz.errors import ConfigError, PairError, SpecvizError
from specviz.measure.run_makers import InProcessMaker, StoppedError
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SuiteItem
from specviz.record.trace import RunConfig
from specviz.tune.question import Question
from specviz.tune.tune_job import TuneJob
from specviz.worker.messages import StudyFound
from specviz.worker.parent.client import Worker
from specviz.worker.parent.handles import StudyHandle
from specviz.worker.parent.worker_maker import WorkerMaker
from tests.worker.studies import Counting, Saving
from tests.worker.waiting import finish, wait_for_rounds, wait_until

pytestmark = pytest.mark.timeout(180)

PROMPT = "Tom had a big red ball and"
CONFIG = RunConfig(max_new_tokens=24, ignore_eos=True)
LONG = replace(CONFIG, max_new_tokens=1000)
ENDLESS = Counting(count=10**6, seconds=0.01)


def numbers(studying: StudyHandle) -> list[int]:
    """Return all its values, to the end."""
    assert studying.wait(60)
    found: list[Any] = list(studying.values())
    return [number for number, _ in found]


def some_of(studying: StudyHandle, count: int) -> list[Any]:
    """Return the first values, without waiting for the end."""
    values = studying.values()
    return [next(values) for _ in range(count)]


def test_values_arrive_once_and_in_order(worker: Worker, spec: PairSpec, pair: Pair) -> None:
    studying = worker.study(spec, Counting(count=200))
    values = list(studying.values())
    assert values == [(number, pair.info.name) for number in range(200)]
    assert (studying.done, studying.result, studying.error) == (True, True, None)
    assert worker.status().spec == spec
    wait_until(lambda: worker.status().progress is None)  # step costs may be measured first


def test_values_arrive_during_the_study(worker: Worker, spec: PairSpec) -> None:
    studying = worker.study(spec, ENDLESS)
    assert [number for number, _ in some_of(studying, 3)] == [0, 1, 2]
    progress = worker.status().progress
    assert progress is not None
    assert (progress.text, studying.done, worker.busy) == ("counting", False, True)
    studying.stop()
    assert studying.wait(10)
    wait_until(lambda: worker.status().progress is None)


def test_studies_and_runs_wait_for_each_other(worker: Worker, spec: PairSpec) -> None:
    run = worker.submit("a", spec, PROMPT, LONG, baseline=False)
    wait_for_rounds(run, 1)
    studying = worker.study(spec, Counting(count=3))
    after = worker.submit("b", spec, PROMPT, CONFIG, baseline=False)
    time.sleep(0.1)
    assert (run.state, studying.done, studying.found.empty()) == ("running", False, True)
    run.stop()
    assert numbers(studying) == [0, 1, 2]
    assert finish(after).state == "done"


def test_studies_run_one_after_the_other(
    worker: Worker, spec: PairSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived, take = list[str](), Worker._on_found

    def note_and_take(self: Worker, event: StudyFound) -> None:
        arrived.append(event.request_id)
        take(self, event)

    monkeypatch.setattr(Worker, "_on_found", note_and_take)
    first, second = (worker.study(spec, Counting(count=5, seconds=0.02)) for _ in range(2))
    assert numbers(first) == numbers(second) == [0, 1, 2, 3, 4]
    assert arrived == [first.id] * 5 + [second.id] * 5


def test_stop_interrupts_a_study_and_the_worker_continues(worker: Worker, spec: PairSpec) -> None:
    worker.study(spec, Counting(count=1)).wait(60)
    pid = worker.pid
    studying = worker.study(spec, Counting(count=2, seconds=60.0))
    some_of(studying, 1)
    studying.stop()
    assert wait_until(lambda: studying.done) < 5.0  # of a pause of a minute
    assert (studying.result, studying.error) == (None, None)
    assert list(studying.values()) == []
    assert numbers(worker.study(spec, Counting(count=2))) == [0, 1]
    assert worker.pid == pid
    studying.stop()  # once more, too late
    assert numbers(worker.study(spec, Counting(count=2))) == [0, 1]


def test_waiting_study_stops_at_once(worker: Worker, spec: PairSpec) -> None:
    first, second = worker.study(spec, ENDLESS), worker.study(spec, Counting(count=1))
    some_of(first, 1)
    second.stop()
    assert (second.done, second.result, list(second.values())) == (True, None, [])
    assert not first.done
    first.stop()
    assert first.wait(10)


def test_study_errors_reach_the_caller_and_the_process_continues(
    worker: Worker, spec: PairSpec
) -> None:
    foreseen = worker.study(spec, Counting(count=2, fails="foreseen"))
    assert numbers(foreseen) == [0, 1]
    assert type(foreseen.error) is ConfigError
    assert (str(foreseen.error), foreseen.result) == ("Too much was counted. Count less.", True)
    pid = worker.pid
    for fails, named in (
        ("unforeseen", "(ZeroDivisionError: counted)"),
        ("unreadable", "(PermissionError: Permission denied)"),
        ("unsendable", "Error: "),
    ):
        studying = worker.study(spec, Counting(count=2, fails=fails))
        assert numbers(studying) == [0, 1]
        assert type(studying.error) is SpecvizError
        assert named in studying.error.culprit
        assert "\n" not in str(studying.error)
    assert numbers(worker.study(spec, Counting(count=1))) == [0]
    assert worker.pid == pid


def test_missing_pair_is_the_studys_error(worker: Worker, spec: PairSpec, tmp_path: Path) -> None:
    missing = PairSpec(draft=str(tmp_path / "a"), target=str(tmp_path / "b"), threads=1)
    studying = worker.study(missing, Counting(count=1))
    assert numbers(studying) == []
    assert isinstance(studying.error, PairError)
    assert str(tmp_path) in str(studying.error)
    assert worker.status().state == "failed"
    assert numbers(worker.study(spec, Counting(count=1))) == [0]


def test_dead_process_fails_only_the_current_study(new_worker: Worker, spec: PairSpec) -> None:
    first, second = new_worker.study(spec, ENDLESS), new_worker.study(spec, Counting(count=2))
    assert len(some_of(first, 2)) == 2
    assert new_worker.pid is not None
    os.kill(new_worker.pid, signal.SIGKILL)
    assert first.wait(60)
    assert isinstance(first.error, SpecvizError)
    assert numbers(second) == [0, 1]
    assert second.error is None
    # A closed worker fails all of them.
    third, fourth = new_worker.study(spec, ENDLESS), new_worker.study(spec, ENDLESS)
    some_of(third, 1)
    new_worker.close()
    for studying in (third, fourth):
        assert studying.done
        assert isinstance(studying.error, SpecvizError)


# Through the maker


def test_maker_passes_values_and_errors(worker: Worker, spec: PairSpec) -> None:
    maker = WorkerMaker(worker, "work")
    assert len(list(maker.find(spec, Counting(count=4)))) == 4
    with pytest.raises(ConfigError, match="Too much was counted"):
        list(maker.find(spec, Counting(count=1, fails="foreseen")))
    found = maker.find(spec, ENDLESS)
    next(found)
    assert maker.doing == "counting"
    maker.stop()
    with pytest.raises(StoppedError):
        list(found)
    with pytest.raises(StoppedError):
        list(maker.find(spec, Counting(count=1)))
    assert maker.doing == ""


def test_study_ends_when_its_reader_leaves(worker: Worker, spec: PairSpec) -> None:
    found: Any = WorkerMaker(worker, "work").find(spec, ENDLESS)
    next(found)
    assert worker.busy
    found.close()
    assert wait_until(lambda: not worker.busy) < 10.0


def question(spec: PairSpec) -> Question:
    items = (SuiteItem(prompt=PROMPT), SuiteItem(prompt="One day, a girl"))
    lanes = (Lane(spec=spec, config=CONFIG),)
    return Question(lanes=lanes, items=items, temperatures=(0.0, 0.7), gammas=(1, 4))


def test_texts_scored_in_the_worker_equal_local_ones(
    worker: Worker, spec: PairSpec, pair: Pair
) -> None:
    asked = question(spec)
    there, here = (
        TuneJob(asked, maker)
        for maker in (WorkerMaker(worker, "work"), InProcessMaker(lambda _: None))
    )
    for job in (there, here):
        job.carry_out()
        assert (job.state, job.error, job.progress) == ("done", None, (4, 4))
    one, other = (job.answer.candidates[0] for job in (there, here))
    assert one.texts == other.texts
    assert one.costs.keys() == other.costs.keys()  # fitted to the runs stored by then
    assert [(each.gamma, each.temperature, each.tau) for each in one.surface.cells] == [
        (each.gamma, each.temperature, each.tau) for each in other.surface.cells
    ]
    for text in one.texts:
        config = text.sampling.put_into(CONFIG)
        (scores,) = score_text(pair, text.prompt.token_ids, text.token_ids, [config])
        assert scores == text.scores


def test_stops_a_job_between_its_texts(worker: Worker, spec: PairSpec) -> None:
    lanes = (Lane(spec=spec, config=replace(CONFIG, max_new_tokens=200)),)
    asked = replace(question(spec), lanes=lanes, temperatures=(0.2, 0.4, 0.6, 0.8))
    job = TuneJob(asked, WorkerMaker(worker, "work"))
    thread = Thread(target=job.carry_out)
    thread.start()
    wait_until(lambda: job.progress[0] >= 1)
    job.stop()
    assert job.wait(30)
    thread.join(30)
    assert (job.state, job.error) == ("stopped", None)
    assert 1 <= job.progress[0] < 8
    assert wait_until(lambda: not worker.busy) < 10.0
    assert len(job.answer.candidates[0].texts) == job.progress[0]


def test_a_study_that_saves_is_closed_after_a_value(
    worker: Worker, spec: PairSpec, tmp_path: Path
) -> None:
    file = tmp_path / "last"
    studying = worker.study(spec, Saving(file=str(file), seconds=0.4))
    some_of(studying, 2)
    studying.stop()
    assert studying.wait(60)
    assert (studying.result, studying.error) == (None, None)
    number, whole = file.read_text(encoding="utf-8").split()
    assert (int(number) >= 2, whole) == (True, "True")
    assert numbers(worker.study(spec, Counting(count=3))) == [0, 1, 2]  # the process lives
