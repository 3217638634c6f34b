"""The quota of the run library, on real files."""

from __future__ import annotations

import random
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.errors import StoreError
from specviz.store import Library, NewRun, Query
from specviz.store import quota as quota_module
from specviz.store.quota import trim_library, used_bytes
from specviz.store.saving import summary_of
from tests.traces import make_trace

BIG = 60_000  # characters that hardly compress, so that a run takes several pages


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "home" / "runs.db")


def add(library: Library, run_id: str, day: int, **fields: object) -> str:
    letters = random.Random(run_id).choices("abcdefghijklmnopqrstuvwxyz", k=BIG)
    trace = replace(make_trace(), text="".join(letters))
    summary = replace(summary_of(trace), created=f"2026-01-{day:02}T00:00:00+00:00")
    run = NewRun(trace=trace, summary=summary, run_id=run_id, **fields)  # pyright: ignore[reportArgumentType]
    return library.add(run)


def ids(library: Library) -> set[str]:
    kept = {row.id for row in library.find()}
    return kept | {row.id for row in library.find(Query(deleted=True))}


def test_the_oldest_runs_are_deleted_until_the_library_fits(library: Library) -> None:
    for name, day in (("new", 9), ("mid", 5), ("newest", 10)):
        add(library, name, day)
    quota = used_bytes(library.path) + 20_000  # less than a run
    for name, day in (("old", 1), ("older", 2)):
        add(library, name, day)
    trimmed = trim_library(library.path, quota)
    assert (trimmed.deleted, ids(library)) == (2, {"mid", "new", "newest"})
    assert trimmed.used == used_bytes(library.path) <= quota
    assert not trimmed.exceeds(quota)
    assert trim_library(library.path, quota).deleted == 0
    assert library.open("mid").text


def test_a_library_within_the_quota_is_left_alone(library: Library) -> None:
    add(library, "one", 1)
    assert trim_library(library.path, used_bytes(library.path)).deleted == 0
    assert trim_library(library.path.with_name("none.db"), 0).deleted == 0
    assert not library.path.with_name("none.db").exists()


def test_runs_with_a_name_a_tag_or_a_note_stay(library: Library) -> None:
    add(library, "named", 1, name="mine")
    for name, day in (("tagged", 2), ("noted", 3), ("in the trash", 4), ("plain", 9)):
        add(library, name, day)
    library.annotate("tagged", tags=["shared"])
    library.annotate("noted", note="interesting")
    library.annotate("in the trash", tags=["kept"])
    library.delete(["in the trash"])
    trimmed = trim_library(library.path, 50_000)
    assert trimmed.deleted == 1
    assert ids(library) == {"named", "tagged", "noted", "in the trash"}
    assert trimmed.exceeds(50_000)


def test_the_trash_goes_first_and_comparisons_last(library: Library) -> None:
    library.begin_comparison("key", "{}", "a comparison")
    add(library, "of a comparison", 1, comparison="key", job=(0, 0, 0))
    for name, day in (("old", 2), ("new", 8), ("deleted", 9)):
        add(library, name, day)
    library.delete(["deleted"])
    left = {"of a comparison", "old", "new", "deleted"}
    for name in ("deleted", "old", "new", "of a comparison"):
        assert ids(library) == left
        assert trim_library(library.path, used_bytes(library.path) - 1).deleted == 1
        left -= {name}
    assert ids(library) == set()


def test_the_run_that_was_just_saved_stays(library: Library) -> None:
    add(library, "just saved", 1)
    add(library, "other", 2)
    trimmed = trim_library(library.path, 1, keep=["just saved"])
    assert (trimmed.deleted, ids(library)) == (1, {"just saved"})


def test_the_traces_and_their_pages_are_gone(library: Library) -> None:
    for day in range(1, 6):
        add(library, f"run {day}", day)
    trim_library(library.path, 1)
    with sqlite3.connect(library.path) as db:
        assert db.execute("SELECT count(*) FROM traces").fetchone() == (0,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert used_bytes(library.path) < 150_000


def test_the_file_becomes_smaller(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(1, 6):
        add(library, f"run {day}", day)
    before = library.path.stat().st_size
    monkeypatch.setattr(quota_module, "_MUCH_UNUSED", 50_000)
    trim_library(library.path, 1)
    assert library.path.stat().st_size < before / 2
    add(library, "later", 9)
    assert ids(library) == {"later"}


def test_nothing_is_deleted_while_a_run_is_saved(library: Library) -> None:
    """A save that has begun is finished first, and the runs that it added count."""
    for day in range(1, 4):
        add(library, f"run {day}", day)
    writer = sqlite3.connect(library.path, isolation_level=None, check_same_thread=False)
    writer.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as executor:
        trimming = executor.submit(trim_library, library.path, 1)
        assert not trimming.done()
        assert len(ids(library)) == 3
        writer.execute("INSERT INTO tags (run, tag) SELECT run, 'kept' FROM runs WHERE id='run 1'")
        writer.execute("COMMIT")
        assert trimming.result(20).deleted == 2
    writer.close()
    assert ids(library) == {"run 1"}


def test_runs_saved_meanwhile_are_not_lost(library: Library) -> None:
    add(library, "first", 1)
    with ThreadPoolExecutor(4) as executor:
        saved = [executor.submit(add, library, f"run {n}", 2, name=f"run {n}") for n in range(6)]
        trims = [executor.submit(trim_library, library.path, 1) for _ in range(3)]
        for each in (*saved, *trims):
            each.result(60)
    assert ids(library) - {"first"} == {f"run {n}" for n in range(6)}


def test_a_damaged_library_is_an_error(library: Library) -> None:
    library.path.parent.mkdir()
    library.path.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError):
        trim_library(library.path, 1)
