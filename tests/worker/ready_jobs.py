"""The dashboard's comparison with a worker that answers at once, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.kept_runs import Reuse
from specviz.comparison.plan import Lane, Plan, SuiteItem
from specviz.errors import SpecvizError
from specviz.record.pairs import ModelCheck, PairCheck, PairSpec, Presence
from specviz.record.trace import RunConfig
from specviz.store import Library
from specviz.store.saving import save_run
from specviz.worker.parent.client import Worker
from specviz.worker.parent.handles import Check, Run
from specviz.worker.parent.worker_maker import WorkerMaker
from tests.traces import Passes, make_trace, timed

REPEATS = 50
PLAN = Plan(
    lanes=tuple(Lane(spec=PairSpec(), config=RunConfig(gamma=gamma)) for gamma in (2, 8)),
    items=(SuiteItem(prompt="Once", kind="own"), SuiteItem(prompt="upon")),
    repeats=REPEATS,
)


class ReadyWorker:
    """A worker whose runs end when submitted, and are stored as by the dashboard."""

    def check(self, spec: PairSpec, prompts: Sequence[str] = (), *, chat: bool = False) -> Check:
        trace, check = make_trace(), Check()
        draft = trace.pair.draft
        present = Presence(
            target_sha256=trace.pair.target.weights_sha256,
            draft_sha256=draft.weights_sha256 if draft else None,
            environment=trace.environment,
        )
        model = ModelCheck(name="m", family="llama", parameters=9, bytes_to_fetch=0)
        found = PairCheck(
            target=model, draft=model, vocabulary=9, memory_needed=1, memory_free=2, present=present
        )
        check.end(found, None)
        return check

    def submit(
        self, session: str, spec: PairSpec, prompt: str, config: RunConfig, **settings: Any
    ) -> Run:
        run = Run(session=session, spec=spec, config=config, on_stop=lambda _run: None)
        trace = make_trace(["aa", "ar"], config=config)
        passes = Passes(target=[[0.01] * len(trace.token_ids)] * 2, speculative=[[0.02] * 2] * 2)
        for entry in trace.rounds:
            run.add(entry)
        run.conclude(replace(timed(trace, passes), rounds=()), 100)
        run.end("done")
        if settings["kept"] and run.trace is not None:
            save_run(Library(), run.trace, run_id=run.id)
        return run


def compare_all(words: list[str]) -> int:
    """Report like the command; ``again`` is the button that measures everything again."""
    maker = WorkerMaker(cast("Worker", ReadyWorker()), "work")
    reuse: Reuse = "none" if "again" in words else "any"
    job = ComparisonJob(PLAN, maker, Library(), reuse=reuse, must_keep=True)
    job.prepare()
    done, planned = job.progress
    print(f"{done} of {planned} runs are stored already", file=sys.stderr, flush=True)
    try:
        for _ in job.make_missing():
            print(f"saved {job.progress[0]} of {planned}", file=sys.stderr, flush=True)
    except SpecvizError as error:
        print(error, file=sys.stderr)
        return 2
    return 0
