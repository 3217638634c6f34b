"""The stored runs of a comparison's plan, grouped into generations.

All runs of a generation were made with the same weights and versions on the same machine, so they
can be compared. If the weights, the versions or the machine change, a new generation begins. Runs
of different generations are never mixed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal

from specviz.comparison import LaneRun, is_whole
from specviz.comparison.plan import Plan, PlannedRun, plan_from_json, plan_to_json
from specviz.errors import SpecvizError, StoreError
from specviz.record.pairs import PairSpec, Presence
from specviz.record.trace import Environment, PairInfo
from specviz.store import Library, NewRun
from specviz.store.saving import summary_of

Reuse = Literal["any", "unfinished", "restarted", "none"]
"""When to continue the newest generation.

"any": always. "unfinished": only if runs are missing. "restarted": if runs are missing and the
generation is not generation 1, so that a restart leaves the first runs unchanged. "none": never.
"""

Machine = tuple[str, str, str, str, tuple[tuple[str, str], ...]]


class KeptRuns:
    """Stored runs of a plan.

    Call ``open_next`` while ``opening`` is true; each call opens one run stored earlier. Then add
    new runs with ``keep_together``. ``present`` has the current weights and machine of each pair.
    ``changed`` is set if stored runs were skipped, because their models, machine or versions differ
    from the current ones.
    """

    def __init__(
        self,
        plan: Plan,
        library: Library,
        present: Mapping[PairSpec, Presence],
        *,
        title: str,
        reuse: Reuse = "any",
    ) -> None:
        self.runs: list[LaneRun] = []
        self.changed = False
        self._plan, self._library, self._title = plan, library, title
        self._present = {lane: present[each.spec] for lane, each in enumerate(plan.lanes)}
        self._made_with: dict[int, tuple[PairInfo, Machine]] = {}  # by lane
        self._begun = False
        self._waiting = deque[tuple[PlannedRun, str]]()
        newest = max(_generations(plan, library), default=0)
        self._generation = max(newest + 1, 2 if reuse == "restarted" else 1)
        if newest and reuse != "none":
            self._continue(newest, reuse)

    @property
    def key(self) -> str:
        return _key(self._plan, self._generation)

    @property
    def opening(self) -> bool:
        return bool(self._waiting)

    def open_next(self) -> None:
        """Open the next stored run.

        A run that was stopped or cannot be opened is skipped, so that it is made again. If the
        models or the machine of the run have changed since, a new generation begins.
        """
        job, run_id = self._waiting.popleft()
        try:
            trace = self._library.open(run_id)
            memory = self._library.row(run_id).memory_bytes
        except StoreError:
            return
        if trace.config != job.config(self._plan) or not is_whole(self._plan, trace):
            return
        run = LaneRun(job=job, trace=trace, memory_bytes=memory)
        if self._is_current(run) and self._fits(run):
            self.runs.append(run)
        else:
            self._begin_generation()

    def keep_together(self, made: Sequence[tuple[LaneRun, str | None]]) -> None:
        """Add the runs to the library, either all or none.

        Each run comes with its id in the library, or None if it is not stored yet.

        Raises:
            SpecvizError: The models or the machine of a run differ from earlier runs.
        """
        if not all(self._fits(run) for run, _ in made):
            raise SpecvizError(
                "A lane's models or the machine changed after its first runs were stored.",
                remedy="Compare again; all lanes are then measured again.",
            )
        if not self._begun:
            self._library.begin_comparison(self.key, plan_to_json(self._plan), self._title)
            self._begun = True
        self._library.add_together([self._new(run, run_id) for run, run_id in made])
        self.runs.extend(run for run, _ in made)

    def _new(self, run: LaneRun, run_id: str | None) -> NewRun:
        return NewRun(
            trace=run.trace,
            summary=summary_of(run.trace, run.figures),
            run_id=run_id,
            name=self._plan.labels[run.job.lane],
            comparison=self.key,
            job=run.job.key,
            memory_bytes=run.memory_bytes,
        )

    def _continue(self, newest: int, reuse: Reuse) -> None:
        """If ``reuse`` allows it, continue the newest generation instead of beginning another."""
        jobs = {run.key: run for run in self._plan.runs()}
        kept = self._library.comparison_jobs(_key(self._plan, newest))
        whole = jobs.keys() <= kept.keys()
        if reuse == "any" or not (whole or (reuse == "restarted" and newest == 1)):
            self._generation = newest
            self._waiting.extend((jobs[key], kept[key]) for key in jobs if key in kept)

    def _begin_generation(self) -> None:
        """Ignore the stored runs and begin a new generation.

        The stored runs were made with other models or on another machine.
        """
        self._generation += 1
        self._waiting.clear()
        self._made_with.clear()
        self.runs.clear()
        self.changed = True

    def _is_current(self, run: LaneRun) -> bool:
        """Return whether the run was made with the lane's current weights on a current machine."""
        now, pair = self._present[run.job.lane], run.trace.pair
        draft = pair.draft.weights_sha256 if pair.draft else None
        return (
            now.target_sha256 in (None, pair.target.weights_sha256)
            and now.draft_sha256 in (None, draft)
            and _machine(run.trace.environment) in _machines(now)
        )

    def _fits(self, run: LaneRun) -> bool:
        """Return whether the run has the models and the machine of the first run of its lane.

        On a cluster, any of the cluster's machines fits, too. The first run of a lane always fits;
        its models and machine are stored for later calls.
        """
        pair, machine = run.trace.pair, _machine(run.trace.environment)
        first = self._made_with.setdefault(run.job.lane, (pair, machine))
        now = self._present[run.job.lane]
        return pair == first[0] and (
            machine == first[1] or (bool(now.others) and machine in _machines(now))
        )


