"""Background jobs, which make runs one after the other.

One thread executes a job; any thread may watch or stop it. No page owns a job, so it continues when
the user leaves the page.
"""

from __future__ import annotations

import logging
import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from threading import Event
from typing import Literal

from specviz.errors import SpecvizError
from specviz.measure.run_makers import Block, BlockMaker, MadeRun, RunMaker, RunOrder, in_turn
from specviz.measure.stoppable import Activity, StoppableWork, StoppedError
from specviz.record.trace import Trace

JobState = Literal["waiting", "checking", "opening", "running", "done", "failed", "stopped"]

_log = logging.getLogger(__name__)


class SetAsideError(Exception):
    """Raised in ``Job._work`` to let other jobs go first; the job is carried out again later."""


class Job(StoppableWork):
    """A background job; ``name`` is its type, ``label`` its title on pages.

    ``gives_way``: whether other waiting jobs go first, even jobs that were started later.
    """

    gives_way = False

    def __init__(self, *, name: str, label: str) -> None:
        super().__init__()
        self.id = uuid.uuid4().hex
        self.name, self.label = name, label
        self.error: SpecvizError | None = None
        self._state: JobState = "waiting"
        self._over = Event()
        self._activity: Activity | None = None
        self._step = ""  # current part of the activity, for a status line

    @property
    def state(self) -> JobState:
        return self._state

    @property
    def going(self) -> bool:
        """Whether the job is running or queued."""
        return not self._over.is_set()

    @property
    def was_stopped(self) -> bool:
        """Whether a stop was requested, even if the job has not ended yet."""
        return self._stopped

    @property
    def progress(self) -> tuple[int, int]:
        """Return the number of finished runs and the number of planned runs."""
        raise NotImplementedError

    @property
    def seconds_left(self) -> float | None:
        """Return the estimated seconds left; None if that is unknown."""
        return None

    @property
    def doing(self) -> str:
        """Return the current activity for a status line."""
        if self._state == "waiting":
            return "waiting for its turn"
        activity = self._activity.doing if self._activity is not None else ""
        return ": ".join(filter(None, (activity, self._step))) or "starting"

    def carry_out(self) -> None:
        """Execute the job in the calling thread; an exception is stored in ``error``."""
        try:
            self._check_stop()
            self._state = "running"
            self._work()
        except StoppedError:
            self._end("stopped")
        except SetAsideError:
            self._state = "waiting"
            if self._stopped:  # ``stop`` may have been called before the state was "waiting"
                self._end("stopped")
        except SpecvizError as error:
            self.error = error
            self._end("failed")
        except Exception as error:
            _log.exception("The runs failed")
            self.error = SpecvizError(
                f"The runs failed with an unexpected error ({type(error).__name__}).",
                remedy="Start again. If the runs fail again, report the error with the terminal "
                "output.",
            )
            self._end("failed")
        else:
            self._end("done")

    def stop(self) -> None:
        """Stop the job. Finished runs are kept; the current run is discarded."""
        super().stop()
        if self._state == "waiting":
            self._end("stopped")

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the job has ended, or for ``seconds``; return whether the job has ended."""
        return self._over.wait(seconds)

    def _work(self) -> None:
        raise NotImplementedError

    def _end(self, state: JobState) -> None:
        self._state = state
        self._over.set()


class MakerJob(Job):
    """A job whose runs and other measurements (studies) a RunMaker makes."""

    def __init__(self, maker: RunMaker, *, name: str, label: str) -> None:
        super().__init__(name=name, label=label)
        self._maker = self._activity = self._begin(maker)
        self._seconds: list[float] = []

    @property
    def seconds_each(self) -> float | None:
        """Return the median seconds of the finished runs; None before the first has finished."""
        return statistics.median(self._seconds) if self._seconds else None

    @property
    def seconds_left(self) -> float | None:
        """Return the estimated seconds left; None before the first run has finished."""
        done, planned = self.progress
        return None if self.seconds_each is None else self.seconds_each * (planned - done)

    def _make(self, order: RunOrder) -> MadeRun:
        self._check_stop()
        self._step = order.label
        began = time.monotonic()
        made = self._maker.make(order)
        if not order.warm_up:
            self._seconds.append(time.monotonic() - began)
        return made

    def _make_blocks(self, blocks: Sequence[Block]) -> Iterator[tuple[int, tuple[MadeRun, ...]]]:
        """Make the runs of the blocks; yield a block's index and its newly finished runs.

        A block is a group of runs that one device makes, one after the other.
        """
        if not isinstance(self._maker, BlockMaker):
            yield from in_turn(self._make, blocks, set())
            return
        self._check_stop()
        began, count = time.monotonic(), 0
        for place, runs in self._maker.make_blocks(blocks):
            count += len(runs)
            # Wall time divided by finished runs, because several may be made at once.
            self._seconds = [(time.monotonic() - began) / count]
            yield place, runs


class RunsJob(MakerJob):
    """A job that makes runs and then passes all traces to ``conclude``, which may raise."""

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
        for order in self._orders:
            self._traces.append(self._make(order).trace)
        self._conclude(tuple(self._traces))
