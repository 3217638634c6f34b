"""The background job that times an answer against the target alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Never

from specviz.errors import ConfigError, ServerError
from specviz.figures.paired import Ratio
from specviz.measure.background_job import Job
from specviz.measure.run_makers import MadeRun, RunOrder, StoppedError, Study
from specviz.record.pairs import PairCheck, PairSpec
from specviz.record.server_run import ServerBlock, ServerInfo, ServerTrace
from specviz.servers.address import BASELINE_KEY, SERVER_KEY
from specviz.servers.asking import Answer, ask
from specviz.servers.baseline import blocks_against, speedup_of

BASELINE_JOB = "servers"  # its name in the job queue
BLOCKS = 5
_OF_A_BLOCK = 4
_WARM_UP = 2
MOST_ANSWERS = BLOCKS * _OF_A_BLOCK + _WARM_UP


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRequest:
    """The answer to time. ``alone``: the server of the target alone.

    If it is None, the answer's own server turns speculation off.
    """

    trace: ServerTrace
    alone: ServerInfo | None
    allow_remote: bool = False

    @property
    def address(self) -> str:
        return self.alone.address if self.alone else self.trace.info.address


class BaselineJob(Job):
    """Adds to ``blocks`` while it runs; ``answer_id`` is the page's id of the answer."""

    def __init__(self, against: BaselineRequest, answer_id: str) -> None:
        self._answers = _AnswerMaker()
        label = f"Timing {against.trace.info.model} against the target alone"
        super().__init__(self._answers, name=BASELINE_JOB, label=label)
        self.against, self.answer_id = against, answer_id
        self.blocks: tuple[ServerBlock, ...] = ()

    @property
    def progress(self) -> tuple[int, int]:
        return min(self._answers.begun, MOST_ANSWERS), MOST_ANSWERS

    @property
    def doing(self) -> str:
        return "waiting for its turn" if self._state == "waiting" else self._answers.doing

    @property
    def speedup(self) -> Ratio | None:
        return speedup_of(self.blocks)

    def _work(self) -> None:
        self._state = "running"
        try:
            for block in blocks_against(self._speculative, self._alone, blocks=BLOCKS):
                self._check_stop()
                self.blocks = (*self.blocks, block)
        except ServerError:
            self._check_stop()  # a stopped answer is too short to be timed
            raise

    def _speculative(self) -> Answer:
        request = self.against
        self._check_stop()
        return self._answers.begin(
            ask(
                request.trace.info, request.trace.prompt, request.trace.settings, key=SERVER_KEY,
                allow_remote=request.allow_remote,
            ),
            f"with speculation at {request.trace.info.address}",
        )  # fmt: skip

    def _alone(self) -> Answer:
        request, trace = self.against, self.against.trace
        self._check_stop()
        info = request.alone or trace.info
        return self._answers.begin(
            ask(
                info, trace.prompt, trace.settings, allow_remote=request.allow_remote,
                key=BASELINE_KEY if request.alone else SERVER_KEY,
                speculate=request.alone is not None,
            ),
            f"the target alone at {info.address}",
        )  # fmt: skip


class _AnswerMaker:
    """A maker without runs: it keeps the current answer, so that it can be stopped."""

    def __init__(self) -> None:
        self.doing, self.begun = "", 0
        self._answer: Answer | None = None
        self._stopped = False

    def begin(self, answer: Answer, doing: str) -> Answer:
        self._answer, self.doing = answer, doing
        self.begun += 1
        if self._stopped:
            answer.stop()
            raise StoppedError
        return answer

    def stop(self) -> None:
        self._stopped = True
        if self._answer is not None:
            self._answer.stop()

    def check(self, spec: PairSpec, prompts: Sequence[str], *, chat: bool) -> PairCheck:
        del prompts, chat
        _refuse(spec)

    def make(self, order: RunOrder) -> MadeRun:
        _refuse(order.spec)

    def find(self, spec: PairSpec, study: Study) -> Never:
        del study
        _refuse(spec)


def _refuse(spec: PairSpec) -> Never:
    raise ConfigError(f"{spec.label} is not a server.", remedy="Give the address of one.")
