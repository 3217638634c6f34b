"""A comparison under way: its runs one after the other, each kept as soon as it is over.

A fragment's tick drives it; ``advance`` never waits. Pairs that do not fit into memory together
are taken one after the other, in blocks. What the library holds of the same plan is opened
first and not run again, so a comparison that was broken off goes on where it was. The first run
of each lane warms up and is thrown away.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import streamlit as st

from specviz.comparing import Comparison, Measured, compare
from specviz.errors import SpecvizError
from specviz.keeping import keep
from specviz.lab.comparison import WARM_UP_TOKENS
from specviz.lanes import Job, Order, Plan, order_that_fits, plan_to_json
from specviz.store import Library
from specviz.trace import Trace
from specviz.ui.series import Planned, Series
from specviz.worker.client import Check, Worker

CourseName = Literal["prompt", "suite"]
CourseState = Literal["checking", "opening", "running", "done", "failed", "stopped"]
_OPENING = 0.15  # seconds of a tick for opening kept runs
_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
_KEY = "compare courses"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One run of the course; a warm-up has no job."""

    lane: int
    job: Job | None
    planned: Planned


class Course:
    """``library`` None keeps nothing; ``fresh`` does not look for kept runs."""

    def __init__(
        self, plan: Plan, worker: Worker, session: str, library: Library | None, *, fresh: bool
    ) -> None:
        self.plan, self._jobs = plan, plan.jobs()
        self.found = 0  # runs that were kept from before
        self.error: SpecvizError | None = None
        self.unkept: SpecvizError | None = None  # why runs are not kept any more
        self._worker, self._session, self._library = worker, session, library
        self._measured: dict[Job, Measured] = {}
        self._seconds: list[float] = []
        self._moment = 0.0
        self._steps: tuple[Step, ...] = ()
        self._series: Series | None = None
        self._fresh, self._stopped = fresh, False
        self._comparison: tuple[int, Comparison] | None = None
        self._to_open: deque[tuple[Job, str]] | None = None
        specs = dict.fromkeys(lane.spec for lane in plan.lanes)
        self._checks = [worker.check(spec) for spec in specs] if len(specs) > 1 else []

    @property
    def state(self) -> CourseState:
        if self._series is not None:
            return self._series.state
        if self.error is not None:
            return "failed"
        if self._stopped:
            return "stopped"
        return "checking" if self._to_open is None else "opening"

    @property
    def going(self) -> bool:
        return self.state in {"checking", "opening", "running"}

    @property
    def blocks(self) -> tuple[str, ...]:
        """The pairs in the order they are taken, where they do not fit together."""
        if self.plan.order == "interleaved":
            return ()
        return tuple(dict.fromkeys(lane.spec.label for lane in self.plan.lanes))

    @property
    def progress(self) -> tuple[int, int]:
        """Measured runs there are, and runs planned."""
        return len(self._measured), len(self._jobs)

    @property
    def seconds_left(self) -> float | None:
        """By the median run so far; None before there was one."""
        if not self._seconds:
            return None
        done, planned = self.progress
        return statistics.median(self._seconds) * (planned - done)

    @property
    def measured(self) -> tuple[Measured, ...]:
        """What there is, in the order of the plan."""
        return tuple(self._measured[job] for job in self._jobs if job in self._measured)

    @property
    def comparison(self) -> Comparison | None:
        """Worked out once for the runs there are; None until every lane has one."""
        count = len(self._measured)
        if len({job.lane for job in self._measured}) < len(self.plan.lanes):
            return None
        if self._comparison is None or self._comparison[0] != count:
            self._comparison = count, compare(self.plan, self.measured)
        return self._comparison[1]

    def advance(self) -> None:
        """Open some of what is kept; then take what has finished and submit what is next."""
        if self.state == "checking":
            self._choose_order()
        elif self.state == "opening":
            self._open_some()
        elif self.state == "running" and self._series is not None:
            before = len(self._series.traces)
            self._series.advance()
            self._collect(before)
            self.error = self._series.error

    def stop(self) -> None:
        """The run that is under way is not kept; the finished ones are."""
        self._stopped = True
        if self._series is not None:
            self._series.stop()

    def doing(self) -> str:
        """What runs now, in words."""
        if self._series is None:
            looks = "looking whether the pairs fit into memory together"
            return looks if self._to_open is None else "opening the runs that are kept"
        done, planned = self._series.progress
        step = self._steps[min(done, planned - 1)]
        run = self._series.current
        return f"{run.detail}: {step.planned.label}" if run and run.detail else step.planned.label

    def _choose_order(self) -> None:
        if not all(check.done for check in self._checks):
            return
        self.error = next((check.error for check in self._checks if check.error), None)
        if self.error is None:
            if self._checks:
                self.plan = replace(self.plan, order=_order(self._checks))
                self._jobs = self.plan.jobs()
            self._to_open = deque(self._begin())

    def _begin(self) -> list[tuple[Job, str]]:
        """Make the plan known to the library, and see what it holds of it."""
        library = self._library
        if library is None:
            return []
        try:
            title = " against ".join(self.plan.labels)
            library.begin_comparison(self.plan.key, plan_to_json(self.plan), title)
            kept = {} if self._fresh else library.comparison_jobs(self.plan.key)
        except SpecvizError as error:
            self._give_up_keeping(error)
            return []
        return [(job, kept[job.key]) for job in self._jobs if job.key in kept]

    def _open_some(self) -> None:
        assert self._to_open is not None
        until = time.monotonic() + _OPENING
        while self._to_open and time.monotonic() < until:
            job, run_id = self._to_open.popleft()
            self._open(job, run_id)
        if not self._to_open:
            self._steps = tuple(self._remaining())
            planned = [step.planned for step in self._steps]
            self._series = Series(self._worker, self._session, planned)
            self._moment = time.monotonic()

    def _open(self, job: Job, run_id: str) -> None:
        """A run that cannot be opened any more is made again."""
        assert self._library is not None
        try:
            trace = self._library.open(run_id)
            memory = self._library.row(run_id).memory_bytes
        except SpecvizError:
            return
        if trace.config == job.config(self.plan):
            self._measured[job] = Measured(job=job, trace=trace, memory_bytes=memory)
            self.found += 1

    def _remaining(self) -> Iterator[Step]:
        cold = set(range(len(self.plan.lanes)))
        for job in self._jobs:
            if job in self._measured:
                continue
            if job.lane in cold:
                cold.discard(job.lane)
                yield self._warm_up(job)
            yield Step(lane=job.lane, job=job, planned=self._planned(job))

    def _planned(self, job: Job) -> Planned:
        label = f"{self.plan.labels[job.lane]}, repeat {job.repeat + 1} of {self.plan.repeats}"
        if len(self.plan.items) > 1:
            label += f", prompt {job.item + 1} of {len(self.plan.items)}"
        return Planned(
            label=label,
            spec=self.plan.lanes[job.lane].spec,
            prompt=self.plan.items[job.item].prompt,
            config=job.config(self.plan),
            baseline=self.plan.baseline,
        )

    def _warm_up(self, job: Job) -> Step:
        planned = self._planned(job)
        short = min(planned.config.max_new_tokens, WARM_UP_TOKENS)
        config = replace(planned.config, max_new_tokens=short)
        label = f"{self.plan.labels[job.lane]}, warming up"
        planned = replace(planned, label=label, config=config, baseline=False, warm_up=True)
        return Step(lane=job.lane, job=None, planned=planned)

    def _collect(self, before: int) -> None:
        assert self._series is not None
        traces = self._series.traces
        for place in range(before, len(traces)):
            now = time.monotonic()
            spent, self._moment = now - self._moment, now
            job, run_id = self._steps[place].job, self._series.run_ids[place]
            if job is not None:
                self._seconds.append(spent)
                self._take(job, traces[place], run_id)

    def _take(self, job: Job, trace: Trace, run_id: str) -> None:
        memory = weights_bytes(trace)
        self._measured[job] = Measured(job=job, trace=trace, memory_bytes=memory)
        if self._library is None:
            return
        name = self.plan.labels[job.lane]
        try:
            keep(
                self._library,
                trace,
                run_id=run_id,
                name=name,
                comparison=self.plan.key,
                job=job.key,
                memory_bytes=memory,
            )
        except SpecvizError as error:
            self._give_up_keeping(error)

    def _give_up_keeping(self, error: SpecvizError) -> None:
        self.unkept, self._library = error, None


def weights_bytes(trace: Trace) -> int | None:
    """What the models that a run needs take; prompt lookup needs no draft model."""
    draft = trace.pair.draft if trace.config.drafter == "model" else None
    parameters = trace.pair.target.parameters + (draft.parameters if draft else 0)
    each = _BYTES.get(trace.environment.dtype.removeprefix("torch."))
    return None if each is None else each * parameters


def _order(checks: Sequence[Check]) -> Order:
    found = [check.result for check in checks if check.result is not None]
    free = [each.memory_free for each in found if each.memory_free is not None]
    needed = [each.memory_needed for each in found]
    return order_that_fits(needed, min(free) if len(free) == len(checks) else None)


@dataclass(slots=True)
class Courses:
    """The comparisons of this session, one of each sort; at most one of them is going."""

    courses: dict[CourseName, Course] = field(default_factory=dict)

    @property
    def going(self) -> CourseName | None:
        return next((name for name, each in self.courses.items() if each.going), None)

    def start(self, name: CourseName, course: Course) -> None:
        going = self.going
        if going is not None:
            self.courses[going].stop()
        self.courses[name] = course


def session_courses() -> Courses:
    return st.session_state.setdefault(_KEY, Courses())
