"""Generations of stored runs: which one is continued, and that none are mixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.comparison import LaneRun, compare
from specviz.comparison.kept_runs import KeptRuns, Reuse
from specviz.comparison.plan import Plan, PlannedRun
from specviz.errors import SpecvizError
from specviz.record.pairs import PairSpec, Presence
from specviz.record.trace import Environment, Trace
from specviz.store import Library
from tests.comparison.synthetic import make_plan, run_of
from tests.traces import make_trace

PLAN = make_plan(2, 8, repeats=2)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "runs.db")


def now(trace: Trace | None = None, **changed: str | None) -> dict[PairSpec, Presence]:
    """Return the presence that matches the trace, apart from the changed fields."""
    trace = trace or make_trace()
    assert trace.pair.draft is not None
    found = Presence(
        target_sha256=trace.pair.target.weights_sha256,
        draft_sha256=trace.pair.draft.weights_sha256,
        environment=trace.environment,
    )
    return {PairSpec(): replace(found, **changed)}


def opened(
    library: Library, present: dict[PairSpec, Presence] | None = None, reuse: Reuse = "any"
) -> KeptRuns:
    kept = KeptRuns(PLAN, library, present or now(), title="", reuse=reuse)
    while kept.opening:
        kept.open_next()
    return kept


def keep(kept: KeptRuns, run: LaneRun) -> None:
    kept.keep_together([(run, None)])


def keep_all(kept: KeptRuns, jobs: Sequence[PlannedRun] = PLAN.runs()) -> KeptRuns:
    for job in jobs:
        keep(kept, run_of(PLAN, job))
    return kept


def elsewhere(environment: Environment, plan: Plan, job: PlannedRun) -> LaneRun:
    run = run_of(plan, job)
    return replace(run, trace=replace(run.trace, environment=environment))


def retrained(run: LaneRun) -> LaneRun:
    pair = run.trace.pair
    assert pair.draft is not None
    other = replace(pair, draft=replace(pair.draft, weights_sha256="f" * 64))
    return replace(run, trace=replace(run.trace, pair=other))


def test_stored_runs_are_reused(library: Library) -> None:
    first = keep_all(opened(library), PLAN.runs()[:3])
    again = opened(library)
    assert again.key == first.key == PLAN.key
    assert {run.job: run for run in again.runs} == {run.job: run for run in first.runs}
    assert not again.changed


def test_stopped_and_mismatched_runs_are_made_again(library: Library) -> None:
    one, two, three, four = PLAN.runs()
    kept = keep_all(opened(library), [one])
    keep(kept, replace(run_of(PLAN, two), trace=make_trace(config=two.config(PLAN))))  # no baseline
    stopped = run_of(PLAN, three)
    keep(kept, replace(stopped, trace=replace(stopped.trace, finish="stopped")))
    keep(kept, replace(run_of(PLAN, four), trace=run_of(PLAN, one).trace))
    assert [run.job for run in opened(library).runs] == [one]


@pytest.mark.parametrize(
    "changed",
    [
        now(target_sha256="0" * 64),
        now(draft_sha256="0" * 64),
        now(replace(make_trace(), environment=replace(make_trace().environment, device="cuda"))),
        now(replace(make_trace(), environment=replace(make_trace().environment, cpu="another"))),
        now(
            replace(
                make_trace(), environment=replace(make_trace().environment, versions={"torch": "9"})
            )
        ),
    ],
)
def test_runs_of_other_models_or_machines_begin_a_new_generation(
    library: Library, changed: dict[PairSpec, Presence]
) -> None:
    keep_all(opened(library))
    other = opened(library, changed)
    assert (other.key, other.runs, other.changed) == (f"{PLAN.key}.2", [], True)
    assert len(opened(library).runs) == 4  # the old generation is unchanged


def test_unknown_weights_and_other_threads_keep_the_generation(
    library: Library,
) -> None:
    keep_all(opened(library))
    threads = replace(make_trace().environment, threads=64)
    present = now(replace(make_trace(), environment=threads), target_sha256=None, draft_sha256=None)
    assert len(opened(library, present).runs) == 4


def test_a_run_of_other_weights_is_not_stored(library: Library) -> None:
    jobs = PLAN.runs()
    kept = keep_all(opened(library), jobs[:3])
    for _ in range(2):
        with pytest.raises(SpecvizError, match="changed after its first runs were stored"):
            keep(kept, retrained(run_of(PLAN, jobs[3])))
        assert library.count() == 3
        kept = opened(library)
        assert len(kept.runs) == 3


def test_a_mixed_generation_is_not_used(library: Library) -> None:
    *before, last = PLAN.runs()
    keep_all(opened(library), before)
    mixed = KeptRuns(PLAN, library, now(), title="")  # without opening any run
    keep(mixed, retrained(run_of(PLAN, last)))
    unknown = now(target_sha256=None, draft_sha256=None)
    found = opened(library, unknown)
    assert (found.runs, found.changed, found.key) == ([], True, f"{PLAN.key}.2")


@pytest.mark.parametrize(
    ("begun", "reuse", "generation", "found"),
    [
        (4, "any", 1, 4),
        (4, "unfinished", 2, 0),
        (4, "restarted", 2, 0),
        (4, "none", 2, 0),
        (3, "any", 1, 3),
        (3, "unfinished", 1, 3),
        (3, "restarted", 2, 0),
        (3, "none", 2, 0),
        (0, "any", 1, 0),
        (0, "restarted", 2, 0),
    ],
)
def test_reuse_decides_which_generation_is_continued(
    library: Library, begun: int, reuse: Reuse, generation: int, found: int
) -> None:
    keep_all(opened(library), PLAN.runs()[:begun])
    kept = opened(library, reuse=reuse)
    assert kept.key == (PLAN.key if generation == 1 else f"{PLAN.key}.{generation}")
    assert len(kept.runs) == found


def test_an_interrupted_restart_is_continued_unless_reuse_is_none(
    library: Library,
) -> None:
    keep_all(opened(library))
    keep_all(opened(library, reuse="restarted"), PLAN.runs()[:1])
    for reuse in ("restarted", "unfinished", "any"):
        kept = opened(library, reuse=reuse)
        assert (kept.key, len(kept.runs)) == (f"{PLAN.key}.2", 1)
    assert opened(library, reuse="none").key == f"{PLAN.key}.3"


def test_runs_of_one_lane_on_two_machines_are_noted() -> None:
    environment = replace(make_trace().environment, threads=7)
    *most, last = PLAN.runs()
    runs = [run_of(PLAN, job) for job in most]
    here = compare(PLAN, [*runs, run_of(PLAN, last)])
    assert not any("same machine" in note for note in here.verdict.notes)
    found = compare(PLAN, [*runs, elsewhere(environment, PLAN, last)])
    assert any("same machine" in note for note in found.verdict.notes)
