"""Opening a stored comparison: only complete runs, and no lane with different models."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.comparison.kept_runs import kept_comparison
from specviz.comparison.plan import Lane, Plan, SuiteItem, plan_to_json
from specviz.errors import ConfigError, StoreError
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig, Trace
from specviz.store import Library
from specviz.store.saving import save_run
from tests.traces import make_trace

PLAN = Plan(
    lanes=tuple(Lane(spec=PairSpec(), config=RunConfig(gamma=gamma)) for gamma in (2, 3)),
    items=(SuiteItem(prompt="a"),),
    repeats=2,
    baseline=False,
)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    library = Library(tmp_path / "runs.db")
    library.begin_comparison("key", plan_to_json(PLAN), "one")
    return library


def store_run(library: Library, job: tuple[int, int, int], trace: Trace | None = None) -> str:
    return save_run(library, trace or make_trace(), comparison="key", job=job)


def test_complete_runs_are_returned_in_the_order_of_the_plan(library: Library) -> None:
    store_run(library, (1, 0, 1), replace(make_trace(), finish="stopped"))
    store_run(library, (1, 0, 0))
    bad = store_run(library, (0, 0, 1))
    store_run(library, (0, 0, 0))
    store_run(library, (3, 0, 0))  # a lane that the plan does not have
    with closing(sqlite3.connect(library.path, isolation_level=None)) as db:
        db.execute(
            "UPDATE traces SET body = x'00' WHERE run = (SELECT run FROM runs WHERE id = ?)", (bad,)
        )
    plan, runs = kept_comparison(library, "key")
    assert plan == PLAN
    assert [run.job.key for run in runs] == [(0, 0, 0), (1, 0, 0)]
    assert runs[0].trace == make_trace()


def test_different_models_within_a_lane_are_refused(library: Library) -> None:
    trace = make_trace()
    other = replace(trace.pair, target=replace(trace.pair.target, weights_sha256="another"))
    store_run(library, (0, 0, 0))
    store_run(library, (1, 0, 0), replace(trace, pair=other))  # another lane, another pair
    kept_comparison(library, "key")
    store_run(library, (0, 0, 1), replace(trace, pair=other))
    with pytest.raises(StoreError, match="models changed"):
        kept_comparison(library, "key")


def test_an_invalid_plan_is_refused(library: Library) -> None:
    library.begin_comparison("bad", "{}", "")
    with pytest.raises(ConfigError, match="not a saved plan"):
        kept_comparison(library, "bad")
