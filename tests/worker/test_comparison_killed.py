"""Kill the dashboard's comparison at any moment: no reported run is lost or repeated."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from specviz.store import Library
from tests.nursery import Nursery, PlaceInPlan, check_new_runs, forget_runs
from tests.worker.ready_jobs import PLAN

KILLS = (10, pytest.param(30, marks=pytest.mark.thorough))


@pytest.fixture
def nursery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nursery]:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    made = Nursery("tests.worker.ready_jobs", words=[], folder=tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("most", KILLS)
def test_continues_after_being_killed_at_any_moment(nursery: Nursery, most: int) -> None:
    chance, library = random.Random(4), Library()
    total, kills = len(PLAN.runs()), 0
    done: dict[PlaceInPlan, str] = {}
    while kills < most or not done:
        if 2 * len(done) > total:  # the kills came late, so start again with an empty library
            forget_runs(library)
            done = {}
        kills += 1
        nursery.killed(chance, most=6, pause=0.01)
        jobs = library.comparison_jobs(PLAN.key)
        check_new_runs(library, nursery, done, jobs)
        done = jobs
    print(f"{kills} kills, {len(done)} of {total} runs kept")
    assert 0 < len(done) < total
    nursery.start()
    assert nursery.end() == 0
    assert nursery.error_lines()[0] == f"{len(done)} of {total} runs are stored already\n"
    assert len(nursery.reports()) == total - len(done)
    jobs = library.comparison_jobs(PLAN.key)
    assert jobs.items() >= done.items()
    assert [row.num_runs for row in library.comparisons()] == [len(jobs)] == [total]
