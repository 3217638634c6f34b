"""What is measured while nobody waits: step costs, and acceptance on other texts.

A request that comes in breaks it off; it begins again in the next pause.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specviz.measure.forecast import kept_profile, measure_profile
from specviz.measure.outlook import can_foretell, kept_outlook
from specviz.measure.step_costs import kept_costs, step_costs
from specviz.record.drafters import first_method
from specviz.record.pairs import PairSpec, Progress
from specviz.record.trace import RunConfig, Trace
from specviz.worker.child.inbox import Inbox
from specviz.worker.child.interrupts import Interrupted, Interrupts
from specviz.worker.child.resident import Resident
from specviz.worker.messages import Doing, Event, OutlookMade
from specviz.worker.parent.deaths import is_device_fault

if TYPE_CHECKING:
    from specviz.engine import Pair

_FIRST_KIND = "story"
_MOST_TASKS = 8  # settings that were passed over while a slider moved are let go
Send = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostsTask:
    spec: PairSpec
    config: RunConfig
    fresh: bool

    def do(self, pair: Pair, send: Send) -> None:
        kept = kept_costs(pair, self.config)
        if kept is not None and not (self.fresh or kept.noisy or kept.sparse):
            return
        step_costs(pair, self.config, fresh=True, tell=lambda each: send(Doing(progress=each)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileTask:
    """Acceptance for one sampling and kind; then the outlook of the run that lacked it."""

    spec: PairSpec
    config: RunConfig
    kind: str
    run_id: str | None = None
    record: Trace | None = None

    def do(self, pair: Pair, send: Send) -> None:
        if kept_profile(pair, self.config, self.kind) is None:
            text = f"measuring acceptance on other texts ({self.kind})"
            send(Doing(progress=Progress(stage="measuring", text=text)))
            measure_profile(pair, self.config, self.kind)
        made = kept_outlook(pair, self.record) if self.record else None
        if self.run_id is not None and made is not None:
            send(OutlookMade(run_id=self.run_id, outlook=made))


Task = CostsTask | ProfileTask


class Pauses:
    """Tasks for the pair that is loaded, the most wanted first."""

    def __init__(
        self, send: Send, inbox: Inbox, interrupts: Interrupts, resident: Resident
    ) -> None:
        self._send = send
        self._inbox = inbox
        self._interrupts = interrupts
        self._resident = resident
        self._tasks: list[Task] = []

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def warm_up(self, spec: PairSpec, pair: Pair, *, fresh: bool) -> None:
        """What the first runs of a pair will ask for."""
        drafter = first_method(has_draft=pair.draft is not None).name
        usual = RunConfig(drafter=drafter)
        greedy = RunConfig(drafter=drafter, temperature=0.0)
        self._tasks += [CostsTask(spec=spec, config=each, fresh=fresh) for each in (usual, greedy)]
        if pair.draft is not None:
            self._tasks.append(ProfileTask(spec=spec, config=usual, kind=_FIRST_KIND))

    def foretell(self, spec: PairSpec, run_id: str, record: Trace) -> None:
        """For a run that had no outlook: make one, if it can have one."""
        kind = record.prompt.kind
        if kind is None or not can_foretell(record):
            return
        task = ProfileTask(spec=spec, config=record.config, kind=kind, run_id=run_id, record=record)
        self._tasks = [task, *self._tasks][:_MOST_TASKS]

    def work(self) -> None:
        """One task, unless a request comes in; then it is still to be done.

        Between two tasks nothing is told: the pair is not at rest.
        """
        task = self._tasks[0]
        pair = self._resident.get(task.spec)
        try:
            if pair is not None:
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
        if not self._tasks:
            self._send(Doing(progress=None))
