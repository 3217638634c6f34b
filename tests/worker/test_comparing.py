"""A comparison as the page drives it, on the real worker: to a verdict, broken off, gone on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.comparison.plan import Lane, Plan, SuiteItem
from specviz.engine.model.pair import Pair
from specviz.errors import PairError, SpecvizError
from specviz.record.pairs import ModelCheck, PairCheck, PairSpec
from specviz.record.trace import RunConfig
from specviz.store import Library, Query
from specviz.ui.compare.session import Course, Courses
from specviz.worker.parent.client import Check, Run, Worker
from tests.step_costs import place_step_costs

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


def play(course: Course, until: Callable[[Course], object], seconds: float = 90.0) -> Course:
    began = time.monotonic()
    while course.going and not until(course):
        assert time.monotonic() - began < seconds, course.doing()
        course.advance()
        time.sleep(0.005)
    return course


def never(_course: Course) -> bool:
    return False


def test_two_lanes_come_to_a_verdict_and_are_kept(
    worker: Worker, spec: PairSpec, library: Library
) -> None:
    course = play(Course(plan(spec, spec), worker, "a", library, fresh=False), never)
    assert (course.state, course.progress, course.found) == ("done", (4, 4), 0)
    assert [each.job for each in course.measured] == list(course.plan.jobs())
    for each in course.measured:
        assert each.trace.config == each.job.config(course.plan)
        assert each.trace.baseline is not None
        assert each.memory_bytes == 4 * (6_099_648 + 1_229_376)
    found = course.comparison
    assert found is not None
    assert found.complete
    assert found.verdict.ranking in {(0, 1), (1, 0)}
    assert found.verdict.ratios[0, 1].count == 2
    assert course.comparison is found
    kept = library.comparison_jobs(course.plan.key)
    assert set(kept) == {job.key for job in course.plan.jobs()}
    assert {row.name for row in library.find(Query())} == {"γ 2", "γ 8"}


def run_of(course: Course) -> Run | None:
    return course._series.current if course._series else None


def test_a_tick_never_waits_for_a_run(worker: Worker, spec: PairSpec) -> None:
    short = plan(spec, spec, repeats=1)
    lanes = [
        replace(each, config=replace(each.config, max_new_tokens=1000)) for each in short.lanes
    ]
    course = Course(replace(short, lanes=tuple(lanes)), worker, "a", None, fresh=False)
    play(course, lambda each: (run := run_of(each)) and not run.warm_up and run.rounds)
    spent = []
    for _ in range(5):
        began = time.monotonic()
        course.advance()
        spent.append(time.monotonic() - began)
    assert min(spent) < 0.5  # the least: a machine has other work
    run = run_of(course)
    assert run is not None
    assert run.state == "running"
    course.stop()


def test_what_was_broken_off_goes_on_where_it_was(
    worker: Worker, spec: PairSpec, library: Library
) -> None:
    asked = plan(spec, spec)
    first = play(
        Course(asked, worker, "a", library, fresh=False), lambda course: course.progress[0] == 2
    )
    first.stop()
    assert (first.state, first.progress) == ("stopped", (2, 4))
    assert first.comparison is not None  # of what there is
    assert not first.comparison.complete
    second = play(Course(asked, worker, "a", library, fresh=False), never)
    assert (second.state, second.found, second.progress) == ("done", 2, (4, 4))
    kept = {each.job: each.trace for each in second.measured}
    assert all(kept[each.job] == each.trace for each in first.measured)
    fresh = Course(asked, worker, "a", library, fresh=True)
    play(fresh, lambda course: course.progress[0] == 1)
    assert fresh.found == 0
    fresh.stop()
    again = Course(asked, worker, "a", library, fresh=False)
    play(again, lambda course: course.state == "running")
    assert [each.trace for each in again.measured] == [each.trace for each in fresh.measured]
    again.stop()


def test_a_kind_of_ones_own_and_the_memory_are_kept_with_the_run(
    worker: Worker, spec: PairSpec, pair: Pair, library: Library
) -> None:
    place_step_costs(pair, "prompt-lookup")
    asked = plan(spec, spec, repeats=1)
    lookup = replace(asked.lanes[1], config=replace(CONFIG, drafter="prompt-lookup"))
    own = SuiteItem(prompt="Tom had a big red ball. He", kind="recipes")
    asked = replace(asked, items=(own,), lanes=(asked.lanes[0], lookup))
    told: list[Run] = []
    worker._on_over = told.append
    course = play(Course(asked, worker, "a", library, fresh=False), never)
    worker._on_over = None
    assert course.state == "done"
    rows = library.find(Query(kinds=("recipes",)))
    memories = {row.summary.drafter: row.memory_bytes for row in rows}
    assert memories == {"model": 4 * (6_099_648 + 1_229_376), "prompt-lookup": 4 * 6_099_648}
    kinds = {run.trace.prompt.kind for run in told if run.trace}
    assert kinds == {"recipes"}  # whoever keeps it first


def test_a_library_that_takes_nothing_ends_no_comparison(
    worker: Worker, spec: PairSpec, tmp_path: Path
) -> None:
    (tmp_path / "runs.db").mkdir()
    course = Course(
        plan(spec, spec, repeats=1), worker, "a", Library(tmp_path / "runs.db"), fresh=False
    )
    play(course, lambda each: each.progress[0] == 1)
    assert isinstance(course.unkept, SpecvizError)
    assert len(course.measured) == 1
    course.stop()


def test_a_prompt_that_does_not_fit_is_named_before_any_run(
    worker: Worker, spec: PairSpec, library: Library
) -> None:
    asked = replace(plan(spec, spec, repeats=1), items=(ITEM, SuiteItem(prompt="word " * 3000)))
    course = play(Course(asked, worker, "a", library, fresh=False), never)
    assert (course.state, course.progress) == ("failed", (0, 4))
    assert str(course.error).startswith("Prompt 2 of 2: The prompt has ")
    assert course.comparison is None


# Pairs that do not fit together


class Checker(Worker):
    """Knows what each pair needs; runs nothing."""

    def __init__(self, free: int | None, error: SpecvizError | None = None) -> None:
        super().__init__()
        self.free, self.error = free, error
        self.checks: list[Check] = []

    def check(self, spec: PairSpec, prompts: Sequence[str] = (), *, chat: bool = False) -> Check:
        self.checks.append(Check(spec))
        return self.checks[-1]

    def answer(self) -> None:
        model = ModelCheck(name="m", family="llama", parameters=10**9, bytes_to_fetch=0)
        found = PairCheck(
            target=model, draft=model, vocabulary=10, memory_needed=4 * 10**9, memory_free=self.free
        )
        for each in self.checks:
            each.end(None if self.error else found, self.error)


ONE, TWO = PairSpec(name="one"), PairSpec(name="two")


@pytest.mark.parametrize(
    ("free", "order"), [(64 * 10**9, "interleaved"), (8 * 10**9, "blocks"), (None, "blocks")]
)
def test_pairs_are_taken_in_turn_where_they_do_not_fit(free: int | None, order: str) -> None:
    checker = Checker(free)
    course = Course(plan(ONE, TWO, ONE), checker, "a", None, fresh=False)
    course.advance()
    assert course.state == "checking"
    assert "the pairs" in course.doing()
    checker.answer()
    course.advance()
    assert (course.state, course.plan.order) == ("opening", order)
    assert course.blocks == (("one", "two") if order == "blocks" else ())
    assert len(checker.checks) == 2


def test_a_pair_that_cannot_be_checked_ends_it() -> None:
    checker = Checker(None, PairError("No such pair.", remedy="Choose another."))
    course = Course(plan(ONE, TWO), checker, "a", None, fresh=False)
    checker.answer()
    course.advance()
    assert (course.state, str(course.error)) == ("failed", "No such pair. Choose another.")


def test_one_comparison_at_a_time() -> None:
    courses, checker = Courses(), Checker(None)
    first = Course(plan(ONE, TWO), checker, "a", None, fresh=False)
    courses.start("prompt", first)
    assert courses.going == "prompt"
    courses.start("suite", Course(plan(ONE, TWO), checker, "a", None, fresh=False))
    assert (courses.going, first.state) == ("suite", "stopped")
