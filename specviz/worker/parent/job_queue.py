"""The dashboard's queue of background jobs. It runs one job at a time, even if no page is open."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock, Thread

from specviz.access.demo import refuse_in_demo
from specviz.measure.background_job import Job

_REMEMBERED = 8  # finished jobs


class JobQueue:
    """A queue that runs background jobs one at a time; safe to call from any thread.

    ``on_over`` is called with every job that has ended, unless the queue was closed.
    """

    def __init__(self, on_over: Callable[[Job], object] = lambda _job: None) -> None:
        self._on_over = on_over
        self._jobs: list[Job] = []
        self._thread: Thread | None = None
        self._closed = False
        self._lock = RLock()

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs in order of start; of the finished jobs, only the last few."""
        with self._lock:
            return tuple(self._jobs)

    @property
    def going(self) -> tuple[Job, ...]:
        """Return the running job, followed by the waiting jobs."""
        going = (job for job in self.jobs if job.going)
        return tuple(sorted(going, key=lambda job: job.state == "waiting"))

    def find(self, job_id: str | None) -> Job | None:
        return next((job for job in self.jobs if job.id == job_id), None)

    def newest(self, name: str) -> Job | None:
        """Return the most recently started job with this name, or None."""
        return next((job for job in reversed(self.jobs) if job.name == name), None)

    def start(self, job: Job) -> None:
        """Queue a job; raises SpecvizError in demo mode."""
        refuse_in_demo("measure anything")
        with self._lock:
            over = [each for each in self._jobs if not each.going]
            forgotten = set(over[: max(0, len(over) - _REMEMBERED + 1)])
            self._jobs = [each for each in self._jobs if each not in forgotten] + [job]
            if self._thread is None:
                self._thread = Thread(target=self._carry_out, name="jobs", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop all jobs when the server ends, without calling ``on_over``."""
        self._closed = True
        for job in reversed(self.going):
            job.stop()

    def _carry_out(self) -> None:
        while (job := self._next()) is not None:
            job.carry_out()
            if not job.going and not self._closed:
                self._on_over(job)

    def _next(self) -> Job | None:
        with self._lock:
            job = min(self.going, key=lambda job: job.gives_way, default=None)
            if job is None:
                self._thread = None
            return job
