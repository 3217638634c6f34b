"""Rows of an older schema get their observed alpha in slices, each read once."""

from __future__ import annotations

import sqlite3
import time
import zlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.figures.metrics import metrics
from specviz.record.trace import Trace
from specviz.store import Library, NewRun, Query
from specviz.store.saving import save_run, summary_of
from tests.store.copied_runs import copy_first_run
from tests.traces import full_trace, make_trace

LIKE_A_VERDICT = '"verdict":"accepted" \\"verdict\\":\\"rejected\\"'
TRACES = {
    "mixed": make_trace(["aar", "rdd", "aaa"]),
    "none accepted": make_trace(["rdd"]),
    "nothing tested": make_trace([""]),
    "every part": full_trace(),
    "a text like a verdict": replace(make_trace(["ar"]), text=LIKE_A_VERDICT),
}


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "runs.db")


def keep_older(library: Library, trace: Trace, day: int = 1, **columns: object) -> str:
    """Add a run whose row is like a migrated one."""
    run_id = save_run(library, replace(trace, created=f"2026-01-{day:02}T00:00:00+00:00"))
    with closing(sqlite3.connect(library.path)) as db:
        db.execute("UPDATE runs SET alpha_observed = NULL, unread = 1 WHERE id = ?", (run_id,))
        for column, value in columns.items():
            db.execute(
                f"UPDATE traces SET {column} = ? WHERE run = (SELECT run FROM runs WHERE id = ?)",
                (value, run_id),
            )
        db.commit()
    return run_id


def alphas(library: Library) -> list[float | None]:
    """Return the alphas, newest run first."""
    return [row.summary.alpha_observed for row in library.find(Query(sort="created"))]


@pytest.mark.parametrize("name", TRACES)
def test_alpha_equals_that_of_the_metrics(library: Library, name: str) -> None:
    run_id = keep_older(library, TRACES[name])
    assert library.complete_older(seconds=0) == 0
    assert library.row(run_id).summary.alpha_observed == metrics(TRACES[name]).alpha_observed


def test_the_newest_rows_are_read_first_and_the_rest_counted(library: Library) -> None:
    for day in (2, 3, 1):
        keep_older(library, make_trace(["ar"]), day)
    assert library.complete_older(seconds=0) == 2
    assert alphas(library) == [0.5, None, None]
    assert library.complete_older(seconds=60) == 0
    assert alphas(library) == [0.5, 0.5, 0.5]


def test_a_current_row_is_not_read_again(library: Library) -> None:
    trace = make_trace(["ar"])
    summary = replace(summary_of(trace), alpha_observed=0.25)
    library.add(NewRun(trace=trace, summary=summary))
    assert library.complete_older(seconds=60) == 0
    assert alphas(library) == [0.25]


@pytest.mark.parametrize(
    "body",
    [b"", b"no trace", zlib.compress(b"x" * 10_000)[:-9], zlib.compress(b"[1, 2]"), "text", 5],
    ids=["empty", "not packed", "cut off", "no run", "a text", "a number"],
)
def test_a_damaged_trace_is_read_once_and_does_not_stop_others(
    library: Library, body: object
) -> None:
    keep_older(library, make_trace(["ar"]), 1)
    damaged = keep_older(library, make_trace(["ar"]), 2, body=body)
    assert library.complete_older(seconds=0) == 1  # the damaged one is the newest
    assert library.row(damaged).summary.alpha_observed is None
    assert library.complete_older(seconds=0) == 0
    assert alphas(library) == [None, 0.5]


def test_a_run_without_a_trace_is_read_once(library: Library) -> None:
    run_id = keep_older(library, make_trace(["ar"]))
    with closing(sqlite3.connect(library.path)) as db:
        db.execute("DELETE FROM traces")
        db.commit()
    assert library.complete_older(seconds=0) == 0
    assert library.row(run_id).summary.alpha_observed is None


def test_a_deleted_run_is_filled_in_too(library: Library) -> None:
    run_id = keep_older(library, make_trace(["ar"]))
    library.delete([run_id])
    assert library.complete_older(seconds=0) == 0
    library.restore([run_id])
    assert library.row(run_id).summary.alpha_observed == 0.5


def test_ten_thousand_rows_are_read_in_slices_of_the_given_time(library: Library) -> None:
    """Measures processor time, since wall time would include other work of a busy machine."""
    keep_older(library, make_trace(["aar", "rdd"] * 20))
    with closing(sqlite3.connect(library.path)) as db:
        copy_first_run(db, 9_999)
        db.execute(
            "INSERT INTO traces SELECT runs.run, first.body FROM runs, traces AS first "
            "WHERE first.run = 1 AND runs.run > 1"
        )
        db.commit()
    began = time.process_time()
    left = library.complete_older(seconds=0.1)
    assert time.process_time() - began < 0.6
    assert 0 < left < 10_000
    while left:
        fewer = library.complete_older(seconds=0.5)
        assert fewer < left
        left = fewer
    assert set(alphas(library)) == {0.5}
