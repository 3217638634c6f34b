"""What crosses the pipe between the dashboard and the process that owns the models.

*Requests* are done one at a time, in the order in which they come; exactly one ``RequestEnded``
answers a request. *Signals* are heeded at once, whatever is being done. *Events* tell what happens.
The rounds of a run cross once, one by one; the traces in other messages have no rounds.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from specviz.errors import SpecvizError
from specviz.figures.throughput import Outlook
from specviz.measure.run_makers import Study
from specviz.record.body_costs import BodyRoom
from specviz.record.pairs import PairCheck, PairSpec, Progress
from specviz.record.trace import Baseline, Finish, Round, RunConfig, Trace

# Requests


def _new_id() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """``kind`` is what the caller calls the prompt's kind; with one, no outlook is made.

    ``budget``: seconds for timing the target alone; the usual ones if None.
    """

    id: str
    spec: PairSpec
    prompt: str
    config: RunConfig
    baseline: bool
    budget: float | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRequest:
    """Load a pair; then, while idle, measure what its first run will need.

    ``fresh`` measures step costs again even if some are stored.
    """

    id: str = field(default_factory=_new_id)
    spec: PairSpec
    fresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """``prompts`` are going to be run on the pair, so they are checked too."""

    id: str = field(default_factory=_new_id)
    spec: PairSpec
    prompts: tuple[str, ...] = ()
    chat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRequest:
    """What this machine has for bodies of a pair; answered in about a second."""

    id: str = field(default_factory=_new_id)
    spec: PairSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRequest:
    """Something to be found out on a pair; what is found comes as it is found."""

    id: str = field(default_factory=_new_id)
    spec: PairSpec
    study: Study


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadRequest:
    id: str = field(default_factory=_new_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCalibrationRequest:
    """Measure step costs again no longer; the stored ones stay."""

    id: str = field(default_factory=_new_id)


Request = (
    RunRequest
    | PrepareRequest
    | CheckRequest
    | RoomRequest
    | StudyRequest
    | UnloadRequest
    | EndCalibrationRequest
)


# Signals


@dataclass(frozen=True, slots=True, kw_only=True)
class StopSignal:
    """End a run after its present round, or what is being measured for it; or a study."""

    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelSignal:
    """Break off the loading that a request asked for, at its next progress report."""

    request_id: str


Signal = StopSignal | CancelSignal


# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The process has started and listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairLoading:
    spec: PairSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PairReady:
    spec: PairSpec
    has_chat: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PairGone:
    """The models were let go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """What takes the time just now; None if there is nothing worth naming."""

    progress: Progress | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrating:
    """Whether step costs are still to be measured again, because somebody asked for it."""

    going: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUsed:
    """Bytes in use: of the GPU if the pair is on one, else of the process."""

    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    run_id: str
    record: Trace
    outlook: Outlook | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRound:
    run_id: str
    entry: Round


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimed:
    """What is known of the target alone so far; the run itself has ended."""

    run_id: str
    baseline: Baseline
    text: str
    finish: Finish
    over: bool  # no more slices will come


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Everything that is known of a run at its end, but for its rounds."""

    run_id: str
    record: Trace
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlookMade:
    """An outlook that could not be made before its run began."""

    run_id: str
    outlook: Outlook


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFound:
    """One of the things that a study finds."""

    request_id: str
    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEnded:
    request_id: str
    error: SpecvizError | None = None
    broken_off: bool = False  # by a signal
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
    | RunStarted
    | RunRound
    | RunTimed
    | RunRecord
    | OutlookMade
    | StudyFound
    | RequestEnded
)
