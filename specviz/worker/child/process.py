"""The worker process: it owns the models and processes one request at a time.

A ``SpecvizError`` is sent to the parent unchanged. Any other exception ends the request; the user
sees the exception's name, and standard error has the traceback. In both cases the process
continues. After a device fault the process ends, and the parent starts another process.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Generator
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from specviz.errors import SpecvizError
from specviz.measure.forecast import make_outlook
from specviz.measure.loaded_pairs import RunMemory
from specviz.measure.measured_run import MeasuredRun, measured_run
from specviz.measure.run_makers import SavingStudy
from specviz.measure.step_costs import stored_costs
from specviz.record.body_costs import BodyRoom
from specviz.record.pairs import PairCheck, Progress
from specviz.record.run_config import refuse_own_drafter
from specviz.record.trace import Trace
from specviz.worker.child.idle_tasks import IdleTasks
from specviz.worker.child.inbox import Inbox, Outbox
from specviz.worker.child.interrupts import Interrupted, TaskInterrupts
from specviz.worker.child.model_limits import stay_offline_if_set
from specviz.worker.child.worker_pairs import WorkerPairs
from specviz.worker.messages import (
    CheckRequest,
    Doing,
    EndCalibrationRequest,
    Hello,
    OutlookMade,
    PrepareRequest,
    Request,
    RequestEnded,
    RoomRequest,
    RunRecord,
    RunRequest,
    RunRound,
    RunStarted,
    RunTimed,
    StudyFound,
    StudyRequest,
    UnloadRequest,
)
from specviz.worker.process_end import DEVICE_FAULT, is_device_fault

if TYPE_CHECKING:
    from specviz.engine import Pair


class Process:
    def __init__(self, connection: Connection) -> None:
        self._send = Outbox(connection).send
        self._interrupts = TaskInterrupts()
        self._inbox = Inbox(connection, self._interrupts, self._send)
        self._pairs = WorkerPairs(self._send, self._inbox)
        self._idle_tasks = IdleTasks(self._send, self._inbox, self._interrupts, self._pairs)

    def serve(self) -> None:
        """Serve until the parent closes the link."""
        self._send(Hello())
        try:
            while True:
                self._turn()
        except Exception as error:
            if not is_device_fault(error):
                raise
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(DEVICE_FAULT)

    def _turn(self) -> None:
        if self._idle_tasks and not self._inbox.waiting():
            self._idle_tasks.work()
        else:
            self._answer(self._inbox.take())

    def _answer(self, request: Request) -> None:
        try:
            ended = self._do(request)
        except Interrupted:
            self._end(request, RequestEnded(request_id=request.id, broken_off=True))
        except SpecvizError as error:
            self._end(request, RequestEnded(request_id=request.id, error=error))
        except Exception as error:
            if is_device_fault(error):
                raise
            traceback.print_exc()
            self._end(request, RequestEnded(request_id=request.id, error=_unexpected(error)))
        else:
            self._end(request, ended)

    def _end(self, request: Request, ended: RequestEnded) -> None:
        self._inbox.forget(request.id)
        self._send(Doing(progress=None))
        self._pairs.report_memory()
        self._send(ended)

    def _do(self, request: Request) -> RequestEnded:
        match request:
            case RunRequest():
                self._run(request)
            case PrepareRequest():
                pair = self._pairs.load(request.spec, request.id, before_kernels=True)
                self._idle_tasks.warm_up(request.spec, pair, fresh=request.fresh)
            case CheckRequest():
                return RequestEnded(request_id=request.id, check=_check(request))
            case RoomRequest():
                return RequestEnded(request_id=request.id, room=_room(request))
            case StudyRequest():
                self._study(request)
            case EndCalibrationRequest():
                self._idle_tasks.end_calibration()
            case UnloadRequest():
                self._pairs.unload()
        return RequestEnded(request_id=request.id)

    def _run(self, request: RunRequest) -> None:
        pair = self._pairs.load(request.spec, request.id, before_kernels=request.before_kernels)
        if request.detects_chat and pair.has_chat:
            request = replace(request, config=replace(request.config, chat=True))
        memory = RunMemory(pair, request.config)
        run = self._begin(request, pair)
        began = run.trace()
        try:
            self._play(request, run)
            self._measure(request, run)
        finally:  # also after a failure, to keep the decoded rounds
            run.keep_caches()
            self._conclude(request, run.trace(), memory)
            self._idle_tasks.mend_costs(request.spec, request.config)
        self._complete_outlook(request, pair, began)

    def _play(self, request: RunRequest, run: MeasuredRun) -> None:
        for entry in run:
            self._send(RunRound(run_id=request.id, entry=entry))
            if self._inbox.stopped(request.id):
                run.stop()

    def _measure(self, request: RunRequest, run: MeasuredRun) -> None:
        """Time the target alone, then measure missing step costs, until a stop signal.

        The target alone is timed in slices, each along a part of the text. Slices timed before the
        signal are kept. If the signal comes before the first slice is timed, the run is reported as
        stopped, otherwise as done.
        """
        try:
            with self._until_stopped(request):
                self._on_progress("timing the target alone" if request.baseline else "")
                for _ in run.timed():
                    self._send_timing(request, run.trace(), over=False)
                self._send_timing(request, run.trace(), over=True)
                run.complete(
                    lambda each: self._send(Doing(progress=each)),
                    costs=not run.lacks_kernels,  # they would soon be out of date
                )
        except Interrupted:
            record = run.trace()
            if record.finish == "stopped" or (request.baseline and record.baseline is None):
                raise

    def _send_timing(self, request: RunRequest, record: Trace, *, over: bool) -> None:
        if record.baseline is not None:
            timing = RunTimed(
                run_id=request.id, baseline=record.baseline, text=record.text,
                finish=record.finish, over=over,
            )  # fmt: skip
            self._send(timing)

    def _complete_outlook(self, request: RunRequest, pair: Pair, began: Trace) -> None:
        """Send the run's predicted speedups if step costs were measured after the run began."""
        if request.kind is not None or began.step_costs is not None:
            return
        costs = stored_costs(pair, request.config)
        outlook = make_outlook(pair, replace(began, step_costs=costs)) if costs else None
        if outlook is not None:
            self._send(OutlookMade(run_id=request.id, outlook=outlook))

    def _conclude(self, request: RunRequest, record: Trace, memory: RunMemory) -> None:
        bare = replace(record, rounds=())  # rounds were sent one by one
        used = memory.measured()
        self._send(RunRecord(run_id=request.id, record=bare, memory_bytes=used))

    def _begin(self, request: RunRequest, pair: Pair) -> MeasuredRun:
        refuse_own_drafter(request.config)
        with self._until_stopped(request):
            run = measured_run(
                pair,
                request.prompt,
                request.config,
                baseline=request.baseline,
                budget=request.budget,
                kind=request.kind,
            )
        record = run.trace()
        outlook = make_outlook(pair, record) if request.kind is None else None
        self._send(RunStarted(run_id=request.id, record=record, outlook=outlook))
        self._send(Doing(progress=None))
        if outlook is None and request.kind is None:
            self._idle_tasks.predict(request.spec, request.id, record)
        return run

    def _study(self, request: StudyRequest) -> None:
        pair = self._pairs.load(request.spec, request.id)
        self._on_progress(request.study.label)
        if isinstance(request.study, SavingStudy):
            self._study_between_stops(request, request.study.find(pair))
            return
        with self._until_stopped(request):
            for value in request.study.find(pair):
                self._send(StudyFound(request_id=request.id, value=value))

    def _study_between_stops(self, request: StudyRequest, values: Generator[object]) -> None:
        """Send the values of a study as they arrive; a stop takes effect only between two values.

        After a stop, the study is closed, which makes it save its progress.
        """
        with closing(values):
            for value in values:
                self._send(StudyFound(request_id=request.id, value=value))
                if self._inbox.stopped(request.id):
                    raise Interrupted

    def _until_stopped(self, request: RunRequest | StudyRequest) -> AbstractContextManager[None]:
        return self._interrupts.until(lambda: self._inbox.stopped(request.id))

    def _on_progress(self, text: str) -> None:
        progress = Progress(activity="measuring", text=text) if text else None
        self._send(Doing(progress=progress))


def main(descriptor: int) -> None:
    stay_offline_if_set()
    Process(Connection(descriptor)).serve()


def _check(request: CheckRequest) -> PairCheck:
    from specviz.engine import check_pair

    return check_pair(request.spec, present=True, prompts=request.prompts, chat=request.chat)


def _room(request: RoomRequest) -> BodyRoom:
    from specviz.engine import body_room

    return body_room(request.spec)


def _unexpected(error: Exception) -> SpecvizError:
    """Return the error to show on a page: type and first line, without the traceback."""
    message = (error.strerror or "") if isinstance(error, OSError) else str(error)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    named = ": ".join([type(error).__name__, *lines[:1]])
    return SpecvizError(
        f"The worker process met an unexpected error ({named}).",
        remedy="Run again. If the error happens again, report it with the output in the terminal.",
    )
