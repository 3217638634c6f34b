"""Several processes write to one data folder at once: nothing is lost or duplicated."""

from __future__ import annotations

import multiprocessing
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.comparison.plan import Lane, Plan, SuiteItem
from specviz.comparison.unfinished_plans import forget, remember, remembered
from specviz.errors import StoreError
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig, Trace
from specviz.store import Library, NewRun, Query, change_value, load_value
from specviz.store.saving import save_run, summary_of
from specviz.store.schema import VERSION
from specviz.values import Value
from tests.store.test_library_schema import write_schema
from tests.traces import make_trace

PROCESSES = 4
STEPS = 40
SHARED = 3  # traces that every process imports
NOTE = "<b>\u202e*note*\0" * 100

pytestmark = pytest.mark.timeout(120)


def crowd(act: Callable[[int], object]) -> None:
    """Call ``act`` with 0, 1, … in processes that start together; all must succeed."""
    context = multiprocessing.get_context("fork")
    gate = context.Barrier(PROCESSES)

    def begin(number: int) -> None:
        gate.wait(30)
        act(number)

    processes = [context.Process(target=begin, args=(each,)) for each in range(PROCESSES)]
    for each in processes:
        each.start()
    for each in processes:
        each.join(100)
    assert [each.exitcode for each in processes] == [0] * PROCESSES


def trace_of(number: int) -> Trace:
    return replace(make_trace(["aar", "rdd"]), created=f"2026-01-01T00:00:{number:02}+00:00")


def new_run(number: int) -> NewRun:
    trace = trace_of(number)
    return NewRun(trace=trace, summary=summary_of(trace), name=f"shared {number}")


@pytest.mark.parametrize(
    "schema", [0, *(pytest.param(each, marks=pytest.mark.thorough) for each in (1, 4, VERSION - 1))]
)
def test_processes_write_concurrently_without_losing_or_duplicating_runs(
    tmp_path: Path, schema: int
) -> None:
    path = tmp_path / "runs.db"
    if schema:
        write_schema(path, schema)

    def act(number: int) -> None:
        chance, library, own = random.Random(number), Library(path), list[str]()
        for step in range(STEPS):
            _one_act(library, chance, own, number, step)

    crowd(act)
    library = Library(path)
    own = library.find(Query(search="own"))
    assert len(own) == PROCESSES
    assert all(each.note == NOTE.replace("\0", "\ufffd") for each in own)
    assert {each.tags for each in own} == {(f"of {number}",) for number in range(PROCESSES)}
    shared = [
        *library.find(Query(search="shared")),
        *library.find(Query(search="shared", deleted=True)),
    ]
    names = [each.name for each in shared]
    assert len(set(names)) == len(names) <= SHARED
    assert len(library.comparisons()) == 1
    assert [library.open(each.id).finish for each in own]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == VERSION
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert not db.execute("PRAGMA foreign_key_check").fetchall()
        counts = [
            db.execute(f"SELECT count(*) FROM {each}").fetchone()[0] for each in ("runs", "traces")
        ]
    assert counts[0] == counts[1]


def _one_act(
    library: Library, chance: random.Random, own: list[str], number: int, step: int
) -> None:
    if step == 0:  # the run that only this process writes to
        own.append(save_run(library, trace_of(50), name=f"own {number}"))
        library.annotate(own[0], tags=[f"of {number}"])
    match step % 8:
        case 0:
            library.annotate(own[0], note=NOTE)
        case 1 | 2:
            library.add_unless_there(new_run(chance.randrange(SHARED)))
        case 3:
            library.begin_comparison("key", "{}", "title")
            save_run(library, trace_of(51), comparison="key", job=(0, number, step), name="job")
        case 4:
            library.delete([each.id for each in library.find(Query(search="shared"))])
        case 5:
            library.restore(
                [each.id for each in library.find(Query(search="shared", deleted=True))]
            )
        case 6:
            for row in library.find(Query(search="shared")):
                with suppress(StoreError):  # another process may have purged it
                    library.annotate(row.id, note=f"seen by {number}")
            library.complete_older(0.0)
        case _:
            library.purge(older_than_days=chance.choice((0.0, 1.0)))
            library.facets()
            library.count()


def test_a_trace_imported_by_all_processes_is_stored_once(tmp_path: Path) -> None:
    library = Library(tmp_path / "runs.db")
    crowd(lambda _number: [library.add_unless_there(new_run(each)) for each in range(20)])
    assert library.count() == 20


class Count(Value):
    count: int


def test_no_change_of_a_stored_value_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))

    def add(count: Count | None) -> Count:
        return Count(count=(count.count if count else 0) + 1)

    def add_all(_number: int) -> None:
        assert all(change_value("counts", "all", Count, add) for _ in range(50))

    crowd(add_all)
    assert load_value("counts", "all", Count) == Count(count=50 * PROCESSES)


def test_change_value_returns_false_without_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").write_text("a file")
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "plain"))
    assert not change_value("counts", "all", Count, lambda _count: Count(count=1))


def test_no_unfinished_plan_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several dashboards on one data folder add and remove their own plans."""
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))

    def plan(number: int) -> Plan:
        lanes = [Lane(spec=PairSpec(), config=RunConfig(gamma=each)) for each in (2, 4)]
        return Plan(lanes=tuple(lanes), items=(SuiteItem(prompt=f"p{number}"),), repeats=1)

    def act(number: int) -> None:
        for step in range(10):
            remember("prompt", plan(100 * number + step))
            if step >= 4:
                forget(plan(100 * number + step))

    crowd(act)
    kept = {each.plan.items[0].prompt for each in remembered()}
    assert kept == {f"p{100 * number + step}" for number in range(PROCESSES) for step in range(4)}
