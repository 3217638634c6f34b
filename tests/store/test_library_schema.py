"""Schema versions of the library: older ones are migrated, newer ones are refused."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.errors import StoreError
from specviz.store import Library, Query
from specviz.store.saving import save_run, summary_of
from specviz.store.schema import MIGRATIONS, VERSION
from tests.traces import full_trace, make_trace

NO_INTERVAL = {"speedup_low": None, "speedup_high": None}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


def write_schema(path: Path, version: int) -> str:
    """Write a library of that version with a run and a tag."""
    newer = Library(path.parent / "newer.db")
    run_id = save_run(newer, full_trace(), name="old")
    newer.annotate(run_id, tags=["kept"])
    with closing(sqlite3.connect(path)) as db:
        for migration in MIGRATIONS[:version]:
            db.executescript(migration)
        db.execute(f"PRAGMA user_version = {version}")
        db.execute("ATTACH ? AS newer", (str(newer.path),))
        columns = ", ".join(each[1] for each in db.execute("PRAGMA main.table_info(runs)"))
        found = columns.replace("alpha,", "alpha_expected,")
        db.execute(f"INSERT INTO runs ({columns}) SELECT {found} FROM newer.runs")
        db.execute("INSERT INTO traces SELECT * FROM newer.traces")
        db.execute("INSERT INTO tags SELECT * FROM newer.tags")
        db.commit()
    return run_id


@pytest.mark.parametrize("version", range(1, VERSION))
def test_an_older_schema_is_migrated(path: Path, version: int) -> None:
    run_id = write_schema(path, version)
    library = Library(path)
    (row,) = library.find(Query(search="old", tags=("kept",)))
    assert (row.id, row.comparison, row.job) == (run_id, None, None)
    assert row.summary == replace(
        summary_of(full_trace()),
        alpha_observed=summary_of(full_trace()).alpha_observed if version > 3 else None,
        **({} if version > 2 else NO_INTERVAL),
        bodies=summary_of(full_trace()).bodies if version > 5 else None,
        seed=summary_of(full_trace()).seed if version > 7 else None,
        accepted=summary_of(full_trace()).accepted if version > 8 else None,
        weights="" if version > 9 else None,
    )
    assert library.open(run_id) == full_trace()
    assert (row.person, library.facets().persons) == ("", ())
    assert version_of(path) == VERSION
    library.begin_comparison("key", "{}", "new in this schema")
    save_run(library, make_trace(), comparison="key", job=(0, 0, 0))
    assert len(library.comparison_jobs("key")) == 1


def test_a_failed_migration_keeps_the_old_schema(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = write_schema(path, 1)
    broken = (MIGRATIONS[0], MIGRATIONS[1] + "; CREATE TABLE nonsense")
    monkeypatch.setattr("specviz.store.schema.MIGRATIONS", broken)
    with pytest.raises(StoreError):
        Library(path).find()
    assert version_of(path) == 1
    monkeypatch.undo()
    assert Library(path).row(run_id).name == "old"


def test_each_version_is_one_migration(path: Path) -> None:
    save_run(Library(path), make_trace())
    assert version_of(path) == len(MIGRATIONS) == VERSION
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


ACTS = {
    "add": lambda library: save_run(library, make_trace()),
    "find": lambda library: library.find(),
    "open": lambda library: library.open("x"),
    "delete": lambda library: library.delete(["x"]),
    "comparison": lambda library: library.begin_comparison("k", "{}", ""),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("in_log", [False, True], ids=["in the file", "in the log"])
def test_a_newer_schema_is_refused_and_nothing_changes(path: Path, act: str, in_log: bool) -> None:
    save_run(Library(path), make_trace())
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
        if in_log:  # the newer program still runs, so the log is not merged yet
            _refused(path, act)
            return
    _refused(path, act)


def _refused(path: Path, act: str) -> None:
    before = {each: (path.parent / each).read_bytes() for each in os.listdir(path.parent)}
    times = path.stat().st_mtime_ns
    with pytest.raises(StoreError, match="written by a newer specviz") as caught:
        ACTS[act](Library(path))
    assert caught.value.remedy.startswith("Update specviz")
    after = {each: (path.parent / each).read_bytes() for each in os.listdir(path.parent)}
    shared = f"{path.name}-shm"  # shared memory of processes, not stored data
    assert {k: v for k, v in after.items() if k != shared} == {
        k: v for k, v in before.items() if k != shared
    }
    assert path.stat().st_mtime_ns == times


def test_a_database_of_another_program_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (x)")
        db.commit()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="belongs to another program"):
        save_run(Library(path), make_trace())
    assert path.read_bytes() == before
