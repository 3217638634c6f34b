"""Kill the dashboard's comparison at any moment: no reported run is lost or repeated."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from specviz.store import Library
from tests.killing import KilledCommand, PlaceInPlan, check_new_runs, forget_runs
from tests.worker.ready_jobs import PLAN

KILLS = (10, pytest.param(30, marks=pytest.mark.thorough))


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KilledCommand:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    return KilledCommand("tests.worker.ready_jobs:compare_all", words=[], folder=tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("most", KILLS)
def test_continues_after_being_killed_at_any_moment(command: KilledCommand, most: int) -> None:
    chance, library = random.Random(4), Library()
    total, kills = len(PLAN.runs()), 0
    done: dict[PlaceInPlan, str] = {}
    while kills < most or not done:
        if 2 * len(done) > total:  # the kills came late, so start again with an empty library
            forget_runs(library)
            done = {}
        kills += 1
        command.kill_once(chance, most=6, pause=0.01)
        jobs = library.comparison_jobs(PLAN.key)
        check_new_runs(library, command, done, jobs)
        done = jobs
    print(f"{kills} kills, {len(done)} of {total} runs kept")
    assert 0 < len(done) < total
    assert command.start().wait() == 0
    assert command.error_lines()[0] == f"{len(done)} of {total} runs are stored already\n"
    assert len(command.reports()) == total - len(done)
    jobs = library.comparison_jobs(PLAN.key)
    assert jobs.items() >= done.items()
    assert [row.num_runs for row in library.comparisons()] == [len(jobs)] == [total]
