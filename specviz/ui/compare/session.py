"""A comparison under way: its runs one after the other, each kept as soon as it is over.

A fragment's tick drives it; ``advance`` never waits. The pairs and the prompts are looked at
first: pairs that do not fit into memory together are taken one after the other, in blocks. What
the library holds of the same plan, made with the same models on the same machine, is opened and
not run again, so a comparison that was broken off goes on where it was. The first run of each
lane warms up and is thrown away.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import streamlit as st

from specviz.comparison import Comparison, Measured, compare
from specviz.comparison.kept import KeptRuns
from specviz.comparison.plan import Job, Plan
from specviz.comparison.running import WARM_UP_TOKENS, fitting
from specviz.errors import SpecvizError, StoreError
from specviz.store import Library
from specviz.worker.parent.client import Run, Worker
from specviz.worker.series import Planned, Series

CourseName = Literal["prompt", "suite"]
CourseState = Literal["checking", "opening", "running", "done", "failed", "stopped"]
_OPENING = 0.15  # seconds of a tick for opening kept runs
_KEY = "compare courses"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One run of the course; a warm-up has no job."""

    lane: int
    job: Job | None
    planned: Planned


class Course:
    """``library`` None keeps nothing; ``fresh`` measures all of it, apart from what is kept."""

    def __init__(
        self, plan: Plan, worker: Worker, session: str, library: Library | None, *, fresh: bool
    ) -> None:
        self.plan, self._jobs = plan, plan.jobs()
        self.found = 0  # runs that were kept from before
        self.changed = False  # such runs were there, but made with other models or elsewhere
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
        self._kept: KeptRuns | None = None
        self._looked = False
        prompts, chat = [item.prompt for item in plan.items], plan.lanes[0].config.chat
        specs = dict.fromkeys(lane.spec for lane in plan.lanes)
        self._checks = {spec: worker.check(spec, prompts, chat=chat) for spec in specs}

    @property
    def state(self) -> CourseState:
        if self.error is not None:
            return "failed"
        if self._series is not None:
            return self._series.state
        if self._stopped:
            return "stopped"
        return "opening" if self._looked else "checking"

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
            self._look()
        elif self.state == "opening":
            self._open_some()
        elif self.state == "running" and self._series is not None:
            before = len(self._series.traces)
            self._series.advance()
            self._collect(before)
            self.error = self.error or self._series.error

    def stop(self) -> None:
        """The run that is under way is not kept; the finished ones are."""
        self._stopped = True
        if self._series is not None:
            self._series.stop()

    def doing(self) -> str:
        """What runs now, in words."""
        if self._series is None:
            looks = "looking at the pairs and the prompts"
            return "opening the runs that are kept" if self._looked else looks
        done, planned = self._series.progress
        step = self._steps[min(done, planned - 1)]
        run = self._series.current
        return f"{run.detail}: {step.planned.label}" if run and run.detail else step.planned.label

    def _look(self) -> None:
        if not all(check.done for check in self._checks.values()):
            return
        self.error = next((each.error for each in self._checks.values() if each.error), None)
        if self.error is None:
            found = {spec: each.result for spec, each in self._checks.items() if each.result}
            self.plan = fitting(self.plan, found)
            self._jobs = self.plan.jobs()
            self._find_kept()
            self._looked = True

    def _find_kept(self) -> None:
        if self._library is None:
            return
        found = {spec: each.result for spec, each in self._checks.items()}
        present = {spec: each.present for spec, each in found.items() if each and each.present}
        title = " against ".join(self.plan.labels)
        reuse = "none" if self._fresh else "any"
        try:
            self._kept = KeptRuns(self.plan, self._library, present, title=title, reuse=reuse)
        except StoreError as error:
            self.unkept = error

    def _open_some(self) -> None:
        until, kept = time.monotonic() + _OPENING, self._kept
        while kept is not None and kept.opening:
            kept.open_next()
            if time.monotonic() > until:
                return
        if kept is not None:
            self._measured = {run.job: run for run in kept.runs}
            self.found, self.changed = len(kept.runs), kept.changed
        self._steps = tuple(self._remaining())
        planned = [step.planned for step in self._steps]
        self._series = Series(self._worker, self._session, planned)
        self._moment = time.monotonic()

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
            kind=self.plan.items[job.item].kind,
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
        for place, run in enumerate(self._series.finished[before:], before):
            now = time.monotonic()
            spent, self._moment = now - self._moment, now
            job = self._steps[place].job
            if job is not None:
                self._seconds.append(spent)
                self._take(job, run)

    def _take(self, job: Job, run: Run) -> None:
        assert run.trace is not None
        made = Measured(job=job, trace=run.trace, memory_bytes=run.memory_bytes)
        try:
            if self._kept is not None:
                self._kept.keep(made, run_id=run.id)
        except StoreError as error:
            self.unkept, self._kept = error, None
        except SpecvizError as error:  # it does not fit those before
            self.stop()
            self.error = error
            return
        self._measured[job] = made


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
