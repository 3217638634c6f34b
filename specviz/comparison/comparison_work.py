"""Work: runs made one after the other. Any thread may watch it and stop it.

A single thread carries it out, and no page owns it: it goes on when the page is left.
``ComparisonWork`` is what both the command line and the dashboard carry out for a plan.
"""

from __future__ import annotations

import logging
import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from threading import Event, RLock
from typing import Literal

from specviz.comparison.kept_runs import KeptRuns, Reuse
from specviz.comparison.lane_results import LaneRun
from specviz.comparison.plan import Job, Plan
from specviz.comparison.plan_runner import plan_that_fits, run_plan
from specviz.comparison.results import Comparison, compare
from specviz.errors import SpecvizError, StoreError
from specviz.measure.run_makers import MadeRun, RunMaker, RunOrder, StoppedError
from specviz.record.pairs import PairCheck, PairSpec
from specviz.record.trace import Trace
from specviz.store import Library

WorkState = Literal["waiting", "checking", "opening", "running", "done", "failed", "stopped"]

_log = logging.getLogger(__name__)


class Work:
    """``name`` says which sort of work it is, ``label`` is what a page calls it."""

    def __init__(self, maker: RunMaker, *, name: str, label: str) -> None:
        self.id = uuid.uuid4().hex
        self.name, self.label = name, label
        self.error: SpecvizError | None = None
        self._maker = maker
        self._state: WorkState = "waiting"
        self._stop = Event()
        self._over = Event()
        self._order: RunOrder | None = None
        self._seconds: list[float] = []

    @property
    def state(self) -> WorkState:
        return self._state

    @property
    def going(self) -> bool:
        """Whether it is under way or waits for its turn."""
        return not self._over.is_set()

    @property
    def was_stopped(self) -> bool:
        """Whether somebody asked it to stop, in whatever state it is."""
        return self._stop.is_set()

    @property
    def progress(self) -> tuple[int, int]:
        """How many runs are finished, and how many are planned."""
        raise NotImplementedError

    @property
    def seconds_left(self) -> float | None:
        """Estimated from the median run so far; None before the first has ended."""
        if not self._seconds:
            return None
        done, planned = self.progress
        return statistics.median(self._seconds) * (planned - done)

    @property
    def doing(self) -> str:
        """What takes the time now, in words."""
        if self._state == "waiting":
            return "waiting for its turn"
        if self._order is None:
            return "beginning"
        return ": ".join(part for part in (self._maker.doing, self._order.label) if part)

    def carry_out(self) -> None:
        """Do all of it in the caller's thread. What goes wrong is left in ``error``."""
        try:
            self._check_stop()
            self._work()
        except StoppedError:
            self._end("stopped")
        except SpecvizError as error:
            self.error = error
            self._end("failed")
        except Exception as error:
            _log.exception("The runs broke off")
            self.error = SpecvizError(
                f"The runs broke off because of an unexpected error ({type(error).__name__}).",
                remedy="Start again; if it happens again, report it with the text in the terminal.",
            )
            self._end("failed")
        else:
            self._end("done")

    def stop(self) -> None:
        """End it. Finished runs are kept; the one under way is not."""
        self._stop.set()
        self._maker.stop()
        if self._state == "waiting":
            self._end("stopped")

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is over; says whether it is."""
        return self._over.wait(seconds)

    def _work(self) -> None:
        raise NotImplementedError

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise StoppedError

    def _make(self, order: RunOrder) -> MadeRun:
        self._check_stop()
        self._order = order
        began = time.monotonic()
        made = self._maker.make(order)
        if not order.warm_up:
            self._seconds.append(time.monotonic() - began)
        return made

    def _end(self, state: WorkState) -> None:
        self._state = state
        self._over.set()


class RunsWork(Work):
    """Hands the traces of all its runs to ``conclude`` at the end, which may refuse them."""

    def __init__(
        self,
        orders: Sequence[RunOrder],
        maker: RunMaker,
        *,
        name: str,
        label: str,
        conclude: Callable[[tuple[Trace, ...]], object],
    ) -> None:
        super().__init__(maker, name=name, label=label)
        self._orders = tuple(orders)
        self._conclude = conclude
        self._traces: list[Trace] = []

    @property
    def progress(self) -> tuple[int, int]:
        return len(self._traces), len(self._orders)

    def _work(self) -> None:
        self._state = "running"
        for order in self._orders:
            self._traces.append(self._make(order).trace)
        self._conclude(tuple(self._traces))


class ComparisonWork(Work):
    """Carries out a plan; without a ``library`` no run is kept.

    The pairs and the prompts are checked first. Pairs that do not fit into memory together are
    taken one after the other, in blocks. Runs of the same plan that the library holds, made with
    the same models on the same machine, are opened and not made again, so a comparison that was
    interrupted goes on where it was. A run that cannot be kept ends the work if ``must_keep``;
    otherwise the runs go on, and ``unkept`` says why they are not kept.
    """

    def __init__(
        self,
        plan: Plan,
        maker: RunMaker,
        library: Library | None,
        *,
        name: str = "comparison",
        title: str = "",
        reuse: Reuse = "any",
        must_keep: bool = False,
    ) -> None:
        super().__init__(maker, name=name, label=title or " against ".join(plan.labels))
        self.plan = plan
        self.found = 0  # runs that the library held already
        self.changed = False  # it held such runs, but of other models or another machine
        self.unkept: SpecvizError | None = None
        self._library, self._must_keep = library, must_keep
        self._reuse: Reuse = reuse
        self._kept: KeptRuns | None = None
        self._measured: dict[Job, LaneRun] = {}
        self._comparison: tuple[int, Comparison] | None = None
        self._lock = RLock()  # several threads may read the runs and compare them

    @property
    def progress(self) -> tuple[int, int]:
        return len(self._measured), len(self.plan.jobs())

    @property
    def doing(self) -> str:
        match self._state:
            case "checking":
                return "looking at the pairs and the prompts"
            case "opening":
                return "opening the kept runs"
            case _:
                return super().doing

    @property
    def blocks(self) -> tuple[str, ...]:
        """The pairs in the order they are run; empty if they fit into memory together."""
        if self.plan.order == "interleaved":
            return ()
        return tuple(dict.fromkeys(lane.spec.label for lane in self.plan.lanes))

    @property
    def measured(self) -> tuple[LaneRun, ...]:
        """The finished runs, in the order of the plan."""
        with self._lock:
            there = dict(self._measured)
        return tuple(there[job] for job in self.plan.jobs() if job in there)

    @property
    def comparison(self) -> Comparison | None:
        """Of the finished runs, worked out once for them; None until every lane has one."""
        with self._lock:
            measured = self.measured
            if len({each.job.lane for each in measured}) < len(self.plan.lanes):
                return None
            if self._comparison is None or self._comparison[0] != len(measured):
                self._comparison = len(measured), compare(self.plan, measured)
            return self._comparison[1]

    def prepare(self) -> None:
        """Check the pairs and the prompts, and open the kept runs; raises SpecvizError."""
        self._state = "checking"
        checks = self._checks()
        self.plan = plan_that_fits(self.plan, checks)
        self._state = "opening"
        self._open_kept(checks)
        self._state = "running"

    def make_missing(self) -> Iterator[LaneRun]:
        """Make the missing runs and yield each once it is kept; raises what breaks it off."""
        done = {job.key for job in self._measured}
        return run_plan(self.plan, self._make, self._keep, done)

    def _work(self) -> None:
        self.prepare()
        for _ in self.make_missing():
            pass

    def _checks(self) -> dict[PairSpec, PairCheck]:
        prompts, chat = [item.prompt for item in self.plan.items], self.plan.lanes[0].config.chat
        specs = dict.fromkeys(lane.spec for lane in self.plan.lanes)
        found: dict[PairSpec, PairCheck] = {}
        for spec in specs:
            self._check_stop()
            found[spec] = self._maker.check(spec, prompts, chat=chat)
        return found

    def _open_kept(self, checks: dict[PairSpec, PairCheck]) -> None:
        if self._library is None:
            return
        present = {spec: each.present for spec, each in checks.items() if each.present}
        try:
            kept = KeptRuns(self.plan, self._library, present, title=self.label, reuse=self._reuse)
        except StoreError as error:
            self._cannot_keep(error)
            return
        while kept.opening:
            self._check_stop()
            kept.open_next()
        with self._lock:
            self._measured = {run.job: run for run in kept.runs}
        self._kept, self.found, self.changed = kept, len(kept.runs), kept.changed

    def _keep(self, made: LaneRun, run_id: str | None) -> None:
        if self._kept is not None:
            try:
                self._kept.keep(made, run_id=run_id)
            except StoreError as error:
                self._cannot_keep(error)
        with self._lock:
            self._measured[made.job] = made

    def _cannot_keep(self, error: StoreError) -> None:
        if self._must_keep:
            raise error
        self.unkept, self._kept = error, None
