"""Measurements that run while no request waits: step costs, and acceptance on preset prompts.

A request interrupts a task; the task starts again when the worker is next idle.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from specviz.kernels.ahead import is_compiling
from specviz.measure.forecast import can_be_forecast, make_outlook, measure_profile, stored_profile
from specviz.measure.step_costs import mend_step_costs, step_costs
from specviz.record.drafters import first_method
from specviz.record.pairs import COMPILING, PairSpec, Progress
from specviz.record.trace import RunConfig, Trace
from specviz.values import Value
from specviz.worker.child.inbox import Inbox
from specviz.worker.child.interrupts import Interrupted, TaskInterrupts
from specviz.worker.child.worker_pairs import WorkerPairs
from specviz.worker.messages import Calibrating, Doing, Event, OutlookMade
from specviz.worker.process_end import is_device_fault

if TYPE_CHECKING:
    from specviz.engine import Pair

_FIRST_KIND = "story"
_TICK = 0.05  # seconds
_MOST_TASKS = 8  # further ones are dropped; dragging a slider may add many
Send = Callable[[Event], None]


class CostsTask(Value):
    """A task that measures missing or imprecise step costs or, if ``fresh``, all step costs."""

    spec: PairSpec
    config: RunConfig
    tries: Counter[str]  # the same object in all tasks
    fresh: bool = False

    def do(self, pair: Pair, send: Send) -> None:
        def on_progress(progress: Progress) -> None:
            send(Doing(progress=progress))

        if self.fresh:
            step_costs(pair, self.config, fresh=True, on_progress=on_progress)
        else:
            mend_step_costs(pair, self.config, self.tries, on_progress)


class ProfileTask(Value):
    """A task that measures acceptance on one kind of prompt, and then predicts a run's speedups."""

    spec: PairSpec
    config: RunConfig
    kind: str
    run_id: str | None = None
    record: Trace | None = None

    def do(self, pair: Pair, send: Send) -> None:
        if stored_profile(pair, self.config, self.kind) is None:
            text = f"measuring acceptance on other texts ({self.kind})"
            send(Doing(progress=Progress(activity="measuring", text=text)))
            measure_profile(pair, self.config, self.kind)
        made = make_outlook(pair, self.record) if self.record else None
        if self.run_id is not None and made is not None:
            send(OutlookMade(run_id=self.run_id, outlook=made))


Task = CostsTask | ProfileTask


class IdleTasks:
    """A list of tasks for loaded pairs, the most urgent task first."""

    def __init__(
        self, send: Send, inbox: Inbox, interrupts: TaskInterrupts, pairs: WorkerPairs
    ) -> None:
        self._send = send
        self._inbox = inbox
        self._interrupts = interrupts
        self._pairs = pairs
        self._tasks: list[Task] = []
        self._calibrating = False  # as last reported to the dashboard
        self._tries: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def warm_up(self, spec: PairSpec, pair: Pair, *, fresh: bool) -> None:
        """Put the measurements for a pair's first runs at the front of the list."""
        drafter = first_method(pair.draft_kind).name
        usual = RunConfig(drafter=drafter)
        greedy = RunConfig(drafter=drafter, temperature=0.0)
        tasks: list[Task] = [
            CostsTask(spec=spec, config=each, fresh=fresh, tries=self._tries)
            for each in (usual, greedy)
        ]
        if pair.draft is not None:
            tasks.append(ProfileTask(spec=spec, config=usual, kind=_FIRST_KIND))
        self._tasks = [*tasks, *self._tasks][:_MOST_TASKS]
        self._report_calibrating()

    def end_calibration(self) -> None:
        """Drop the tasks that measure all step costs again (``fresh``); keep other tasks."""
        self._tasks = [task for task in self._tasks if not _is_calibration(task)]
        self._report_calibrating()

    def mend_costs(self, spec: PairSpec, config: RunConfig) -> None:
        """Add a task that measures a run's missing and noisy step costs."""
        task = CostsTask(spec=spec, config=config, tries=self._tries)
        if task not in self._tasks:
            self._tasks = [*self._tasks, task][:_MOST_TASKS]

    def predict(self, spec: PairSpec, run_id: str, record: Trace) -> None:
        """If a run can be forecast, add a task that predicts and sends the run's speedups."""
        kind = record.prompt.kind
        if kind is None or not can_be_forecast(record):
            return
        task = ProfileTask(spec=spec, config=record.config, kind=kind, run_id=run_id, record=record)
        self._tasks = [task, *self._tasks][:_MOST_TASKS]

    def work(self) -> None:
        """Do the most urgent task; an interrupted task stays in the list.

        The activity shown to the user is cleared only after the last task or an interruption.
        """
        task = self._tasks[0]
        pair = self._pairs.get(task.spec)
        try:
            if pair is not None:
                if pair.lacks_kernels:
                    self._wait_for_kernels(task.spec)
                with self._interrupts.until(self._inbox.waiting):
                    task.do(pair, self._send)
        except Interrupted:
            self._send(Doing(progress=None))
            return
        except Exception as error:
            if is_device_fault(error):
                raise
            traceback.print_exc()
        del self._tasks[0]
        self._report_calibrating()
        if not self._tasks:
            self._send(Doing(progress=None))

    def _wait_for_kernels(self, spec: PairSpec) -> None:
        """Wait until the kernels are compiled; step costs of torch would soon be out of date."""
        self._send(Doing(progress=COMPILING))
        while is_compiling():  # outside of ``until``: an interruption would leave a lock held
            with self._interrupts.until(self._inbox.waiting):
                time.sleep(_TICK)
        self._pairs.add_kernels(spec)

    def _report_calibrating(self) -> None:
        going = any(_is_calibration(task) for task in self._tasks)
        if going != self._calibrating:
            self._calibrating = going
            self._send(Calibrating(going=going))


def _is_calibration(task: Task) -> bool:
    return isinstance(task, CostsTask) and task.fresh