def _machines(now: Presence) -> set[Machine]:
    return {_machine(each) for each in (now.environment, *now.others)}


def _machine(environment: Environment) -> Machine:
    """Return the values that identify a machine: devices, dtype and library versions.

    The thread count is not among these values, because it may be chosen anew each time a pair is
    loaded.
    """
    each = environment
    versions = tuple(sorted(each.versions.items()))
    return each.device, each.device_name, each.cpu, each.dtype, versions


def _key(plan: Plan, generation: int) -> str:
    return plan.key if generation == 1 else f"{plan.key}.{generation}"


def _generations(plan: Plan, library: Library) -> list[int]:
    """Return the numbers of the plan's generations in the library."""
    begun: list[int] = []
    for row in library.comparisons():
        key, _, number = row.key.partition(".")
        if key == plan.key and (not number or number.isdecimal()):
            begun.append(int(number or 1))
    return begun


# A stored comparison, independent of the current models and machine


def kept_comparison(library: Library, key: str) -> tuple[Plan, tuple[LaneRun, ...]]:
    """Return a stored comparison: its plan and its complete runs, in the plan's order.

    ``key`` identifies the comparison in the library. Runs that cannot be opened are left out.

    Raises:
        StoreError: Runs of one lane were made with different models, so they cannot be pooled.
    """
    plan = plan_from_json(library.comparison(key).plan_json)
    kept = library.comparison_jobs(key)
    opened = [_opened(library, run, kept[run.key]) for run in plan.runs() if run.key in kept]
    runs = tuple(run for run in opened if run is not None and is_whole(plan, run.trace))
    pairs = {(run.job.lane, run.trace.pair) for run in runs}
    if len(pairs) > len({lane for lane, _ in pairs}):
        raise StoreError(
            "A lane's models changed between its stored runs.",
            remedy="Run this comparison again.",
        )
    return plan, runs


def _opened(library: Library, job: PlannedRun, run_id: str) -> LaneRun | None:
    try:
        trace, row = library.open(run_id), library.row(run_id)
    except SpecvizError:
        return None
    return LaneRun(job=job, trace=trace, memory_bytes=row.memory_bytes)
