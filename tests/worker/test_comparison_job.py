"""Comparison jobs on the real worker: completed, interrupted, continued, and queued."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.kept_runs import Reuse
from specviz.comparison.plan import Lane, Plan, SuiteItem
from specviz.engine.model.pair import Pair
from specviz.errors import PairError, PromptError, SpecvizError
from specviz.measure.background_job import RunsJob
from specviz.measure.run_makers import MadeRun, RunOrder, Study
from specviz.record.conversations import TypedPrompt
from specviz.record.pairs import ModelCheck, PairCheck, PairSpec
from specviz.record.trace import RunConfig
from specviz.store import Library, Query
from specviz.worker.parent.client import Run, Worker
from specviz.worker.parent.job_queue import JobQueue
from specviz.worker.parent.worker_maker import WorkerMaker
from tests.step_costs import place_step_costs
from tests.worker.waiting import wait_until

pytestmark = pytest.mark.timeout(180)

CONFIG = RunConfig(max_new_tokens=24, ignore_eos=True)
ITEM = SuiteItem(prompt="Tom had a big red ball. He took it to the garden and", kind="story")


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "runs.db")


def plan(*specs: PairSpec, repeats: int = 2) -> Plan:
    gammas = (2, 8, 4)
    lanes = [
        Lane(spec=spec, config=replace(CONFIG, gamma=gamma))
        for spec, gamma in zip(specs, gammas, strict=False)
    ]
    return Plan(lanes=tuple(lanes), items=(ITEM,), repeats=repeats)


def work_of(
    asked: Plan, worker: Worker, library: Library | None, *, reuse: Reuse = "any"
) -> ComparisonJob:
    return ComparisonJob(asked, WorkerMaker(worker, "work"), library, reuse=reuse)


def carried_out(job: ComparisonJob) -> ComparisonJob:
    job.carry_out()
    assert not job.going
    return job


@contextmanager
def in_a_thread(job: ComparisonJob) -> Iterator[ComparisonJob]:
    """Runs jobs in a thread, and stops them when the test ends."""
    thread = Thread(target=job.carry_out)
    thread.start()
    try:
        yield job
    finally:
        job.stop()
        thread.join(60)
        assert not thread.is_alive()


def test_compares_two_lanes_and_stores_their_runs(
    worker: Worker, spec: PairSpec, library: Library
) -> None:
    job = carried_out(work_of(plan(spec, spec), worker, library))
    assert (job.state, job.progress, job.found) == ("done", (4, 4), 0)
    assert [each.job for each in job.measured] == list(job.plan.runs())
    for each in job.measured:
        assert each.trace.config == each.job.config(job.plan)
        assert each.trace.baseline is not None
        assert each.memory_bytes == 4 * (6_099_648 + 1_229_376)
    found = job.comparison
    assert found is not None
    assert found.complete
    assert found.verdict.ranking in {(0, 1), (1, 0)}
    assert found.verdict.ratios[0, 1].count == 2
    assert job.comparison is found
    kept = library.comparison_jobs(job.plan.key)
    assert set(kept) == {each.key for each in job.plan.runs()}
    assert {row.name for row in library.find(Query())} == {"γ 2", "γ 8"}


def test_reading_never_blocks_and_stop_ends_the_current_run(worker: Worker, spec: PairSpec) -> None:
    short = plan(spec, spec, repeats=1)
    lanes = [
        replace(each, config=replace(each.config, max_new_tokens=1000)) for each in short.lanes
    ]
    reported: list[Run] = []
    maker = WorkerMaker(worker, "work", reported.append)
    with in_a_thread(ComparisonJob(replace(short, lanes=tuple(lanes)), maker, None)) as job:
        wait_until(lambda: reported and reported[0].rounds)
        assert (job.state, job.progress, job.comparison) == ("running", (0, 2), None)
        assert job.doing.endswith("repeat 1 of 1")
        assert not reported[0].finished
        job.stop()
        assert job.wait(60)
        assert (job.state, job.was_stopped, job.error) == ("stopped", True, None)
        assert reported[0].state == "stopped"


def test_interrupted_comparison_continues(worker: Worker, spec: PairSpec, library: Library) -> None:
    asked = plan(spec, spec)
    first = work_of(asked, worker, library)
    first.prepare()
    made = first.make_missing()
    next(made)
    next(made)
    assert first.comparison is not None  # of the runs so far
    assert not first.comparison.complete
    second = carried_out(work_of(asked, worker, library))
    assert (second.state, second.found, second.progress) == ("done", 2, (4, 4))
    kept = {each.job: each.trace for each in second.measured}
    assert all(kept[each.job] == each.trace for each in first.measured)
    fresh = work_of(asked, worker, library, reuse="none")
    fresh.prepare()
    next(fresh.make_missing())
    assert fresh.found == 0
    again = work_of(asked, worker, library)
    again.prepare()
    assert [each.trace for each in again.measured] == [each.trace for each in fresh.measured]


def test_stores_the_kind_and_memory_with_the_run(
    worker: Worker, spec: PairSpec, pair: Pair, library: Library
) -> None:
    place_step_costs(pair, "prompt-lookup")
    asked = plan(spec, spec, repeats=1)
    lookup = replace(asked.lanes[1], config=replace(CONFIG, drafter="prompt-lookup"))
    own = SuiteItem(prompt="Tom had a big red ball. He", kind="recipes")
    asked = replace(asked, items=(own,), lanes=(asked.lanes[0], lookup))
    reported: list[Run] = []
    worker._on_over = reported.append
    job = carried_out(work_of(asked, worker, library))
    worker._on_over = None
    assert job.state == "done"
    rows = library.find(Query(kinds=("recipes",)))
    memories = {row.summary.drafter: row.memory_bytes for row in rows}
    assert memories == {"model": 4 * (6_099_648 + 1_229_376), "prompt-lookup": 4 * 6_099_648}
    kinds = {run.trace.prompt.kind for run in reported if run.trace}
    assert kinds == {"recipes"}  # whichever stores the run first


def test_unwritable_library_does_not_end_a_comparison(
    worker: Worker, spec: PairSpec, tmp_path: Path
) -> None:
    (tmp_path / "runs.db").mkdir()
    job = work_of(plan(spec, spec, repeats=1), worker, Library(tmp_path / "runs.db"))
    carried_out(job)
    assert (job.state, len(job.measured)) == ("done", 2)
    assert isinstance(job.unkept, SpecvizError)


def test_names_a_prompt_that_does_not_fit_before_any_run(
    worker: Worker, spec: PairSpec, library: Library
) -> None:
    asked = replace(plan(spec, spec, repeats=1), items=(ITEM, SuiteItem(prompt="word " * 3000)))
    job = carried_out(work_of(asked, worker, library))
    assert (job.state, job.progress) == ("failed", (0, 4))
    assert str(job.error).startswith("Prompt 2 of 2: The prompt has ")
    assert job.comparison is None


def test_dead_worker_fails_its_job_and_the_next_continues(
    new_worker: Worker, spec: PairSpec, library: Library
) -> None:
    asked = plan(spec, spec, repeats=1)
    lanes = tuple(
        replace(each, config=replace(each.config, max_new_tokens=1000)) for each in asked.lanes
    )
    reported: list[Run] = []
    job = ComparisonJob(
        replace(asked, lanes=lanes), WorkerMaker(new_worker, "work", reported.append), library
    )
    with in_a_thread(job):
        wait_until(lambda: reported and reported[0].rounds, 120)
        assert new_worker.pid is not None
        os.kill(new_worker.pid, signal.SIGKILL)
        assert job.wait(60)
    assert job.state == "failed"
    assert job.error is not None
    assert carried_out(work_of(asked, new_worker, library)).state == "done"


# The queue


def orders(spec: PairSpec, *seeds: int, **changes: Any) -> list[RunOrder]:
    return [
        RunOrder(
            label=f"seed {seed}",
            spec=spec,
            prompt=ITEM.prompt,
            config=replace(CONFIG, seed=seed, **changes),
        )
        for seed in seeds
    ]


def runs_work(
    worker: Worker, asked: Sequence[RunOrder], conclude: Callable[..., object] = print
) -> RunsJob:
    return RunsJob(asked, WorkerMaker(worker, "work"), name="runs", label="x", conclude=conclude)


def test_one_job_at_a_time(worker: Worker, spec: PairSpec) -> None:
    queue, ended = JobQueue(lambda job: ended.append(job.id)), list[str]()
    first = runs_work(worker, orders(spec, 1, 2))
    stopped = runs_work(worker, orders(spec, 3))
    last = runs_work(worker, orders(spec, 4))
    for job in (first, stopped, last):
        queue.start(job)
    assert queue.going[0] is first
    assert last.doing == "waiting for its turn"
    stopped.stop()
    assert (stopped.state, stopped.going) == ("stopped", False)
    mine = worker.submit("a", spec, ITEM.prompt, CONFIG, baseline=False)  # a tab's own run
    assert last.wait(120)
    assert mine.wait(60)
    assert (first.state, last.state, mine.state) == ("done", "done", "done")
    assert first.progress == (2, 2)
    wait_until(lambda: ended == [first.id, last.id])
    assert queue.going == ()
    assert queue.newest("runs") is last
    assert queue.find(first.id) is first


def test_closing_the_queue_is_not_a_stop_by_the_user(worker: Worker, spec: PairSpec) -> None:
    ended: list[str] = []
    queue = JobQueue(lambda job: ended.append(job.id))
    job = runs_work(worker, orders(spec, 1, max_new_tokens=1000))
    queue.start(job)
    wait_until(lambda: job.doing.endswith("seed 1"))
    queue.close()
    assert job.wait(60)
    wait_until(lambda: queue._thread is None)
    assert (job.state, ended) == ("stopped", [])


def test_failed_run_fails_the_job(worker: Worker, spec: PairSpec) -> None:
    seen: list[object] = []
    bad = replace(orders(spec, 2)[0], prompt="")
    job = runs_work(worker, [*orders(spec, 1), bad, *orders(spec, 3)], seen.append)
    job.carry_out()
    assert (job.state, job.progress, seen) == ("failed", (1, 3), [])
    assert isinstance(job.error, PromptError)


def test_rejects_results_that_cannot_be_compared(worker: Worker, spec: PairSpec) -> None:
    def refuse(_traces: object) -> None:
        raise SpecvizError("Too few.", remedy="Run more.")

    job = runs_work(worker, orders(spec, 1), refuse)
    job.carry_out()
    assert (job.state, str(job.error)) == ("failed", "Too few. Run more.")


def test_closed_worker_stops_the_job_without_a_request(new_worker: Worker, spec: PairSpec) -> None:
    job = runs_work(new_worker, orders(spec, 1, max_new_tokens=1000))
    queue = JobQueue()
    queue.start(job)
    wait_until(lambda: job.doing.endswith("seed 1") and new_worker.busy)
    new_worker.close()
    assert job.wait(60)
    assert (job.state, job.was_stopped) == ("stopped", False)


# Pairs that do not fit together


class Checker:
    """A maker that knows the memory of each pair, and runs nothing."""

    doing = ""

    def __init__(self, free: int | None, error: SpecvizError | None = None) -> None:
        self.free, self.error = free, error
        self.checked: list[PairSpec] = []

    def check(self, spec: PairSpec, prompts: Sequence[TypedPrompt], *, chat: bool) -> PairCheck:
        self.checked.append(spec)
        if self.error is not None:
            raise self.error
        model = ModelCheck(name="m", family="llama", parameters=10**9, bytes_to_fetch=0)
        return PairCheck(
            target=model, draft=model, vocabulary=10, memory_needed=4 * 10**9, memory_free=self.free
        )

    def find(self, spec: PairSpec, study: Study) -> Iterator[object]:
        raise AssertionError("nothing is studied")

    def make(self, order: RunOrder) -> MadeRun:
        raise AssertionError(order)

    def stop(self) -> None:
        pass


ONE, TWO = PairSpec(name="one"), PairSpec(name="two")


@pytest.mark.parametrize(
    ("free", "order"), [(64 * 10**9, "interleaved"), (8 * 10**9, "blocks"), (None, "blocks")]
)
def test_alternates_pairs_that_do_not_fit_together(free: int | None, order: str) -> None:
    checker = Checker(free)
    job = ComparisonJob(plan(ONE, TWO, ONE), checker, None)
    job.prepare()
    assert (job.state, job.plan.order) == ("running", order)
    assert job.blocks == (("one", "two") if order == "blocks" else ())
    assert checker.checked == [ONE, TWO]


def test_unreadable_pair_fails_the_job() -> None:
    checker = Checker(None, PairError("No such pair.", remedy="Choose another."))
    job = ComparisonJob(plan(ONE, TWO), checker, None)
    job.carry_out()
    assert (job.state, str(job.error)) == ("failed", "No such pair. Choose another.")
