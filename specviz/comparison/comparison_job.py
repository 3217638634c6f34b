"""The job that makes the runs of a comparison, for the command line and the dashboard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import RLock

from specviz.comparison.kept_runs import KeptRuns, Reuse
from specviz.comparison.lane_run import LaneRun
from specviz.comparison.plan import Plan, PlannedRun
from specviz.comparison.plan_runner import Kept, plan_that_fits, run_plan
from specviz.comparison.results import Comparison, compare
from specviz.errors import SpecvizError, StoreError
from specviz.measure.background_job import MakerJob
from specviz.measure.run_makers import RunMaker
from specviz.record.pairs import PairCheck, PairSpec
from specviz.store import Library

_PREPARING = {
    "checking": "checking the pairs and the prompts",
    "opening": "opening stored runs",
}


class ComparisonJob(MakerJob):
    """A job that makes the runs of ``plan``; without a ``library`` no run is stored.

    Pairs and prompts are checked first. If the pairs do not fit into memory together, all runs of
    one pair are made before those of the next pair. Stored runs of this plan are reused if they
    were made with the current models on the current machine, so an interrupted comparison continues
    where it stopped. If a run cannot be stored and ``must_keep`` is true, the job fails. If
    ``must_keep`` is false, the job goes on, and ``unkept`` is the error.
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
        self.found = 0  # number of runs reused from the library
        self.changed = False  # stored runs were skipped: other models or machine
        self.unkept: SpecvizError | None = None
        self._library, self._must_keep = library, must_keep
        self._reuse: Reuse = reuse
        self._kept: KeptRuns | None = None
        self._measured: dict[PlannedRun, LaneRun] = {}
        self._comparison: tuple[int, Comparison] | None = None
        self._lock = RLock()  # several threads read the runs and compare them

    @property
    def progress(self) -> tuple[int, int]:
        return len(self._measured), len(self.plan.runs())

    @property
    def doing(self) -> str:
        return _PREPARING.get(self._state) or super().doing

    @property
    def blocks(self) -> tuple[str, ...]:
        """Return the labels of the pairs in running order; empty if the pairs alternate."""
        if self.plan.order == "interleaved":
            return ()
        return tuple(dict.fromkeys(lane.spec.label for lane in self.plan.lanes))

    @property
    def measured(self) -> tuple[LaneRun, ...]:
        """Return the finished runs in the order of the plan."""
        with self._lock:
            finished = dict(self._measured)
        return tuple(finished[run] for run in self.plan.runs() if run in finished)

    @property
    def run_ids(self) -> dict[tuple[int, int, int], str]:
        """Return the ids of the stored runs by the indices of (lane, prompt, repeat)."""
        if self._library is None or self._kept is None:
            return {}
        return self._library.comparison_jobs(self._kept.key)

    @property
    def comparison(self) -> Comparison | None:
        """Return the comparison of the finished runs (cached).

        Return None until each lane has a finished run.
        """
        with self._lock:
            measured = self.measured
            if len({each.job.lane for each in measured}) < len(self.plan.lanes):
                return None
            if self._comparison is None or self._comparison[0] != len(measured):
                self._comparison = len(measured), compare(self.plan, measured)
            return self._comparison[1]

    def prepare(self) -> None:
        """Check pairs and prompts, and open stored runs; raise SpecvizError if a check fails."""
        self._state = "checking"
        checks = self._checks()
        self.plan = plan_that_fits(self.plan, checks)
        self._state = "opening"
        self._open_kept(checks)
        self._state = "running"

    def make_missing(self) -> Iterator[LaneRun]:
        """Make the missing runs; yield each run once it is stored. Raises a failed run's error."""
        done = {job.key for job in self._measured}
        return run_plan(self.plan, self._make_blocks, self._keep, done)

    def _work(self) -> None:
        self.prepare()
        for _ in self.make_missing():
            pass

    def _checks(self) -> dict[PairSpec, PairCheck]:
        prompts, chat = [item.whole for item in self.plan.items], self.plan.lanes[0].config.chat
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

    def _keep(self, made: Sequence[Kept]) -> None:
        if self._kept is not None:
            try:
                self._kept.keep_together(made)
            except StoreError as error:
                self._cannot_keep(error)
        with self._lock:
            self._measured.update({run.job: run for run, _ in made})

    def _cannot_keep(self, error: StoreError) -> None:
        if self._must_keep:
            raise error
        self.unkept, self._kept = error, None
