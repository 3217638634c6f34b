"""The messages between the dashboard and the worker process.

*Requests* are processed one at a time, in order; each ends with exactly one ``RequestEnded``.
*Signals* are handled at once, even during a request. *Events* report progress and results. Each
round of a run is sent once; traces in other messages have no rounds.
"""

from __future__ import annotations

import uuid
from dataclasses import field

from specviz.errors import SpecvizError
from specviz.figures.throughput import Outlook
from specviz.measure.run_makers import Study
from specviz.record.body_costs import BodyRoom
from specviz.record.conversations import TypedPrompt
from specviz.record.pairs import LoadPart, PairCheck, PairSpec, Progress
from specviz.record.trace import Baseline, Finish, Round, RunConfig, Trace
from specviz.values import Value

# Requests


def _new_id() -> str:
    return uuid.uuid4().hex


class Request(Value):
    id: str = field(default_factory=_new_id)


class PairRequest(Request):
    spec: PairSpec


class RunRequest(PairRequest):
    """Run a prompt.

    Args:
        baseline: Whether to time the target alone.
        budget: Seconds for timing the target alone; None for the default.
        kind: The user's name for the kind of prompt. If it is not None, the worker predicts no
            speedups for this run.
        detects_chat: Whether to use the target's chat template if it has one.
        before_kernels: Whether to run through torch while the kernels are still being compiled.
    """

    prompt: TypedPrompt
    config: RunConfig
    baseline: bool
    budget: float | None = None
    kind: str | None = None
    detects_chat: bool = False
    before_kernels: bool = False


class PrepareRequest(PairRequest):
    """Load a pair, then measure its step costs and acceptance while the worker is idle.

    ``fresh``: measure step costs again even if some are stored.
    """

    fresh: bool = False


class CheckRequest(PairRequest):
    """Check a pair's files, and whether the pair can continue ``prompts``, without loading it."""

    prompts: tuple[TypedPrompt, ...] = ()
    chat: bool = False


class RoomRequest(PairRequest):
    """Ask what limits a pair's simulated sizes (for example, memory); takes about a second."""


class StudyRequest(PairRequest):
    """Run a study (a measurement other than a run); the worker sends its values one by one."""

    study: Study


class UnloadRequest(Request):
    """Unload the models."""


class EndCalibrationRequest(Request):
    """End a user's new measurement of step costs early; stored costs stay valid."""


# Signals


class Signal(Value):
    request_id: str


class StopSignal(Signal):
    """Stop a run (after its current round), a run's measurements, or a study."""


class CancelSignal(Signal):
    """Cancel the loading of models for a request; takes effect at the next progress report."""


class PingSignal(Signal):
    """Ask whether the process is alive; the inbox of the process answers at once, even in a run."""


# Events


class Pong(Value):
    """The answer to a ``PingSignal``. It concerns only the link, so it is no ``Event``."""

    request_id: str


class Hello(Value):
    """The process has started and accepts requests."""


class PairLoading(Value):
    spec: PairSpec


class PairReady(Value):
    """A pair is loaded.

    ``parts``: how long each part of loading took; empty if the pair was already loaded.
    ``notices``: what loading changed, such as quantised weights.
    """

    spec: PairSpec
    has_chat: bool
    parts: tuple[LoadPart, ...] = ()
    notices: tuple[str, ...] = ()


class PairGone(Value):
    """The models were unloaded."""


class Doing(Value):
    """The worker's current activity as shown on pages; None if there is nothing to show."""

    progress: Progress | None


class Calibrating(Value):
    """Whether a new measurement of step costs, requested by the user, is in progress."""

    going: bool


class MemoryUsed(Value):
    """Bytes in use: GPU memory for a pair on a GPU, otherwise the process's memory."""

    memory_bytes: int


class RunEvent(Value):
    """An event of one run."""

    run_id: str


class RunStarted(RunEvent):
    record: Trace
    outlook: Outlook | None


class RunRound(RunEvent):
    entry: Round


class RunTimed(RunEvent):
    """The times of the target alone so far, sent repeatedly until ``over`` is true."""

    baseline: Baseline
    text: str
    finish: Finish
    over: bool  # no more slices follow


class RunRecord(RunEvent):
    """The trace of a run at its end, without its rounds."""

    record: Trace
    memory_bytes: int


class OutlookMade(RunEvent):
    """The predicted speedups of a run, sent if they were not known at ``RunStarted``."""

    outlook: Outlook


class StudyFound(Value):
    """One value of a study."""

    request_id: str
    value: object


class RequestEnded(Value):
    request_id: str
    error: SpecvizError | None = None
    broken_off: bool = False  # a signal ended the request early
    check: PairCheck | None = None
    room: BodyRoom | None = None


Event = (
    Hello
    | PairLoading
    | PairReady
    | PairGone
    | Doing
    | Calibrating
    | MemoryUsed
    | RunEvent
    | StudyFound
    | RequestEnded
)
