"""The client of the worker process: it queues requests, tracks them and replaces a dead process.

The client sends one request at a time, so if the process dies, only that request fails. Only
``close`` waits for the process. The client loads no models.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from threading import RLock, Timer
from weakref import WeakValueDictionary

from specviz.errors import SpecvizError
from specviz.figures.throughput import Outlook
from specviz.measure.run_makers import Study
from specviz.record.conversations import TypedPrompt
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.worker.messages import (
    CancelSignal,
    CheckRequest,
    Doing,
    EndCalibrationRequest,
    Event,
    Hello,
    PrepareRequest,
    Request,
    RequestEnded,
    RoomRequest,
    RunEvent,
    RunRequest,
    Signal,
    StopSignal,
    StudyFound,
    StudyRequest,
    UnloadRequest,
)
from specviz.worker.parent.handles import Check, Room, Run, RunState, StudyHandle
from specviz.worker.parent.link import Link
from specviz.worker.parent.pair_status import PairState, PairStatus
from specviz.worker.parent.request_queue import Handle, QueuedRequest, RequestQueue
from specviz.worker.process_end import failed_start, unexpected_end

__all__ = ["Check", "Outlook", "PairState", "PairStatus", "Room", "Run", "RunState", "Worker"]

_log = logging.getLogger(__name__)


class Worker:
    """Client of the worker process, safe to call from any thread.

    The process starts with the first request. When a run ends, ``on_over`` is called once if the
    run was submitted with ``kept``, has a trace and did not fail. It is called in the thread of the
    link to the process, or in the thread that calls ``close``.
    """

    def __init__(self, on_over: Callable[[Run], None] | None = None) -> None:
        self._on_over = on_over
        self._ended: list[Run] = []  # ended runs for which ``on_over`` was not called yet
        self._lock = RLock()
        self._link: Link | None = None
        self._listening = False  # the process has sent ``Hello``
        self._used = False  # the process has received a request
        self._queue = RequestQueue()
        self._status = PairStatus()
        self._runs: WeakValueDictionary[str, Run] = WeakValueDictionary()
        self._releases: dict[str, Timer] = {}

    @property
    def pid(self) -> int | None:
        link = self._link
        return link.pid if link else None

    @property
    def busy(self) -> bool:
        """Return whether a request is running or queued; idle tasks do not count."""
        with self._lock:
            return self._queue.active is not None or self._queue.waits

    @property
    def waits(self) -> bool:
        """Return whether a request, or a pair to load and measure, is waiting for the process."""
        with self._lock:
            return self._queue.waits

    def start(self) -> None:
        with self._lock:
            if self._link is None:
                self._used = False
                self._link = Link(self._on_event, self._on_end)
                atexit.register(self.close)

    def close(self) -> None:
        """End the process and all requests; a later request starts another process."""
        with self._lock:
            link, self._link = self._link, None
            for session in list(self._releases):
                self.cancel_release(session)
            self._forget_all()
        atexit.unregister(self.close)
        self._report_ended_runs()  # first, because the process may take seconds to end
        if link is not None:
            link.close()

    def status(self) -> PairStatus:
        with self._lock:
            preparing = self._status.state == "loading" or self._queue.changes_pair
            return replace(self._status, preparing=preparing)

    def prepare(self, spec: PairSpec, *, fresh: bool = False) -> None:
        """Load a pair once no request waits; then measure its step costs and acceptance.

        ``fresh``: measure step costs again, in case the stored costs are wrong.
        """
        with self._lock:
            self._queue.wanted = PrepareRequest(spec=spec, fresh=fresh)
            self._send_next()

    def submit(
        self,
        session: str,
        spec: PairSpec,
        prompt: TypedPrompt,
        config: RunConfig,
        *,
        baseline: bool = True,
        budget: float | None = None,
        kept: bool = True,
        kind: str | None = None,
        detects_chat: bool = False,
        before_kernels: bool = False,
        person: str = "",
    ) -> Run:
        """Queue a run, and stop the earlier unfinished runs of this session.

        Args:
            kept: Whether ``on_over`` is called when the run is over.
            detects_chat: Whether to use the target's chat template if it has one.
            before_kernels: Whether to use torch while the kernels are being compiled.
            person: Whose run it is; the run is stored under this key.
        """
        run = Run(session=session, spec=spec, config=config, on_stop=self._stop)
        run.kept, run.person = kept, person
        request = RunRequest(
            id=run.id, spec=spec, prompt=prompt, config=config, baseline=baseline, budget=budget,
            kind=kind, detects_chat=detects_chat, before_kernels=before_kernels,
        )  # fmt: skip
        with self._lock:
            self.cancel_release(session)
            self._stop_all(session, forked={fork.of for fork in config.forks})
            self._runs[run.id] = run
            self._join(request, run)
            self._show_detail()  # what the run waits for, such as loading a pair
        return run

    def check(
        self, spec: PairSpec, prompts: Sequence[TypedPrompt] = (), *, chat: bool = False
    ) -> Check:
        """Queue a check of a pair's small files and of the prompts' lengths."""
        check, prompts = Check(), tuple(prompts)
        with self._lock:
            request = CheckRequest(spec=spec, prompts=prompts, chat=chat)
            self._join(request, check)
        return check

    def room(self, spec: PairSpec) -> Room:
        """Queue a measurement of what limits a pair's simulated sizes: memory, for example."""
        room = Room()
        with self._lock:
            self._join(RoomRequest(spec=spec), room)
        return room

    def study(self, spec: PairSpec, study: Study) -> StudyHandle:
        """Queue a study, a measurement other than a run: scoring a text, for example."""
        request = StudyRequest(spec=spec, study=study)
        studying = StudyHandle(request.id, self._stop_study)
        with self._lock:
            self._join(request, studying)
        return studying

    def end_calibration(self) -> None:
        """End a user's new measurement of step costs early; stored costs stay valid."""
        with self._lock:
            if self._status.calibrating:
                self._join(EndCalibrationRequest())

    def unload(self) -> None:
        with self._lock:
            self._queue.wanted = None
            if self._link is not None:
                self._join(UnloadRequest())

    def cancel_loading(self) -> None:
        """Cancel loading at the next progress report, and stop the run that waits for the pair."""
        with self._lock:
            self._queue.wanted = None
            if self._queue.active is not None:
                self._cancel(self._queue.active)

    def cancel_preparing(self, spec: PairSpec) -> None:
        """Cancel the loading of this pair by ``prepare``; runs and other pairs continue."""
        with self._lock:
            wanted = self._queue.wanted
            if wanted is not None and wanted.spec == spec:
                self._queue.wanted = None
            now = self._queue.active
            if now and isinstance(now.request, PrepareRequest) and now.request.spec == spec:
                self._cancel(now)

    def cancel_release(self, session: str) -> None:
        """Cancel ``release``, because the session's browser tab is still open."""
        with self._lock:
            if (timer := self._releases.pop(session, None)) is not None:
                timer.cancel()

    def release(self, session: str, grace: float = 10.0) -> None:
        """Stop a closed tab's runs after ``grace`` seconds, unless ``cancel_release`` is called."""
        self.cancel_release(session)
        timer = Timer(grace, self._end_session, [session])
        timer.daemon = True
        with self._lock:
            self._releases[session] = timer
        timer.start()

    # The queue

    def _join(self, request: Request, handle: Handle | None = None) -> None:
        self._queue.add(request, handle, self._person())
        self._send_next()

    def _person(self) -> str:
        """Return who makes the current request. Persons take turns in the queue."""
        return ""

    def _send_next(self) -> None:
        """Send the next request if none is active; requests come before preparing a pair."""
        if self._queue.waits:
            self.start()
        if self._listening and self._queue.active is None:
            active = self._queue.activate_next()
            if active is not None:
                self._used = True
                self._signal(active.request)
        self._queue.update_places()

    def _signal(self, message: Request | Signal) -> None:
        assert self._link is not None
        self._link.send(message)

    def _is_active(self, handle: Handle) -> bool:
        return self._queue.active is not None and self._queue.active.handle is handle

    # Stopping

    def _stop(self, run: Run, *, superseded: bool = False) -> None:
        with self._lock:
            if run.finished:
                return
            if run.superseded is None:
                run.superseded = superseded
            if self._is_active(run):
                self._signal(StopSignal(request_id=run.id))
                if run.state == "running":
                    return
            self._queue.remove_waiting(run)
            run.end("stopped")
            self._queue.update_places()

    def _stop_study(self, studying: StudyHandle) -> None:
        with self._lock:
            if self._is_active(studying):
                self._signal(CancelSignal(request_id=studying.id))
                self._signal(StopSignal(request_id=studying.id))
            elif not studying.done:
                self._queue.remove_waiting(studying)
                studying.end(None, None)

    def _stop_all(self, session: str, forked: Collection[str | None] = ()) -> None:
        """Stop a session's runs; mark a run as superseded unless ``forked`` has its id."""
        for run in self._queue.unfinished_runs:
            if run.session == session:
                self._stop(run, superseded=run.id not in forked)

    def _cancel(self, queued: QueuedRequest) -> None:
        run = queued.run
        if run is not None and run.state == "running":
            return
        self._signal(CancelSignal(request_id=queued.request.id))
        if run is not None:
            self._stop(run)

    def _end_session(self, session: str) -> None:
        """Stop a session's runs, and stop loading a pair that no other session waits for."""
        with self._lock:
            if self._releases.pop(session, None) is None:
                return  # cancelled while the timer waited for the lock
            active = self._queue.active
            own = active.run if active is not None else None
            if active is not None and own is not None and own.session == session:
                others = [run for run in self._queue.unfinished_runs if run.session != session]
                if all(run.spec != own.spec for run in others):
                    self._cancel(active)
            self._stop_all(session)

    # Events of the process

    def _on_event(self, link: Link, event: Event) -> None:
        with self._lock:
            if link is not self._link:
                return
            match event:
                case RunEvent():
                    if (run := self._runs.get(event.run_id)) is not None:
                        run.take(event)
                case StudyFound():
                    self._on_found(event)
                case RequestEnded():
                    self._on_ended(event)
                case Hello():
                    self._listening = True
                    self._send_next()
                case _:
                    self._status = self._status.after(event)
                    if isinstance(event, Doing):
                        self._show_detail()
        self._report_ended_runs()

    def _report_ended_runs(self) -> None:
        """Call ``on_over`` for ended runs, outside the lock because the call may be slow."""
        with self._lock:
            ended, self._ended = self._ended, []
        for run in ended:
            if not self._on_over or not run.trace or not run.kept or run.state == "failed":
                continue
            try:
                self._on_over(run)
            except Exception:
                _log.exception("on_over failed for a run")

    def _on_found(self, event: StudyFound) -> None:
        match self._queue.active:
            case QueuedRequest(handle=StudyHandle() as studying) if studying.id == event.request_id:
                studying.found.put(event.value)

    def _show_detail(self) -> None:
        progress = self._status.progress
        for run in self._queue.unfinished_runs[:1]:
            run.detail = progress.text if progress else ""

    def _on_ended(self, event: RequestEnded) -> None:
        queued = self._queue.take_active()
        assert queued is not None
        assert queued.request.id == event.request_id
        self._status = self._status.after_request(event.error)
        run = queued.run
        queued.end(event)
        if run is not None:
            self._ended.append(run)
        self._send_next()

    # The end of the process

    def _on_end(self, link: Link, code: int | None) -> None:
        """Report the request that was in progress as failed, and start another process.

        If the process died before it received a request, only the next request starts another
        process. So a process that always dies at once is not restarted forever.
        """
        with self._lock:
            if link is not self._link:
                return
            started, self._link, self._listening = self._listening, None, False
            error = unexpected_end(code) if started else failed_start(code)
            self._status = PairStatus(state="failed", spec=self._lost_spec(), error=error)
            active = self._queue.take_active()
            lost = [active] if active else []
            if not started:
                lost += self._queue.take_all()
            for queued in lost:
                queued.lose(error)
            if started and self._used:
                self.start()
            self._send_next()

    def _lost_spec(self) -> PairSpec | None:
        request = self._queue.active.request if self._queue.active else None
        loads = isinstance(request, RunRequest | PrepareRequest)
        return self._status.spec or (request.spec if loads else None)

    def _forget_all(self) -> None:
        closed = SpecvizError("The worker was closed.", remedy="Check the pair again.")
        for queued in self._queue.take_all():
            if (run := queued.run) is not None:
                run.end("stopped")
                self._ended.append(run)
            queued.fail(closed)
        self._listening, self._status = False, PairStatus()
